//! Random numbers and the few functions of analysis that the cluster needs, the same to the bit on every machine.
//!
//! Only sums, products, quotients, square roots and roundings are used, which IEEE 754 fixes exactly; the exponential and
//! the sine of a system's library differ in the last bit from one system to the next.

use synod_core::Random;

/// What a stream of random numbers is for; streams of different purpose or index share nothing.
#[derive(Copy, Clone, Debug)]
pub(super) enum Stream {
    Room,
    Rack,
    Schedule,
    Job,
    Hardware,
    Faults,
    Labels,
    Gaps,
    Load,
    Sensors,
    Shapes,
    Fault,
}

/// The shared generator, begun from a seed, a purpose and an index.
#[derive(Clone, Debug)]
pub(super) struct Rng(Random);

impl Rng {
    pub(super) fn new(seed: u64, stream: Stream, index: u64) -> Rng {
        Rng(Random::numbered(seed, stream as u64, index))
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// In `[0, 1)`.
    pub(super) fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// A whole number below `n`, which must not be 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }

    /// Mean 0 and deviation 1: the sum of twelve uniform 16-bit numbers, so never beyond 6.
    pub(super) fn normal(&mut self) -> f64 {
        let sum: u64 = (0..3).map(|_| quarters(self.bits())).sum();
        sum as f64 / 65536.0 - 6.0 + 12.0 / 131_072.0
    }

    pub(super) fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        median * exp(sigma * self.normal())
    }
}

/// The sum of a number's four 16-bit parts.
fn quarters(bits: u64) -> u64 {
    (0..4).map(|i| (bits >> (16 * i)) & 0xFFFF).sum()
}

/// Mean 0 and deviation 1 from the upper 48 bits of a number: cheap, and never beyond 3.
pub(super) fn rough_normal(bits: u64) -> f64 {
    let sum = (bits >> 48) + ((bits >> 32) & 0xFFFF) + ((bits >> 16) & 0xFFFF);
    2.0 * (sum as f64 / 65536.0 - 1.5 + 3.0 / 131_072.0)
}

/// The exponential, exact to about one part in 10¹⁴.
pub(super) fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let k = (x * std::f64::consts::LOG2_E).round();
    let r = x - k * std::f64::consts::LN_2;
    let series = (1..=13).rev().fold(1.0, |sum, n| 1.0 + sum * r / f64::from(n));
    series * f64::from_bits(((k as i64 + 1023) as u64) << 52)
}

/// The sine of a number of turns.
pub(super) fn wave(turns: f64) -> f64 {
    let part = turns - turns.round();
    let folded = match part {
        p if p > 0.25 => 0.5 - p,
        p if p < -0.25 => -0.5 - p,
        p => p,
    };
    let x = folded * std::f64::consts::TAU;
    let square = x * x;
    let series = (1..=8).rev().fold(1.0, |sum, n| {
        let n = f64::from(n);
        1.0 - sum * square / ((2.0 * n) * (2.0 * n + 1.0))
    });
    x * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_and_sine_are_those_of_the_library_to_ten_digits() {
        for i in -200..200 {
            let x = f64::from(i) * 0.1;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-12, "exp {x}");
            assert!(
                (wave(x) - (x * std::f64::consts::TAU).sin()).abs() < 1e-10,
                "sin {x}"
            );
        }
    }

    #[test]
    fn normals_have_the_moments_of_normals() {
        let mut rng = Rng::new(1, Stream::Load, 2);
        let draws: Vec<f64> = (0..100_000).map(|_| rng.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let square = draws.iter().map(|x| x * x).sum::<f64>() / 1e5;
        let rough: Vec<f64> = (0..100_000).map(|_| rough_normal(rng.bits())).collect();
        let rough_square = rough.iter().map(|x| x * x).sum::<f64>() / 1e5;
        assert!(
            mean.abs() < 0.02 && (square - 1.0).abs() < 0.02,
            "{mean} {square}"
        );
        assert!((rough_square - 1.0).abs() < 0.02, "{rough_square}");
    }

    #[test]
    fn streams_do_not_repeat_each_other() {
        let first = |seed, stream, index| Rng::new(seed, stream, index).bits();
        let all = [
            first(1, Stream::Room, 0),
            first(2, Stream::Room, 0),
            first(1, Stream::Rack, 0),
            first(1, Stream::Room, 1),
        ];
        let distinct: std::collections::BTreeSet<u64> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
