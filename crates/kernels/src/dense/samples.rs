//! `dx = gate(dy * w^T)` with the samples along the lanes: every weight is broadcast to the errors of all samples, so that
//! no sum has to be taken across lanes. That is what most of the time goes into where the rows of weights are short.

use std::mem::MaybeUninit;

use super::{Dense, Gate, input_gradient::Operands, live::Live, weights::WeightStep};
use crate::{
    level::{Kernel, Level, Simd},
    update::Step,
    vector::{MAX_LANES, Vector, load_up_to, store_up_to},
};

/// The longest row of weights.
const OUTPUTS: usize = 128;
/// The fewest samples that fill enough lanes.
const FEWEST: usize = 6;
/// Inputs whose gradients are stored at once.
const TILE: usize = MAX_LANES;
/// Inputs whose sums are taken at once: each takes a pointer.
const AT_ONCE: usize = 8;

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
struct Transposed(MaybeUninit<[f32; OUTPUTS * MAX_LANES]>);

/// Transposed errors, and the outputs that have one in any sample if not all do.
#[derive(Copy, Clone)]
struct Errors<'a> {
    registers: *const f32,
    outputs: usize,
    list: Option<&'a [u16]>,
}

impl Errors<'_> {
    /// How many outputs have an error.
    #[inline(always)]
    fn count(&self) -> usize {
        self.list.map_or(self.outputs, <[u16]>::len)
    }

    /// The `i`th of them, and the errors of all samples.
    #[inline(always)]
    unsafe fn at<V: Vector>(&self, i: usize) -> (usize, V) {
        // SAFETY: there are so many, and the register of every output was written.
        unsafe {
            let output = self.list.map_or(i, |list| usize::from(*list.get_unchecked(i)));
            (output, V::load(self.registers.add(output * V::LANES)))
        }
    }
}

/// A register of samples for every input of a tile.
#[repr(align(64))]
struct Sums(MaybeUninit<[f32; TILE * MAX_LANES]>);

/// All inputs of a layer for which this way pays.
pub(super) struct Samples<'a>(pub(super) &'a Operands<'a>);

impl Kernel for Samples<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let mut live = Live::new();
        // SAFETY: the operands were checked against the shape.
        unsafe {
            let list = match self.0.gate {
                Gate::Relu(y) => live.find::<V>(self.0.shape, y.as_ptr()),
                _ => None,
            };
            self.gradients::<V>(list)
        }
    }
}

/// Both gradients: the inputs' by this way, then the step of the weights.
pub(super) struct ThenWeights<'a, S> {
    pub(super) input: Operands<'a>,
    pub(super) weights: WeightStep<S>,
}

impl<S: Step> Kernel for ThenWeights<'_, S> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let ThenWeights { input, weights } = self;
        let x = weights.operands.x;
        let mut live = Live::new();
        // SAFETY: the operands were checked against the shape.
        unsafe {
            // Mostly the gate's outputs are the inputs, and are looked through once for both.
            if matches!(input.gate, Gate::Relu(y) if std::ptr::eq(y.as_ptr(), x)) {
                let list = live.find::<V>(input.shape, x);
                Samples(&input).gradients::<V>(list);
                weights.rows_of::<V>(list);
            } else {
                Samples(&input).run::<V>();
                weights.run::<V>();
            }
        }
    }
}

impl Samples<'_> {
    /// The gradients of all inputs. Behind a rectifier that of an input that is zero is zero as well: some may be listed as
    /// those that are not zero in every sample.
    #[inline(always)]
    unsafe fn gradients<V: Vector>(&self, mut list: Option<&[u16]>) {
        let Dense {
            rows,
            inputs,
            outputs,
        } = self.0.shape;
        let mut transposed = Transposed(MaybeUninit::uninit());
        let mut live = Live::new();
        let of_errors = Dense {
            rows,
            inputs: outputs,
            outputs: 0,
        };
        // SAFETY: the operands were checked against the shape, and it suits this way.
        unsafe {
            let errors = Errors {
                registers: self.transpose_errors::<V>(&mut transposed),
                outputs,
                list: live.find::<V>(of_errors, self.0.dy),
            };
            for start in (0..inputs).step_by(TILE) {
                let count = (inputs - start).min(TILE);
                let all: [u16; TILE] = std::array::from_fn(|i| (start + i) as u16);
                let some = match &mut list {
                    None => &all[..count],
                    Some(list) => {
                        let here = list.iter().take(TILE);
                        let here = here.filter(|&&input| usize::from(input) < start + count).count();
                        let (some, others) = list.split_at(here);
                        *list = others;
                        some
                    }
                };
                self.tile::<V>(errors, start, count, some);
            }
        }
    }

    #[inline(always)]
    unsafe fn transpose_errors<V: Vector>(&self, to: &mut Transposed) -> *const f32 {
        let Dense { rows, outputs, .. } = self.0.shape;
        let registers = to.0.as_mut_ptr().cast::<f32>();
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
                    register.store(registers.add((column + i) * V::LANES));
                }
            }
            column += count;
        }
        registers
    }

    /// The gradient of `count` inputs from `start` on, for all samples; it is zero unless an input is listed.
    #[inline(always)]
    unsafe fn tile<V: Vector>(&self, errors: Errors<'_>, start: usize, count: usize, list: &[u16]) {
        let Operands {
            shape: Dense { rows, inputs, .. },
            ref gate,
            dx,
            ..
        } = *self.0;
        let mut sums = Sums(MaybeUninit::uninit());
        let to = sums.0.as_mut_ptr().cast::<f32>();
        // SAFETY: the inputs, their weights and the samples exist.
        unsafe {
            if list.len() < TILE {
                (0..TILE).for_each(|input| V::splat(0.0).store(to.add(input * V::LANES)));
            }
            for list in list.chunks(AT_ONCE) {
                if list.len() <= AT_ONCE / 2 {
                    self.sums::<V, { AT_ONCE / 2 }>(errors, list, start, to);
                } else {
                    self.sums::<V, AT_ONCE>(errors, list, start, to);
                }
            }
            let mut square = [V::splat(0.0); TILE];
            for (input, register) in square.iter_mut().enumerate() {
                *register = V::load(to.add(input * V::LANES));
            }
            V::transpose(&mut square);
            for (sample, sum) in square.iter().enumerate().take(rows) {
                let index = sample * inputs + start;
                store_up_to(gate.apply(*sum, index, count), dx.add(index), count);
            }
        }
    }

    /// Errors of all samples times the weights of at most `N` inputs of a tile.
    #[inline(always)]
    unsafe fn sums<V: Vector, const N: usize>(
        &self,
        errors: Errors<'_>,
        list: &[u16],
        start: usize,
        to: *mut f32,
    ) {
        let outputs = self.0.shape.outputs;
        // SAFETY: the inputs, their weights and the samples exist.
        unsafe {
            // What the list falls short of `N` repeats its first input.
            let inputs: [usize; N] =
                std::array::from_fn(|i| usize::from(list[if i < list.len() { i } else { 0 }]));
            let w = inputs.map(|input| self.0.w.add(input * outputs));
            let mut sums = [V::splat(0.0); N];
            for i in 0..errors.count() {
                let (output, errors) = errors.at::<V>(i);
                for k in 0..N {
                    sums[k] = V::splat(*w[k].add(output)).mul_add(errors, sums[k]);
                }
            }
            for k in 0..N {
                sums[k].store(to.add((inputs[k] - start) * V::LANES));
            }
        }
    }
}
