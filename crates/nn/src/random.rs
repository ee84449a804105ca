//! Seeded order and numbers: pure functions of a seed, the same on every machine.

use synod_core::Random;
use synod_engine::ops::{Distribution, key};
use synod_engine::random;

/// Number `index` of stream `stream` under `seed`, uniform in `[0, 1)`.
pub(crate) fn uniform(seed: u64, stream: u32, index: usize) -> f32 {
    random(
        Distribution::Uniform,
        bits(seed, stream),
        (seed >> 32) as u32,
        index,
    )
}

/// Number `index` of stream `stream` under `seed`, standard normal.
pub(crate) fn normal(seed: u64, stream: u32, index: usize) -> f32 {
    random(
        Distribution::Normal,
        bits(seed, stream),
        (seed >> 32) as u32,
        index,
    )
}

fn bits(seed: u64, stream: u32) -> [u32; 4] {
    key(seed as u32, stream).map(|half| half as u32)
}

/// The order of rows in an epoch: a permutation that depends on seed and epoch only.
pub struct Shuffle {
    seed: u64,
    order: Vec<u32>,
}

impl Shuffle {
    /// For `rows` rows.
    pub fn new(rows: usize, seed: u64) -> Shuffle {
        Shuffle {
            seed,
            order: (0..rows as u32).collect(),
        }
    }

    /// The permutation of epoch `epoch`, by Fisher and Yates. Allocates nothing.
    pub fn epoch(&mut self, epoch: usize) -> &[u32] {
        self.order
            .iter_mut()
            .enumerate()
            .for_each(|(i, row)| *row = i as u32);
        Random::of_epoch(self.seed, epoch as u64).shuffle(&mut self.order);
        &self.order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_is_another_permutation_and_the_same_one_again() {
        let mut a = Shuffle::new(100, 7);
        let (first, second) = (a.epoch(0).to_vec(), a.epoch(1).to_vec());
        assert_ne!(first, second);
        assert_eq!(Shuffle::new(100, 7).epoch(0), first);
        assert_ne!(Shuffle::new(100, 8).epoch(0), first);
        let mut sorted = first;
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..100));
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_unit_variance() {
        let n = 20_000;
        let xs: Vec<f64> = (0..n).map(|i| f64::from(normal(3, 1, i))).collect();
        let mean = xs.iter().sum::<f64>() / n as f64;
        let variance = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        assert!(
            mean.abs() < 0.03 && (variance - 1.0).abs() < 0.04,
            "{mean} {variance}"
        );
    }
}
