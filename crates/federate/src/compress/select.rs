//! Which places of an update travel.

use synod_core::Random;

/// Bits of a magnitude by which values are first told apart: exponent and a little more.
const COARSE: u32 = 20;
const BINS: usize = 1 << (31 - COARSE);
const PURPOSE: u64 = 0x706c_6163_6573;

/// The `count` places of largest magnitude, ascending; of equal ones the first.
pub(super) fn largest(values: &[f32], count: usize) -> Vec<u32> {
    if count == 0 {
        return Vec::new();
    }
    let (least, mut ties) = threshold(values, count.min(values.len()));
    let mut places = Vec::with_capacity(count);
    for (place, &value) in values.iter().enumerate() {
        let magnitude = magnitude(value);
        if magnitude >= least {
            if magnitude == least {
                if ties == 0 {
                    continue;
                }
                ties -= 1;
            }
            places.push(place as u32);
        }
    }
    places
}

/// The magnitude of the `count`-th largest, and how many of exactly that magnitude are among them.
fn threshold(values: &[f32], count: usize) -> (u32, usize) {
    let histogram = histogram(values);
    let (mut bin, mut above) = (BINS - 1, 0);
    while above + (histogram[bin] as usize) < count && bin > 0 {
        above += histogram[bin] as usize;
        bin -= 1;
    }
    let mut within = Vec::with_capacity(histogram[bin] as usize);
    within.extend(
        values
            .iter()
            .map(|&value| magnitude(value))
            .filter(|m| (m >> COARSE) as usize == bin),
    );
    let rank = count - above - 1;
    let (larger, &mut least, _) = within.select_nth_unstable_by(rank, |a, b| b.cmp(a));
    let strictly = larger.iter().filter(|&&m| m > least).count();
    (least, rank + 1 - strictly)
}

fn histogram(values: &[f32]) -> Vec<u32> {
    // Neighbours often fall in the same bin: two tables keep one addition from waiting for the other.
    let (mut even, mut odd) = (vec![0u32; BINS], vec![0u32; BINS]);
    let pairs = values.chunks_exact(2);
    for &last in pairs.remainder() {
        even[(magnitude(last) >> COARSE) as usize] += 1;
    }
    for pair in pairs {
        even[(magnitude(pair[0]) >> COARSE) as usize] += 1;
        odd[(magnitude(pair[1]) >> COARSE) as usize] += 1;
    }
    even.iter_mut().zip(&odd).for_each(|(e, o)| *e += o);
    even
}

/// Orders finite numbers as their absolute value does.
pub(super) fn magnitude(value: f32) -> u32 {
    value.to_bits() & 0x7fff_ffff
}

/// One place at random from each of `count` equal stretches of `len` places, with the length of its stretch.
///
/// A place's chance is one over that length, so a value times the length is right on average.
pub(super) fn scattered(seed: u64, count: u32, len: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut random = Random::new(seed, &[PURPOSE]);
    let start = move |stretch: u32| (u64::from(stretch) * u64::from(len) / u64::from(count)) as u32;
    (0..count).map(move |stretch| {
        let (from, to) = (start(stretch), start(stretch + 1));
        (from + random.below(u64::from(to - from)) as u32, to - from)
    })
}
