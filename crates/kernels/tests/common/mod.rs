//! Numbers to test with, and what "equal enough" means.
#![allow(dead_code, reason = "every test binary uses its own part")]

use synod_kernels::{Level, Simd};

/// A small generator with a fixed seed, so that failures repeat.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 33) as usize) % bound
    }

    /// Uniform in [-1, 1).
    pub(crate) fn number(&mut self) -> f32 {
        self.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn numbers(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.number()).collect()
    }
}

/// Every level this CPU supports. Fails if the one `SYNOD_SIMD` names is not among them, lest a test pass without it.
#[track_caller]
pub(crate) fn levels() -> Vec<Simd> {
    if let Err(error) = Simd::from_env() {
        panic!("{error}");
    }
    Simd::available()
}

/// Every level, the widest with steps left to the divider and without: this CPU would only ever take one of them.
#[track_caller]
pub(crate) fn ways() -> Vec<Simd> {
    let mut ways = levels();
    if let Some(widest) = ways.iter().copied().find(|simd| simd.level() == Level::Avx512) {
        ways.retain(|simd| *simd != widest);
        ways.extend([widest.dividing(true), widest.dividing(false)]);
    }
    ways
}

/// How many rounds a randomised test makes; Miri is some thousand times slower.
pub(crate) fn rounds(usual: usize) -> usize {
    if cfg!(miri) { (usual / 50).max(2) } else { usual }
}

#[track_caller]
pub(crate) fn assert_close(found: &[f32], wanted: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (i, (&f, &w)) in found.iter().zip(wanted).enumerate() {
        let error = (f as f64 - w).abs();
        assert!(
            error <= tolerance * w.abs().max(1.0),
            "{what}: element {i} is {f}, not {w}"
        );
    }
}

/// The error function: its series near zero, the continued fraction of its complement elsewhere.
pub(crate) fn erf(x: f64) -> f64 {
    let size = x.abs();
    if size < 2.5 {
        let mut term = x;
        let mut sum = x;
        for n in 1..100 {
            term *= -x * x / n as f64;
            sum += term / (2 * n + 1) as f64;
        }
        return sum * 2.0 / std::f64::consts::PI.sqrt();
    }
    let fraction = (1..60).rev().fold(size, |below, n| size + n as f64 / 2.0 / below);
    (1.0 - (-size * size).exp() / (fraction * std::f64::consts::PI.sqrt())).copysign(x)
}
