//! Seeded numbers: pure functions of a seed and of what they are for, the same on every machine.
//!
//! There is one generator, SplitMix64. [`Random`] draws from it one number after the other, [`counted`] finds any number of
//! it without those before. Streams differ in how a seed becomes the state they begin from.

pub mod counted;

use counted::{STEP, mix, number};

/// SplitMix64, a small generator of 64 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The stream of numbers for one purpose: `parts` name it, such as a round and a client.
    pub fn new(seed: u64, parts: &[u64]) -> Random {
        let begin = mix(seed ^ 0x6a09_e667_f3bc_c908);
        Random(
            parts
                .iter()
                .fold(begin, |state, &part| mix(state.rotate_left(23) ^ number(part, 1))),
        )
    }

    /// SplitMix64 as published, begun from a state. Near states are as good as far ones, but a state that another stream
    /// comes by repeats the rest of that stream.
    pub const fn from_state(state: u64) -> Random {
        Random(state)
    }

    /// The stream of one purpose and one index, both counted from 0.
    pub fn numbered(seed: u64, purpose: u64, index: u64) -> Random {
        let purpose = mix(number(seed, 1) ^ purpose.wrapping_add(1).wrapping_mul(STEP));
        Random(mix(purpose ^ number(index, 1)))
    }

    /// The stream by which epoch `epoch`, counted from 0, puts rows in order.
    pub fn of_epoch(seed: u64, epoch: u64) -> Random {
        Random(seed ^ epoch.wrapping_add(1).wrapping_mul(STEP))
    }

    /// 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Uniform in `[0, 1)`.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform below `count`; 0 if that is 0.
    #[inline]
    pub fn below(&mut self, count: u64) -> u64 {
        counted::below(self.bits(), count)
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Puts items in random order, by Fisher and Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first outputs of SplitMix64 from state 1234567.
    #[test]
    fn the_generator_is_splitmix64() {
        let mut random = Random::from_state(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    /// Runs and files of the past were made with these numbers.
    #[test]
    fn streams_begin_where_they_always_have() {
        for (stream, first) in [
            (Random::new(1, &[]), 10_597_403_551_382_543_892),
            (Random::new(1, &[2, 3]), 227_779_110_241_122_963),
            (Random::numbered(7, 3, 11), 2_677_788_484_006_554_366),
            (Random::of_epoch(42, 5), 5_429_081_861_483_792_619),
        ] {
            let mut stream = stream;
            assert_eq!(stream.bits(), first, "{stream:?}");
        }
    }

    #[test]
    fn streams_differ_by_seed_and_purpose_and_repeat() {
        let first = |seed, parts: &[u64]| Random::new(seed, parts).bits();
        assert_eq!(first(1, &[2, 3]), first(1, &[2, 3]));
        let all = [
            first(1, &[2, 3]),
            first(1, &[3, 2]),
            first(2, &[2, 3]),
            first(1, &[2]),
            first(1, &[2, 3, 0]),
            Random::numbered(1, 2, 3).bits(),
            Random::numbered(1, 3, 2).bits(),
            Random::of_epoch(1, 2).bits(),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }

    #[test]
    fn numbers_have_the_moments_they_should() {
        let (mut random, n) = (Random::new(7, &[]), 50_000);
        let uniform: f64 = (0..n).map(|_| random.uniform()).sum::<f64>() / f64::from(n);
        let square: f64 = (0..n).map(|_| random.normal().powi(2)).sum::<f64>() / f64::from(n);
        assert!((uniform - 0.5).abs() < 0.01, "{uniform}");
        assert!((square - 1.0).abs() < 0.03, "{square}");
    }

    #[test]
    fn nothing_is_below_zero_and_all_below_a_count_comes() {
        let mut random = Random::from_state(0);
        assert_eq!(random.below(0), 0);
        let mut seen = [0; 5];
        (0..5000).for_each(|_| seen[random.below(5) as usize] += 1);
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
    }

    #[test]
    fn every_order_of_a_shuffle_is_as_likely() {
        let (mut random, mut seen) = (Random::new(3, &[]), std::collections::BTreeMap::new());
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
    }
}
