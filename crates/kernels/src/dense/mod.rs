//! The dense layer at small batches: products with exact, unpadded row-major weights, and the optimiser's step taken
//! while the weight gradient is still in registers.

use weights::WeightStep;

use crate::{
    level::{Kernel, Level, Simd},
    share::Shared,
    update::{Assign, Hyper, Rule, Step, UseStep},
    vector::{MAX_LANES, Vector},
    workers::on_threads,
};

mod backward;
mod errors;
mod forward;
mod fused;
mod input_gradient;
mod live;
mod samples;
mod sparse;
mod weights;

pub use crate::activation::{Activation, Gate};

/// Weight rows that are handled together: small enough to stay in the first-level cache, with their states, between
/// the input gradient and the update.
const ROW_BLOCK: usize = 4;

/// Weights that stay in the second-level cache beside samples and results. Processors with the widest registers have the
/// larger caches.
fn few_weights(simd: Simd) -> usize {
    match simd.level() {
        Level::Portable | Level::Avx2 => 40_000,
        Level::Avx512 => 100_000,
    }
}

/// Fewer outputs than this make a weight row too short to be worth a choice of samples.
const NARROW: usize = 64;

/// The sizes of a dense layer: `rows` samples, `inputs` by `outputs` weights. Tuned for 1 to 16 rows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Dense {
    /// Samples in the batch.
    pub rows: usize,
    /// Features of a sample.
    pub inputs: usize,
    /// Features of a result.
    pub outputs: usize,
}

/// How a layer is computed; the bits of the result do not depend on the stride.
#[derive(Copy, Clone)]
struct Way {
    /// Floats from a row of weights to the next.
    stride: usize,
    /// Whether products with zeros are left out.
    sparse: bool,
}

impl Dense {
    /// `y = act(x * w + bias)`.
    pub fn forward(
        &self,
        simd: Simd,
        x: &[f32],
        w: &[f32],
        bias: Option<&[f32]>,
        act: Activation,
        y: &mut [f32],
    ) {
        let way = Way {
            stride: self.outputs,
            sparse: sparse::pays(simd, *self, x),
        };
        self.forward_as(simd, x, w, bias, act, y, way);
    }

    /// The floats of weights whose rows all start on a cache line.
    pub fn padded_len(&self) -> usize {
        self.inputs * self.padded_outputs()
    }

    fn padded_outputs(&self) -> usize {
        self.outputs.next_multiple_of(MAX_LANES)
    }

    /// Copies the weights `w` to [`Dense::padded_len`] floats, in the form [`Dense::forward_padded`] takes.
    pub fn pad_weights(&self, w: &[f32], padded: &mut [f32]) {
        self.check_len("w", w.len(), self.inputs * self.outputs);
        self.check_len("padded", padded.len(), self.padded_len());
        padded.fill(0.0);
        if self.outputs > 0 {
            let rows = padded.chunks_exact_mut(self.padded_outputs());
            for (row, w) in rows.zip(w.chunks_exact(self.outputs)) {
                row[..self.outputs].copy_from_slice(w);
            }
        }
    }

    /// [`Dense::forward`] with weights padded beforehand: the same bits, and no load straddles two cache lines.
    pub fn forward_padded(
        &self,
        simd: Simd,
        x: &[f32],
        padded: &[f32],
        bias: Option<&[f32]>,
        act: Activation,
        y: &mut [f32],
    ) {
        let way = Way {
            stride: self.padded_outputs(),
            sparse: sparse::pays(simd, *self, x),
        };
        self.forward_as(simd, x, padded, bias, act, y, way);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "operands of one kernel, and how it runs"
    )]
    fn forward_as(
        &self,
        simd: Simd,
        x: &[f32],
        w: &[f32],
        bias: Option<&[f32]>,
        act: Activation,
        y: &mut [f32],
        way: Way,
    ) {
        self.check_len("x", x.len(), self.rows * self.inputs);
        self.check_len("w", w.len(), self.inputs * way.stride);
        self.check_len("y", y.len(), self.rows * self.outputs);
        if let Some(bias) = bias {
            self.check_len("bias", bias.len(), self.outputs);
        }
        simd.run(forward::Forward {
            shape: *self,
            x,
            w,
            bias,
            act,
            y,
            way,
        });
    }

    /// Whether many samples go faster through [`Dense::forward_many`] than through a product of large matrices: if the
    /// weights are few, or if `x` seems to hold many zeros.
    pub fn suits_many(&self, simd: Simd, x: &[f32]) -> bool {
        self.inputs * self.outputs <= few_weights(simd) || sparse::pays(simd, *self, x)
    }

    /// [`Dense::forward`] with the samples shared among threads. The bits of the result do not depend on `threads`.
    #[expect(
        clippy::too_many_arguments,
        reason = "operands of one kernel, and where it runs"
    )]
    pub fn forward_many(
        &self,
        simd: Simd,
        x: &[f32],
        w: &[f32],
        bias: Option<&[f32]>,
        act: Activation,
        y: &mut [f32],
        threads: usize,
    ) {
        self.check_len("y", y.len(), self.rows * self.outputs);
        let share = self.rows.div_ceil(threads.max(1)).next_multiple_of(sparse::ROWS);
        let way = Way {
            stride: self.outputs,
            sparse: sparse::pays(simd, *self, x),
        };
        if share >= self.rows || self.inputs == 0 || self.outputs == 0 {
            return self.forward_as(simd, x, w, bias, act, y, way);
        }
        let target = Shared::new(y);
        on_threads(self.rows.div_ceil(share), &|index| {
            let rows = index * share..((index + 1) * share).min(self.rows);
            let part = Dense {
                rows: rows.len(),
                ..*self
            };
            let x = &x[rows.start * self.inputs..rows.end * self.inputs];
            // SAFETY: every index comes once, and its rows lie inside the outputs.
            let y = unsafe { target.part(rows.start * self.outputs..rows.end * self.outputs) };
            part.forward_as(simd, x, w, bias, act, y, way);
        });
    }

    /// `dx = gate(dy * w^T)`.
    pub fn input_gradient(&self, simd: Simd, dy: &[f32], w: &[f32], gate: Gate<'_>, dx: &mut [f32]) {
        self.check_len("dy", dy.len(), self.rows * self.outputs);
        self.check_len("w", w.len(), self.inputs * self.outputs);
        self.check_len("dx", dx.len(), self.rows * self.inputs);
        gate.check(dx.len(), "dense input gradient");
        let (dy, w, dx) = (dy.as_ptr(), w.as_ptr(), dx.as_mut_ptr());
        let operands = input_gradient::Operands {
            shape: *self,
            dy,
            w,
            gate,
            dx,
        };
        if samples::pays(simd, *self) {
            simd.run(samples::Samples(&operands));
        } else {
            simd.run(InputGradient(operands));
        }
    }

    /// `dw = x^T * dy`. An input that is zero in every sample may be left out, even if an error is infinite or undefined.
    pub fn weight_gradient(&self, simd: Simd, x: &[f32], dy: &[f32], dw: &mut [f32]) {
        self.check_weights(x, dy, dw);
        let operands = self.weight_operands(x, dy, dw, [&mut [], &mut []]);
        simd.run(WeightStep {
            operands,
            step: Assign,
        });
    }

    /// Steps `w` by `rule` along [`Dense::weight_gradient`], which never leaves the first-level cache. States the rule does
    /// not use are empty.
    #[expect(
        clippy::too_many_arguments,
        reason = "operands, rule and state of one fused kernel"
    )]
    pub fn weight_update(
        &self,
        simd: Simd,
        x: &[f32],
        dy: &[f32],
        rule: &Rule,
        hyper: Hyper,
        w: &mut [f32],
        states: [&mut [f32]; 2],
    ) {
        self.check_weights(x, dy, w);
        rule.check_states(&states, w.len(), "dense weight update");
        rule.with_step(
            simd,
            hyper,
            Update {
                simd,
                operands: self.weight_operands(x, dy, w, states),
            },
        );
    }

    /// [`Dense::input_gradient`] with the old weights, then [`Dense::weight_update`], in one sweep over the weights, up
    /// to rounding. Behind a rectifier whose output `x` is, products with its zeros may be left out, even those with an
    /// infinite or undefined error.
    #[expect(
        clippy::too_many_arguments,
        reason = "operands, rule and state of one fused kernel"
    )]
    pub fn backward(
        &self,
        simd: Simd,
        x: &[f32],
        dy: &[f32],
        gate: Gate<'_>,
        dx: &mut [f32],
        rule: &Rule,
        hyper: Hyper,
        w: &mut [f32],
        states: [&mut [f32]; 2],
    ) {
        self.check_weights(x, dy, w);
        self.check_len("dx", dx.len(), self.rows * self.inputs);
        gate.check(dx.len(), "dense backward");
        rule.check_states(&states, w.len(), "dense backward");
        let weights = self.weight_operands(x, dy, w, states);
        let dx = dx.as_mut_ptr();
        rule.with_step(
            simd,
            hyper,
            Backward {
                simd,
                weights,
                gate,
                dx,
            },
        );
    }

    fn check_weights(&self, x: &[f32], dy: &[f32], w: &[f32]) {
        self.check_len("x", x.len(), self.rows * self.inputs);
        self.check_len("dy", dy.len(), self.rows * self.outputs);
        self.check_len("w", w.len(), self.inputs * self.outputs);
    }

    fn check_len(&self, name: &str, found: usize, wanted: usize) {
        assert!(
            found == wanted,
            "{self:?}: {name} has {found} floats, not {wanted}"
        );
    }

    fn weight_operands(
        &self,
        x: &[f32],
        dy: &[f32],
        w: &mut [f32],
        states: [&mut [f32]; 2],
    ) -> weights::Operands {
        let states = states.map(|state| state.as_mut_ptr());
        weights::Operands {
            shape: *self,
            x: x.as_ptr(),
            dy: dy.as_ptr(),
            w: w.as_mut_ptr(),
            states,
        }
    }
}

/// Calls `block` with the start and size of every block of weight rows.
macro_rules! for_each_block {
    ($inputs:expr, |$start:ident, $rows:ident| $body:expr) => {
        let mut $start = 0;
        while $start < $inputs {
            let $rows = ($inputs - $start).min(ROW_BLOCK);
            $body;
            $start += $rows;
        }
    };
}

/// A block of weight rows in a function of its own, so that its loops get all the registers.
struct Block<'a, T> {
    operands: &'a T,
    start: usize,
    rows: usize,
}

impl Kernel for Block<'_, input_gradient::Operands<'_>> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: passed on from the caller.
        unsafe { self.operands.block::<V>(self.start, self.rows) }
    }
}

struct InputGradient<'a>(input_gradient::Operands<'a>);

impl Kernel for InputGradient<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for_each_block!(self.0.shape.inputs, |start, rows| {
            // SAFETY: the operands were checked against the shape.
            unsafe {
                V::run(Block {
                    operands: &self.0,
                    start,
                    rows,
                })
            }
        });
        // SAFETY: as above.
        unsafe { self.0.gate::<V>() }
    }
}

struct BackwardStep<'a, S> {
    input: input_gradient::Operands<'a>,
    weights: WeightStep<S>,
}

impl<S: Step> Kernel for BackwardStep<'_, S> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for_each_block!(self.input.shape.inputs, |start, rows| {
            // SAFETY: the operands were checked against the shape.
            unsafe {
                V::run(Block {
                    operands: &self.input,
                    start,
                    rows,
                });
                V::run(Block {
                    operands: &self.weights,
                    start,
                    rows,
                });
            }
        });
        // SAFETY: as above.
        unsafe { self.input.gate::<V>() }
    }
}

struct Update {
    simd: Simd,
    operands: weights::Operands,
}

impl UseStep for Update {
    #[inline(always)]
    fn call<S: Step>(self, step: S) {
        self.simd.run(WeightStep {
            operands: self.operands,
            step,
        });
    }
}

struct Backward<'a> {
    simd: Simd,
    weights: weights::Operands,
    gate: Gate<'a>,
    dx: *mut f32,
}

impl UseStep for Backward<'_> {
    #[inline(always)]
    fn call<S: Step>(self, step: S) {
        let Backward {
            simd,
            weights,
            gate,
            dx,
        } = self;
        let by_samples = samples::pays(simd, weights.shape);
        if by_samples || weights.shape.outputs < NARROW {
            let input = input_gradient::Operands {
                shape: weights.shape,
                dy: weights.dy,
                w: weights.w,
                gate,
                dx,
            };
            let weights = WeightStep {
                operands: weights,
                step,
            };
            if by_samples {
                simd.run(samples::ThenWeights { input, weights });
            } else {
                simd.run(BackwardStep { input, weights });
            }
        } else {
            simd.run(backward::Backward {
                weights,
                step,
                gate,
                dx,
            });
        }
    }
}
