//! Where values live: lifetimes in, offsets out.

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
pub struct Plan {
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
/// the buffer that sticks out at the top first and packing again. The smallest result wins.
pub fn plan(lifetimes: &[Lifetime]) -> Plan {
    let bound = max_live(lifetimes);
    let size = |i: &usize| std::cmp::Reverse(lifetimes[*i].aligned());
    let span = |i: &usize| std::cmp::Reverse(lifetimes[*i].last - lifetimes[*i].first);
    let start = |i: &usize| lifetimes[*i].first;
    let mut best: Option<Plan> = None;
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
            let top = |i: &usize| candidate.offsets[*i] + lifetimes[*i].aligned() == candidate.arena;
            if let Some(at) = indices.iter().position(top) {
                indices[..=at].rotate_right(1);
            }
            if best.as_ref().is_none_or(|b| candidate.arena < b.arena) {
                best = Some(candidate);
            }
            if best.as_ref().is_some_and(|b| b.arena == bound) {
                return best.unwrap_or_default();
            }
        }
    }
    best.unwrap_or_default()
}

fn pack(lifetimes: &[Lifetime], order: &[usize]) -> Plan {
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
    Plan { offsets, arena }
}
