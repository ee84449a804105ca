//! Seeded numbers: pure functions of a seed and of what they are for, the same on every machine.

/// A small generator of 64 bits.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of numbers for one purpose: `parts` name it, such as a round and a client.
    pub fn new(seed: u64, parts: &[u64]) -> Random {
        let begin = mix(seed ^ 0x6a09_e667_f3bc_c908);
        Random(parts.iter().fold(begin, |state, &part| {
            mix(state.rotate_left(23) ^ mix(part.wrapping_add(0x9e37_79b9_7f4a_7c15)))
        }))
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform below `count`; 0 if that is 0.
    pub fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(count)) >> 64) as u64
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

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
