//! `dx = gate(dy * w^T)` with the samples along the lanes: every weight is broadcast to the errors of all samples, so that
//! no sum has to be taken across lanes. That is what most of the time goes into where the rows of weights are short.

use std::mem::MaybeUninit;

use super::{Dense, input_gradient::Operands};
use crate::{
    level::{Kernel, Level, Simd},
    vector::{MAX_LANES, Vector, load_up_to, store_up_to},
};

/// The longest row of weights.
const OUTPUTS: usize = 128;
/// The fewest samples that fill enough lanes.
const FEWEST: usize = 6;
/// Inputs whose sums are in registers at once.
const TILE: usize = MAX_LANES;

/// Whether this is the faster way to an input gradient.
#[inline(always)]
pub(super) fn pays(simd: Simd, shape: Dense) -> bool {
    let Dense {
        rows,
        inputs,
        outputs,
    } = shape;
    simd.level() == Level::Avx512 && (FEWEST..=TILE).contains(&rows) && inputs >= TILE && outputs <= OUTPUTS
}

/// Errors transposed: a register of samples for every output.
#[repr(align(64))]
struct Errors(MaybeUninit<[f32; OUTPUTS * MAX_LANES]>);

/// All inputs of a layer for which this way pays.
pub(super) struct Samples<'a>(pub(super) &'a Operands<'a>);

impl Kernel for Samples<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Dense { inputs, .. } = self.0.shape;
        let mut errors = Errors(MaybeUninit::uninit());
        let errors = errors.0.as_mut_ptr().cast::<f32>();
        // SAFETY: the operands were checked against the shape, and it suits this way.
        unsafe {
            self.transpose_errors::<V>(errors);
            let mut start = 0;
            while start < inputs {
                // The last tile may repeat some inputs of the one before.
                self.tile::<V>(errors, start.min(inputs - TILE));
                start += TILE;
            }
        }
    }
}

impl Samples<'_> {
    #[inline(always)]
    unsafe fn transpose_errors<V: Vector>(&self, errors: *mut f32) {
        let Dense { rows, outputs, .. } = self.0.shape;
        let mut column = 0;
        while column < outputs {
            let count = (outputs - column).min(V::LANES);
            // SAFETY: the errors of every sample exist, and there is a register of room for every output.
            unsafe {
                let mut square = [V::splat(0.0); MAX_LANES];
                for (sample, register) in square.iter_mut().enumerate() {
                    if sample < rows {
                        *register = load_up_to(self.0.dy.add(sample * outputs + column), count);
                    }
                }
                V::transpose(&mut square);
                for (i, register) in square.iter().enumerate().take(count) {
                    register.store(errors.add((column + i) * V::LANES));
                }
            }
            column += count;
        }
    }

    /// The gradient of `TILE` inputs from `start` on, for all samples.
    #[inline(always)]
    unsafe fn tile<V: Vector>(&self, errors: *const f32, start: usize) {
        let Operands {
            shape:
                Dense {
                    rows,
                    inputs,
                    outputs,
                },
            w,
            ref gate,
            dx,
            ..
        } = *self.0;
        // SAFETY: the inputs, their weights and the samples exist.
        unsafe {
            let w = w.add(start * outputs);
            let mut sums = [V::splat(0.0); TILE];
            for output in 0..outputs {
                let errors = V::load(errors.add(output * V::LANES));
                for (input, sum) in sums.iter_mut().enumerate() {
                    *sum = V::splat(*w.add(input * outputs + output)).mul_add(errors, *sum);
                }
            }
            V::transpose(&mut sums);
            for (sample, sum) in sums.iter().enumerate().take(rows) {
                let index = sample * inputs + start;
                let value = gate.apply(*sum, index, TILE);
                store_up_to(value, dx.add(index), TILE);
            }
        }
    }
}
