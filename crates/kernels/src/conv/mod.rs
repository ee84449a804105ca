//! Two-dimensional convolution of images whose channels are innermost, and its gradients.
//!
//! The products are those of a matrix product with the images' patches, but the patches are never written out: a
//! padded copy of a few rows stays in the cache, and the register tile reads it through one pointer per result.
//! Filters of 3 x 3 and 5 x 5 take fewer products, by values at points.

use crate::activation::{Activation, Gate};
use crate::level::Simd;

pub(crate) mod band;
pub(crate) mod correlation;
mod depthwise;
mod depthwise_gradient;
mod dot_tile;
pub(crate) mod filter;
mod finish;
mod geometry;
mod gradient_tile;
mod sweep;
mod tile;
mod way;
mod weight_gradient;
mod winograd;

use correlation::Correlation;
use finish::Finish;
pub(crate) use geometry::{Axis, volume};
pub use geometry::{Conv, Geometry, GeometryError};
use way::Way;

/// What happens to a convolution's sums on their way to memory: `y = act(sum + bias + residual)`.
#[derive(Copy, Clone, Debug)]
pub struct ConvEpilogue<'a> {
    /// One value per channel of the result.
    pub bias: Option<&'a [f32]>,
    /// A tensor of the result's shape, added before the activation.
    pub residual: Option<&'a [f32]>,
    /// The function applied to the sum.
    pub activation: Activation,
}

impl Default for ConvEpilogue<'_> {
    fn default() -> Self {
        ConvEpilogue {
            bias: None,
            residual: None,
            activation: Activation::Identity,
        }
    }
}

/// The weights of a convolution.
#[derive(Copy, Clone, Debug)]
pub enum ConvWeights<'a> {
    /// In their own layout, `[kernel_h, kernel_w, c / groups, o]`.
    Plain(&'a [f32]),
    /// Written by [`Conv::pack_into`] of the same convolution at the same level; the batch may differ.
    Panels(&'a [f32]),
}

impl Conv {
    /// The floats that [`Conv::pack_into`] writes.
    pub fn packed_len(&self, simd: Simd) -> usize {
        if self.is_depthwise() {
            return self.weight_len();
        }
        Way::new(simd, &Correlation::forward(self), 1).packed_len()
    }

    /// Packs weights for many forward passes.
    pub fn pack_into(&self, simd: Simd, w: &[f32], panels: &mut [f32]) {
        self.check_len("w", w.len(), self.weight_len());
        self.check_len("panels", panels.len(), self.packed_len(simd));
        if self.is_depthwise() {
            panels.copy_from_slice(w);
        } else {
            Way::new(simd, &Correlation::forward(self), 1).pack(simd, w, panels, 1);
        }
    }

    /// The floats of workspace that [`Conv::forward`] needs with packed weights.
    pub fn packed_workspace(&self, simd: Simd, threads: usize) -> usize {
        if self.is_depthwise() {
            return 0;
        }
        Way::new(simd, &Correlation::forward(self), threads).workspace()
    }

    /// The floats of workspace that [`Conv::forward`] needs.
    pub fn forward_workspace(&self, simd: Simd, threads: usize) -> usize {
        if self.is_depthwise() {
            return 0;
        }
        let way = Way::new(simd, &Correlation::forward(self), threads);
        way.packed_len() + way.workspace()
    }

    /// `y = epilogue(x * w)`. The bits of the result do not depend on `threads` or on packing, and with one thread
    /// nothing is allocated.
    #[expect(
        clippy::too_many_arguments,
        reason = "operands of one kernel, and where it runs"
    )]
    pub fn forward(
        &self,
        simd: Simd,
        x: &[f32],
        w: ConvWeights<'_>,
        epilogue: &ConvEpilogue<'_>,
        y: &mut [f32],
        threads: usize,
        workspace: &mut [f32],
    ) {
        self.check_len("x", x.len(), self.input_len());
        self.check_len("y", y.len(), self.output_len());
        self.check_epilogue(epilogue);
        let shape = Correlation::forward(self);
        let finish = Finish {
            bias: epilogue.bias,
            residual: epilogue.residual,
            activation: epilogue.activation,
            gate: Gate::Open,
        };
        match w {
            ConvWeights::Plain(w) => self.check_len("w", w.len(), self.weight_len()),
            ConvWeights::Panels(panels) => self.check_len("panels", panels.len(), self.packed_len(simd)),
        }
        if self.is_depthwise() {
            let w = match w {
                ConvWeights::Plain(w) => w,
                ConvWeights::Panels(panels) => panels,
            };
            return depthwise::correlate(simd, &shape, x, w, finish, y, threads);
        }
        let way = Way::new(simd, &shape, threads);
        let room = match w {
            ConvWeights::Plain(_) => way.packed_len(),
            ConvWeights::Panels(_) => 0,
        };
        self.check_workspace("forward", workspace.len(), room + way.workspace());
        let (packed, rest) = workspace.split_at_mut(room);
        let panels = match w {
            ConvWeights::Plain(w) => {
                way.pack(simd, w, packed, threads);
                packed
            }
            ConvWeights::Panels(panels) => panels,
        };
        way.run(simd, x, panels, finish, y, rest);
    }

    /// The floats of workspace that [`Conv::input_gradient`] needs.
    pub fn input_gradient_workspace(&self, simd: Simd, threads: usize) -> usize {
        if self.is_depthwise() {
            return 0;
        }
        let needed = |phase| {
            let way = Way::new(simd, &Correlation::input_gradient(self, phase), threads);
            way.packed_len() + way.workspace()
        };
        self.phases().map(needed).max().unwrap_or(0)
    }

    /// `dx = gate(gradient of the images)`, from the gradient `dy` of the result and the weights. The bits of the result
    /// do not depend on `threads`.
    #[expect(
        clippy::too_many_arguments,
        reason = "operands of one kernel, and where it runs"
    )]
    pub fn input_gradient(
        &self,
        simd: Simd,
        dy: &[f32],
        w: &[f32],
        gate: Gate<'_>,
        dx: &mut [f32],
        threads: usize,
        workspace: &mut [f32],
    ) {
        self.check_len("dy", dy.len(), self.output_len());
        self.check_len("w", w.len(), self.weight_len());
        self.check_len("dx", dx.len(), self.input_len());
        gate.check(dx.len(), "conv input gradient");
        let finish = Finish {
            bias: None,
            residual: None,
            activation: Activation::Identity,
            gate,
        };
        for phase in self.phases() {
            let shape = Correlation::input_gradient(self, phase);
            if self.is_depthwise() {
                depthwise::correlate(simd, &shape, dy, w, finish, dx, threads);
                continue;
            }
            let way = Way::new(simd, &shape, threads);
            let needed = way.packed_len() + way.workspace();
            self.check_workspace("input gradient", workspace.len(), needed);
            let (packed, rest) = workspace.split_at_mut(way.packed_len());
            way.pack(simd, w, packed, threads);
            way.run(simd, dy, packed, finish, dx, rest);
        }
    }

    /// The floats of workspace that [`Conv::weight_gradient`] needs.
    pub fn weight_gradient_workspace(&self, simd: Simd, threads: usize) -> usize {
        if self.is_depthwise() {
            return 0;
        }
        let shape = Correlation::forward(self);
        match winograd::GradientPlan::new(simd, &shape, threads) {
            Some(plan) => plan.workspace(),
            None => weight_gradient::Plan::new(simd, &shape, threads).workspace(),
        }
    }

    /// `dw` = gradient of the weights, from the images and the gradient `dy` of the result. The bits of the result do
    /// not depend on `threads`.
    pub fn weight_gradient(
        &self,
        simd: Simd,
        x: &[f32],
        dy: &[f32],
        dw: &mut [f32],
        threads: usize,
        workspace: &mut [f32],
    ) {
        self.check_len("x", x.len(), self.input_len());
        self.check_len("dy", dy.len(), self.output_len());
        self.check_len("dw", dw.len(), self.weight_len());
        let shape = Correlation::forward(self);
        if self.is_depthwise() {
            return depthwise_gradient::weight_gradient(simd, &shape, x, dy, dw, threads);
        }
        if let Some(plan) = winograd::GradientPlan::new(simd, &shape, threads) {
            self.check_workspace("weight gradient", workspace.len(), plan.workspace());
            return plan.run(simd, x, dy, dw, workspace);
        }
        let plan = weight_gradient::Plan::new(simd, &shape, threads);
        self.check_workspace("weight gradient", workspace.len(), plan.workspace());
        plan.run(simd, x, dy, dw, workspace);
    }

    /// The remainders of rows and columns by the strides.
    fn phases(&self) -> impl Iterator<Item = [usize; 2]> {
        let [down, across] = self.axes.map(|axis| axis.stride.min(axis.input.max(1)));
        (0..down * across).map(move |i| [i / across, i % across])
    }

    fn check_epilogue(&self, epilogue: &ConvEpilogue<'_>) {
        if let Some(bias) = epilogue.bias {
            self.check_len("bias", bias.len(), self.geometry.o);
        }
        if let Some(residual) = epilogue.residual {
            self.check_len("residual", residual.len(), self.output_len());
        }
    }

    fn check_workspace(&self, what: &str, found: usize, needed: usize) {
        assert!(
            found >= needed,
            "conv {what}: a workspace of {found} floats, not {needed}"
        );
    }
}
