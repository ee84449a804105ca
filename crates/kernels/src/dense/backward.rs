//! Both gradients of a few weight rows in one pass over the errors, then the step along them.
//!
//! A row of weights meets one input of every sample. Where that input is zero it adds nothing to the weight gradient, and
//! behind a rectifier its own gradient is zero as well: such samples are left out, which is half of them or more in a
//! trained network. The others go through in groups whose sums and inputs all stay in registers, so that one load of an
//! error serves both products.

use std::mem::MaybeUninit;

use super::{
    Dense, Gate,
    errors::{Aligned, Errors},
    fused, weights,
};
use crate::{
    level::Kernel,
    update::Step,
    vector::{MAX_LANES, Vector},
};

/// Elements of the weight gradient that are kept at once.
const SCRATCH: usize = 2048;
/// Samples that one set can hold.
const SAMPLES: usize = 32;
/// Samples in a group, for 16 and for 32 registers: each takes a sum and an input.
const GROUP: [u32; 2] = [5, 10];

pub(super) struct Backward<'a, S> {
    pub(super) weights: weights::Operands,
    pub(super) step: S,
    pub(super) gate: Gate<'a>,
    pub(super) dx: *mut f32,
}

impl<S: Step> Kernel for Backward<'_, S> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Dense {
            rows,
            inputs,
            outputs,
        } = self.weights.shape;
        if fused::pays_with_inputs::<V, S>(self.weights.shape) {
            // SAFETY: the operands were checked against the shape.
            return unsafe { fused::both::<V, S>(&self) };
        }
        let mut copy = Aligned::new();
        // SAFETY: the operands were checked against the shape.
        let errors = unsafe { self.errors::<V>(&mut copy) };
        let columns = outputs.min(SCRATCH);
        // Where the next block is fetched during the step along this one, both have to fit the first-level cache.
        let most = if weights::fetches_ahead::<V>() {
            SCRATCH / 2
        } else {
            SCRATCH
        };
        let block = (most / columns.max(1)).clamp(1, V::LANES);
        // SAFETY: the operands were checked against the shape.
        unsafe {
            self.dx.write_bytes(0, rows * inputs);
            for start in (0..inputs).step_by(block) {
                let count = (inputs - start).min(block);
                V::run(Rows {
                    call: &self,
                    errors,
                    start,
                    count,
                });
            }
            self.gate.apply_all::<V>(self.dx, rows * inputs);
        }
    }
}

impl<S: Step> Backward<'_, S> {
    /// The errors, in the copy if they fit.
    #[inline(always)]
    unsafe fn errors<V: Vector>(&self, copy: &mut Aligned) -> Errors {
        let (shape, dy) = (self.weights.shape, self.weights.dy);
        if shape.outputs.is_multiple_of(MAX_LANES) || !Aligned::holds(shape) {
            let stride = shape.outputs;
            return Errors { dy, stride };
        }
        // SAFETY: the operands were checked against the shape.
        unsafe { copy.errors::<V>(shape, dy, 1.0) }
    }
}

/// Some weight rows, in a function of its own so that its loops get all the registers.
struct Rows<'a, 'b, S> {
    call: &'a Backward<'b, S>,
    errors: Errors,
    start: usize,
    count: usize,
}

/// The gradient of consecutive weights. A whole register may be stored at the last of them.
#[repr(align(64))]
struct Scratch(MaybeUninit<[f32; SCRATCH + MAX_LANES]>);

impl<S: Step> Kernel for Rows<'_, '_, S> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Dense { rows, outputs, .. } = self.call.weights.shape;
        let mut scratch = Scratch(MaybeUninit::uninit());
        let gradient = scratch.0.as_mut_ptr().cast::<f32>();
        for column in (0..outputs).step_by(SCRATCH) {
            let columns = (outputs - column).min(SCRATCH);
            // SAFETY: more than one row only comes with all columns, and fits; every element is written before it is
            // read.
            unsafe {
                let mut silent = 0u32;
                for row in 0..self.count {
                    let mut pass = Pass {
                        weights: &self.call.weights,
                        errors: self.errors,
                        dx: self.call.dx,
                        input: self.start + row,
                        column,
                        columns,
                        gradient: gradient.add(row * columns),
                        adds: false,
                    };
                    for first in (0..rows).step_by(SAMPLES) {
                        let active = self.active::<V>(pass.input, first, (rows - first).min(SAMPLES));
                        pass.samples::<V>(first, active);
                    }
                    silent |= u32::from(!pass.adds) << row;
                }
                let Backward { weights, step, .. } = self.call;
                let (offset, ahead) = (self.start * outputs + column, self.count * columns);
                if silent == 0 {
                    weights.step_row::<V, S>(*step, gradient, offset, self.count * columns, ahead);
                    continue;
                }
                for row in 0..self.count {
                    let at = offset + row * columns;
                    if silent >> row & 1 == 1 {
                        weights.rest::<V, S>(*step, at..at + columns);
                    } else {
                        weights.step_row::<V, S>(*step, gradient.add(row * columns), at, columns, ahead);
                    }
                }
            }
        }
    }
}

impl<S: Step> Rows<'_, '_, S> {
    /// The samples whose input counts, as a set of bits.
    #[inline(always)]
    unsafe fn active<V: Vector>(&self, input: usize, first: usize, count: usize) -> u32 {
        let all = u32::MAX >> (SAMPLES - count);
        let x = self.call.weights.x;
        let inputs = self.call.weights.shape.inputs;
        if !matches!(self.call.gate, Gate::Relu(y) if std::ptr::eq(y.as_ptr(), x)) {
            return all;
        }
        let mut active = 0;
        for sample in 0..count {
            // SAFETY: the sample exists.
            let x = unsafe { *x.add((first + sample) * inputs + input) };
            active |= u32::from(x != 0.0) << sample;
        }
        active
    }
}

/// One weight row and some of its columns.
struct Pass<'a> {
    weights: &'a weights::Operands,
    errors: Errors,
    dx: *mut f32,
    input: usize,
    column: usize,
    columns: usize,
    gradient: *mut f32,
    /// Whether the gradient already holds other samples' part.
    adds: bool,
}

impl Pass<'_> {
    /// Adds the samples of a set that starts at `first`, in groups of about equal size.
    #[inline(always)]
    unsafe fn samples<V: Vector>(&mut self, first: usize, mut active: u32) {
        let wide = V::REGISTERS == 32;
        let most = GROUP[usize::from(wide)];
        while active != 0 {
            let left = active.count_ones();
            let size = if left <= most {
                left
            } else {
                left.div_ceil(2).min(most)
            };
            // SAFETY: passed on from the caller; the set holds that many samples.
            active = unsafe {
                match size {
                    1 => self.group::<V, 1>(first, active),
                    2 => self.group::<V, 2>(first, active),
                    3 => self.group::<V, 3>(first, active),
                    4 => self.group::<V, 4>(first, active),
                    5 => self.group::<V, 5>(first, active),
                    6 if wide => self.group::<V, 6>(first, active),
                    7 if wide => self.group::<V, 7>(first, active),
                    8 if wide => self.group::<V, 8>(first, active),
                    9 if wide => self.group::<V, 9>(first, active),
                    10 if wide => self.group::<V, 10>(first, active),
                    _ => unreachable!("no group is larger"),
                }
            };
            self.adds = true;
        }
    }

    /// Adds the first `K` samples of the set, and gives the others.
    #[inline(always)]
    unsafe fn group<V: Vector, const K: usize>(&self, first: usize, mut active: u32) -> u32 {
        let Dense { inputs, outputs, .. } = self.weights.shape;
        // SAFETY: the rows and columns exist; the gradient has room for a whole register at its end.
        unsafe {
            let w = self
                .weights
                .w
                .add(self.input * outputs + self.column)
                .cast_const();
            let mut x = [V::splat(0.0); K];
            let mut dx = [self.dx; K];
            let mut dy = [self.errors.dy; K];
            for k in 0..K {
                let sample = first + active.trailing_zeros() as usize;
                active &= active - 1;
                let at = sample * inputs + self.input;
                x[k] = V::splat(*self.weights.x.add(at));
                dx[k] = dx[k].add(at);
                dy[k] = dy[k].add(sample * self.errors.stride + self.column);
            }
            let mut sums = [V::splat(0.0); K];
            let whole = self.columns - self.columns % V::LANES;
            let mut i = 0;
            if self.adds {
                while i < whole {
                    let to = self.gradient.add(i);
                    let errors = load::<V, K>(&dy, i);
                    products(V::load(w.add(i)), V::load(to), &x, errors, &mut sums).store(to);
                    i += V::LANES;
                }
            } else {
                while i < whole {
                    let errors = load::<V, K>(&dy, i);
                    let zero = V::splat(0.0);
                    products(V::load(w.add(i)), zero, &x, errors, &mut sums).store(self.gradient.add(i));
                    i += V::LANES;
                }
            }
            if i < self.columns {
                let (to, tail) = (self.gradient.add(i), self.columns - i);
                let start = if self.adds {
                    V::load_partial(to, tail)
                } else {
                    V::splat(0.0)
                };
                let errors = load_partial::<V, K>(&dy, i, tail);
                products(V::load_partial(w.add(i), tail), start, &x, errors, &mut sums).store(to);
            }
            for (dx, sums) in dx.chunks(4).zip(sums.chunks(4)) {
                if let ([dx], [sum]) = (dx, sums) {
                    **dx += sum.sum();
                    continue;
                }
                let mut four = [V::splat(0.0); 4];
                four[..sums.len()].copy_from_slice(sums);
                for (&dx, sum) in dx.iter().zip(V::sum4(four)) {
                    *dx += sum;
                }
            }
        }
        active
    }
}

/// Adds weights times errors to the sums, and gives `start` plus inputs times errors.
#[inline(always)]
fn products<V: Vector, const K: usize>(w: V, start: V, x: &[V; K], errors: [V; K], sums: &mut [V; K]) -> V {
    let mut gradient = start;
    for k in 0..K {
        sums[k] = w.mul_add(errors[k], sums[k]);
        gradient = x[k].mul_add(errors[k], gradient);
    }
    gradient
}

/// A register of every row.
#[inline(always)]
unsafe fn load<V: Vector, const K: usize>(rows: &[*const f32; K], at: usize) -> [V; K] {
    // SAFETY: passed on from the caller.
    unsafe {
        let mut registers = [V::splat(0.0); K];
        for k in 0..K {
            registers[k] = V::load(rows[k].add(at));
        }
        registers
    }
}

#[inline(always)]
unsafe fn load_partial<V: Vector, const K: usize>(rows: &[*const f32; K], at: usize, count: usize) -> [V; K] {
    // SAFETY: passed on from the caller.
    unsafe {
        let mut registers = [V::splat(0.0); K];
        for k in 0..K {
            registers[k] = V::load_partial(rows[k].add(at), count);
        }
        registers
    }
}
