//! `dx = gate(dy * w^T)` with the samples along the lanes: every weight is broadcast to the errors of all samples, so that
//! no sum has to be taken across lanes. That is what most of the time goes into where the rows of weights are short.

use std::mem::MaybeUninit;

use super::{Dense, Gate, input_gradient::Operands, live::Live};
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
/// As many if they are listed: each takes a pointer.
const LISTED: usize = 8;

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

/// Errors transposed: a register of samples for every output that has an error in any of them.
#[repr(align(64))]
struct Errors {
    registers: MaybeUninit<[f32; OUTPUTS * MAX_LANES]>,
    outputs: [u16; OUTPUTS],
    count: usize,
}

impl Errors {
    /// Every output with the errors of all samples.
    #[inline(always)]
    fn iter<V: Vector>(&self) -> impl Iterator<Item = (usize, V)> {
        let registers = self.registers.as_ptr().cast::<f32>();
        let outputs = self.outputs[..self.count].iter().enumerate();
        outputs.map(move |(i, output)| {
            // SAFETY: the register of every listed output was written.
            let errors = unsafe { V::load(registers.add(i * V::LANES)) };
            (usize::from(*output), errors)
        })
    }
}

/// All inputs of a layer for which this way pays.
pub(super) struct Samples<'a>(pub(super) &'a Operands<'a>);

impl Kernel for Samples<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Dense { inputs, .. } = self.0.shape;
        let mut errors = Errors {
            registers: MaybeUninit::uninit(),
            outputs: [0; OUTPUTS],
            count: 0,
        };
        // SAFETY: the operands were checked against the shape, and it suits this way.
        unsafe {
            self.transpose_errors::<V>(&mut errors);
            let errors = &errors;
            let mut live = Live::new();
            // Behind a rectifier the gradient of an input that is zero is zero as well.
            if let Gate::Relu(y) = self.0.gate
                && let Some(list) = live.find::<V>(self.0.shape, y.as_ptr())
            {
                return self.listed::<V>(errors, list);
            }
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
    unsafe fn transpose_errors<V: Vector>(&self, errors: &mut Errors) {
        let Dense { rows, outputs, .. } = self.0.shape;
        let registers = errors.registers.as_mut_ptr().cast::<f32>();
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
                let (zero, one) = (V::splat(0.0), V::splat(1.0));
                for (i, register) in square.iter().enumerate().take(count) {
                    register.store(registers.add(errors.count * V::LANES));
                    errors.outputs[errors.count] = (column + i) as u16;
                    let counts = zero.less(V::select(register.equal(zero), zero, one));
                    errors.count += usize::from(V::any(counts));
                }
            }
            column += count;
        }
    }

    /// The gradient of listed inputs for all samples; that of the others is zero.
    #[inline(always)]
    unsafe fn listed<V: Vector>(&self, errors: &Errors, list: &[u16]) {
        let Dense { rows, inputs, .. } = self.0.shape;
        // SAFETY: listed inputs exist, for all samples.
        unsafe {
            self.0.dx.write_bytes(0, rows * inputs);
            for inputs in list.chunks(LISTED) {
                match inputs.len() {
                    ..=4 => self.some::<V, 4>(errors, inputs),
                    _ => self.some::<V, LISTED>(errors, inputs),
                }
            }
            self.0.gate.apply_all::<V>(self.0.dx, rows * inputs);
        }
    }

    /// The gradient of at most `N` inputs, before the gate.
    #[inline(always)]
    unsafe fn some<V: Vector, const N: usize>(&self, errors: &Errors, list: &[u16]) {
        let Operands {
            shape: Dense { rows, inputs, .. },
            dx,
            ..
        } = *self.0;
        let mut at = [usize::from(list[0]); N];
        for (at, input) in at.iter_mut().zip(list) {
            *at = usize::from(*input);
        }
        // SAFETY: the inputs, their weights and the samples exist.
        unsafe {
            for (sum, input) in self.sums::<V, N>(errors, at).iter().zip(list) {
                let mut column = [0.0; MAX_LANES];
                sum.store(column.as_mut_ptr());
                for (sample, gradient) in column.iter().enumerate().take(rows) {
                    *dx.add(sample * inputs + usize::from(*input)) = *gradient;
                }
            }
        }
    }

    /// Errors of all samples times the weights of `N` inputs.
    #[inline(always)]
    unsafe fn sums<V: Vector, const N: usize>(&self, errors: &Errors, inputs: [usize; N]) -> [V; N] {
        let outputs = self.0.shape.outputs;
        // SAFETY: the inputs, their weights and the samples exist.
        unsafe {
            let w = inputs.map(|input| self.0.w.add(input * outputs));
            let mut sums = [V::splat(0.0); N];
            for (output, errors) in errors.iter::<V>() {
                for (w, sum) in w.iter().zip(&mut sums) {
                    *sum = V::splat(*w.add(output)).mul_add(errors, *sum);
                }
            }
            sums
        }
    }

    /// The gradient of `TILE` inputs from `start` on, for all samples.
    #[inline(always)]
    unsafe fn tile<V: Vector>(&self, errors: &Errors, start: usize) {
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
            for (output, errors) in errors.iter::<V>() {
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
