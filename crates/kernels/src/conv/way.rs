//! The ways to compute a correlation, and the choice between them.

use super::{correlation::Correlation, finish::Finish, sweep, winograd};
use crate::level::Simd;

/// A correlation cut for a number of threads. Which way it goes depends on neither the threads nor the number of images.
#[expect(
    clippy::large_enum_variant,
    reason = "made for one call, and nothing is allocated in one"
)]
pub(super) enum Way {
    /// Products of every tap with every source.
    Taps(sweep::Plan),
    /// Products of values at points.
    Points(winograd::Plan),
}

impl Way {
    pub(super) fn new(simd: Simd, shape: &Correlation, threads: usize) -> Way {
        match winograd::Plan::new(simd, shape, threads) {
            Some(plan) => Way::Points(plan),
            None => Way::Taps(sweep::Plan::new(simd, shape, threads)),
        }
    }

    /// Floats of the packed weights.
    pub(super) fn packed_len(&self) -> usize {
        match self {
            Way::Taps(plan) => plan.layout.len(),
            Way::Points(plan) => plan.packed_len(),
        }
    }

    /// Packs the weights.
    pub(super) fn pack(&self, simd: Simd, weights: &[f32], to: &mut [f32], threads: usize) {
        match self {
            Way::Taps(plan) => plan.layout.pack(simd, weights, to),
            Way::Points(plan) => plan.pack(simd, weights, to, threads),
        }
    }

    /// Floats of workspace, besides those of the packed weights.
    pub(super) fn workspace(&self) -> usize {
        match self {
            Way::Taps(plan) => plan.workspace(),
            Way::Points(plan) => plan.workspace(),
        }
    }

    /// Computes all results from packed weights.
    pub(super) fn run(
        &self,
        simd: Simd,
        source: &[f32],
        panels: &[f32],
        finish: Finish<'_>,
        target: &mut [f32],
        workspace: &mut [f32],
    ) {
        match self {
            Way::Taps(plan) => plan.run(simd, source, panels, finish, target, workspace),
            Way::Points(plan) => plan.run(simd, source, panels, finish, target, workspace),
        }
    }
}
