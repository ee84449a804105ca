//! Where values live: lifetimes in, offsets out.

use synod_core::Random;

/// Offsets are multiples of this many `f32`: 64 bytes.
pub const ALIGNMENT: usize = 16;

/// A buffer that must exist from step `first` to step `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Size in `f32`.
    pub size: usize,
    /// The step that writes it first.
    pub first: usize,
    /// The last step that needs it.
    pub last: usize,
}

impl Lifetime {
    fn aligned(&self) -> usize {
        self.size.next_multiple_of(ALIGNMENT)
    }

    fn overlaps(&self, other: &Lifetime) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Offsets for a list of lifetimes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// One offset per lifetime.
    pub offsets: Vec<usize>,
    /// The size of the arena.
    pub arena: usize,
}

/// The most that is alive at once, each buffer rounded up to the alignment: no plan can be smaller.
pub fn max_live(lifetimes: &[Lifetime]) -> usize {
    let at = |t: usize| {
        lifetimes
            .iter()
            .filter(|l| l.first <= t && t <= l.last)
            .map(Lifetime::aligned)
            .sum()
    };
    lifetimes.iter().map(|l| at(l.first)).max().unwrap_or(0)
}

/// How often a plan is mended before the next order is tried.
const REPAIRS: usize = 24;

/// Packs buffers so that none overlaps another that lives at the same time.
///
/// Greedy in several orders; offsets are the lowest that are free for the whole lifetime. Each plan is mended by placing
/// the buffer that sticks out at the top first and packing again. The smallest result wins; where it is far from the bound,
/// its order is changed one buffer at a time for as long as that helps.
pub fn plan(lifetimes: &[Lifetime]) -> MemoryPlan {
    let bound = max_live(lifetimes);
    let size = |i: &usize| std::cmp::Reverse(lifetimes[*i].aligned());
    let span = |i: &usize| std::cmp::Reverse(lifetimes[*i].last - lifetimes[*i].first);
    let start = |i: &usize| lifetimes[*i].first;
    let mut best: Option<(MemoryPlan, Vec<usize>)> = None;
    for order in 0..4 {
        let mut indices: Vec<usize> = (0..lifetimes.len()).collect();
        match order {
            0 => indices.sort_by_key(|i| (size(i), span(i), start(i))),
            1 => indices.sort_by_key(|i| (start(i), size(i))),
            2 => indices.sort_by_key(|i| (span(i), size(i))),
            _ => indices.sort_by_key(|i| (std::cmp::Reverse(lifetimes[*i].last), size(i))),
        }
        for _ in 0..=REPAIRS {
            let candidate = pack(lifetimes, &indices);
            if best.as_ref().is_none_or(|(b, _)| candidate.arena < b.arena) {
                best = Some((candidate.clone(), indices.clone()));
            }
            if candidate.arena == bound {
                return candidate;
            }
            let top = |i: &usize| candidate.offsets[*i] + lifetimes[*i].aligned() == candidate.arena;
            if let Some(at) = indices.iter().position(top) {
                indices[..=at].rotate_right(1);
            }
        }
    }
    best.map_or_else(MemoryPlan::default, |(plan, order)| {
        improve(lifetimes, plan, order, bound)
    })
}

/// How many pairs of buffers may be compared in search of a better order: a packing compares each with each.
const COMPARISONS: usize = 500_000;

/// Moves one buffer of the order at a time, by a fixed random sequence, and keeps what is no worse.
fn improve(lifetimes: &[Lifetime], mut plan: MemoryPlan, mut order: Vec<usize>, bound: usize) -> MemoryPlan {
    let mut random = Random::from_state(1);
    let mut below = |count: usize| random.below(count as u64) as usize;
    for _ in 0..COMPARISONS / order.len().pow(2).max(1) {
        if plan.arena <= bound + bound / 20 {
            break;
        }
        let (from, to) = (below(order.len()), below(order.len()));
        let mut changed = order.clone();
        let moved = changed.remove(from);
        changed.insert(to, moved);
        let candidate = pack(lifetimes, &changed);
        if candidate.arena <= plan.arena {
            (plan, order) = (candidate, changed);
        }
    }
    plan
}

fn pack(lifetimes: &[Lifetime], order: &[usize]) -> MemoryPlan {
    let mut offsets = vec![0; lifetimes.len()];
    let mut placed: Vec<usize> = vec![];
    let mut arena = 0;
    for &i in order {
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&j| lifetimes[j].overlaps(&lifetimes[i]) && lifetimes[j].size > 0)
            .map(|&j| (offsets[j], offsets[j] + lifetimes[j].aligned()))
            .collect();
        taken.sort_unstable();
        let mut at = 0;
        for (from, to) in taken {
            if at + lifetimes[i].aligned() <= from {
                break;
            }
            at = at.max(to);
        }
        offsets[i] = at;
        arena = arena.max(at + lifetimes[i].aligned());
        placed.push(i);
    }
    MemoryPlan { offsets, arena }
}
