//! Products and step in one loop: for steps of few instructions, whose waiting the products of the next weights fill, and
//! for so few samples that a register of each stays in registers: of their errors, or of an input where its gradient is
//! wanted too.

use std::{mem::MaybeUninit, ops::Range};

use super::{
    Dense, Gate,
    backward::Backward,
    errors::{Aligned, Errors},
    weights::Operands,
};
use crate::{
    level::Kernel,
    update::{Scaled, Step, step_at},
    vector::{Vector, load_up_to, store_up_to},
};

/// The most samples.
const SAMPLES: usize = 10;
/// The most inputs of a layer whose sets of samples are kept.
const INPUTS: usize = 1024;

/// Calls a kernel compiled for as many samples as there are.
macro_rules! with_samples {
    ($count:expr, $kernel:ident { $($field:ident),* }) => {
        with_samples!(@ $count, $kernel { $($field),* }, 1 2 3 4 5 6 7 8 9 10)
    };
    (@ $count:expr, $kernel:ident $fields:tt, $($samples:literal)*) => {
        match $count {
            $($samples => V::run(with_samples!(! $kernel $samples $fields)),)*
            _ => unreachable!("no more samples"),
        }
    };
    (! $kernel:ident $samples:literal { $($field:ident),* }) => {
        $kernel::<$samples, S> { $($field),* }
    };
}

/// Weights within whose rows one register of columns is stepped after the other: more would lie on more pages than a core
/// keeps in mind.
const BLOCK: usize = 1 << 16;
/// The fewest weight rows of a block.
const ROWS: usize = 16;

/// Whether products and step of weights are best taken in one loop.
#[inline(always)]
pub(super) fn pays<V: Vector, S: Step>(shape: Dense) -> bool {
    S::FUSES && V::REGISTERS == 32 && (1..=SAMPLES).contains(&shape.rows)
}

/// The same with the inputs' gradient.
#[inline(always)]
pub(super) fn pays_with_inputs<V: Vector, S: Step>(shape: Dense) -> bool {
    pays::<V, S>(shape) && shape.inputs <= INPUTS && Aligned::holds(shape)
}

/// Steps the weights of all inputs, or of those listed.
///
/// # Safety
/// The CPU supports `V`, the operands fit the shape, listed inputs exist, and it [`pays`].
#[inline(always)]
pub(super) unsafe fn weights<V: Vector, S: Step>(operands: &Operands, step: S, list: Option<&[u16]>) {
    let Dense {
        rows,
        inputs,
        outputs,
    } = operands.shape;
    let most = (BLOCK / outputs.max(1)).max(ROWS);
    let count = list.map_or(inputs, <[u16]>::len);
    for start in (0..count).step_by(most) {
        let end = (start + most).min(count);
        let inputs = match list {
            None => Inputs::Run(start..end),
            Some(list) => Inputs::Listed(&list[start..end]),
        };
        // SAFETY: passed on from the caller.
        unsafe {
            with_samples!(
                rows,
                Weights {
                    operands,
                    step,
                    inputs
                }
            )
        }
    }
}

/// Inputs whose weights are stepped.
enum Inputs<'a> {
    Run(Range<usize>),
    Listed(&'a [u16]),
}

/// The weight rows of some inputs, of `K` samples.
struct Weights<'a, const K: usize, S> {
    operands: &'a Operands,
    step: S,
    inputs: Inputs<'a>,
}

impl<const K: usize, S: Step> Kernel for Weights<'_, K, S> {
    type Output = ();

    /// A register of columns after the other, whose errors stay in registers.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Weights {
            operands,
            step,
            inputs,
        } = self;
        // In registers, which no store can change.
        let operands = *operands;
        let outputs = operands.shape.outputs;
        // SAFETY: the CPU supports `V`.
        let scale = unsafe { V::splat(step.scale()) };
        for column in (0..outputs).step_by(V::LANES) {
            let count = (outputs - column).min(V::LANES);
            // SAFETY: so many errors exist for every sample, and so many weights for every input.
            unsafe {
                let errors: [V; K] = std::array::from_fn(|k| {
                    load_up_to::<V>(operands.dy.add(k * outputs + column), count) * scale
                });
                match (&inputs, count == V::LANES) {
                    (Inputs::Run(run), true) => {
                        operands.columns::<V, S, K, false>(step, &errors, run.clone(), column, count);
                    }
                    (Inputs::Run(run), false) => {
                        operands.columns::<V, S, K, true>(step, &errors, run.clone(), column, count);
                    }
                    (Inputs::Listed(list), true) => {
                        let inputs = list.iter().map(|&input| input.into());
                        operands.columns::<V, S, K, false>(step, &errors, inputs, column, count);
                    }
                    (Inputs::Listed(list), false) => {
                        let inputs = list.iter().map(|&input| input.into());
                        operands.columns::<V, S, K, true>(step, &errors, inputs, column, count);
                    }
                }
            }
        }
    }
}

impl Operands {
    /// Steps a register of the weights of each of some inputs. Two sums halve the wait for the gradient.
    #[inline(always)]
    unsafe fn columns<V: Vector, S: Step, const K: usize, const PARTIAL: bool>(
        self,
        step: S,
        errors: &[V; K],
        some: impl Iterator<Item = usize>,
        column: usize,
        count: usize,
    ) {
        let Dense { inputs, outputs, .. } = self.shape;
        for input in some {
            // SAFETY: passed on from the caller.
            unsafe {
                let mut sums = [V::splat(0.0); 2];
                for (k, &errors) in errors.iter().enumerate() {
                    let x = V::splat(*self.x.add(k * inputs + input));
                    sums[k % 2] = x.mul_add(errors, sums[k % 2]);
                }
                self.step::<V, S, PARTIAL>(step, sums[0] + sums[1], input * outputs + column, count);
            }
        }
    }

    /// Steps a register of weights along a gradient that was scaled.
    #[inline(always)]
    unsafe fn step<V: Vector, S: Step, const PARTIAL: bool>(
        &self,
        step: S,
        gradient: V,
        at: usize,
        count: usize,
    ) {
        // SAFETY: passed on from the caller.
        unsafe {
            step_at::<V, Scaled<S>, PARTIAL>(Scaled(step), gradient, self.w.add(at), self.states, at, count);
        }
    }
}

/// One input of `K` samples, and where their errors are.
struct Row<V, const K: usize> {
    x: [V; K],
    errors: [*const f32; K],
}

impl<V: Vector, const K: usize> Row<V, K> {
    /// The gradient of a register of weights, in two sums to halve the wait; adds weights times errors to the sums.
    #[inline(always)]
    unsafe fn products(&self, column: usize, w: V, sums: &mut [V; K]) -> V {
        // SAFETY: the errors exist, whole registers of them.
        unsafe {
            let mut gradient = [V::splat(0.0); 2];
            for (k, sum) in sums.iter_mut().enumerate() {
                let errors = V::load(self.errors[k].add(column));
                *sum = w.mul_add(errors, *sum);
                gradient[k % 2] = self.x[k].mul_add(errors, gradient[k % 2]);
            }
            gradient[0] + gradient[1]
        }
    }
}

/// Both gradients of a layer and the step.
///
/// # Safety
/// The CPU supports `V`, the operands fit the shape, and it [`pays_with_inputs`].
#[inline(always)]
pub(super) unsafe fn both<V: Vector, S: Step>(call: &Backward<'_, S>) {
    let Backward {
        weights: operands,
        step,
        gate,
        dx,
    } = call;
    let (operands, step, dx) = (operands, *step, *dx);
    let Dense {
        rows,
        inputs,
        outputs,
    } = operands.shape;
    let mut copy = Aligned::new();
    let mut sets = Sets::new();
    // SAFETY: passed on from the caller.
    unsafe {
        let errors = copy.errors::<V>(operands.shape, operands.dy, step.scale());
        let sets = sets.find::<V>(call);
        dx.write_bytes(0, rows * inputs);
        let mut input = 0;
        while input < inputs {
            let set = sets.of(input);
            if set == 0 {
                let silent = (input..inputs).take_while(|&input| sets.of(input) == 0).count();
                operands.rest::<V, S>(step, input * outputs..(input + silent) * outputs);
                input += silent;
                continue;
            }
            with_samples!(
                set.count_ones(),
                Both {
                    operands,
                    errors,
                    step,
                    dx,
                    input,
                    set
                }
            );
            input += 1;
        }
        gate.apply_all::<V>(dx, rows * inputs);
    }
}

/// The samples that count, for every input.
struct Sets([MaybeUninit<f32>; INPUTS]);

/// The sets that were found, as sums of powers of two.
struct Found<'a> {
    /// Empty if all samples count for every input.
    sets: &'a [f32],
    all: u32,
}

impl Found<'_> {
    #[inline(always)]
    fn of(&self, input: usize) -> u32 {
        self.sets.get(input).map_or(self.all, |&set| set as u32)
    }
}

impl Sets {
    #[inline(always)]
    fn new() -> Sets {
        Sets([MaybeUninit::uninit(); INPUTS])
    }

    /// Behind a rectifier whose output the input is, samples with zeros do not count.
    #[inline(always)]
    unsafe fn find<V: Vector>(&mut self, call: &Backward<'_, impl Step>) -> Found<'_> {
        let Operands {
            shape: Dense { rows, inputs, .. },
            x,
            ..
        } = call.weights;
        let all = (1 << rows) - 1;
        if !matches!(call.gate, Gate::Relu(y) if std::ptr::eq(y.as_ptr(), x)) {
            return Found { sets: &[], all };
        }
        let sets = self.0.as_mut_ptr().cast::<f32>();
        // SAFETY: the samples exist, and there is room for all inputs.
        unsafe {
            let zero = V::splat(0.0);
            for start in (0..inputs).step_by(V::LANES) {
                let mut set = zero;
                for sample in 0..rows {
                    let x = load_up_to::<V>(x.add(sample * inputs + start), inputs - start);
                    set = set + V::select(x.equal(zero), zero, V::splat((1 << sample) as f32));
                }
                store_up_to(set, sets.add(start), inputs - start);
            }
            let sets = std::slice::from_raw_parts(sets, inputs);
            Found { sets, all }
        }
    }
}

/// One weight row, of the `K` samples of a set.
struct Both<'a, const K: usize, S> {
    operands: &'a Operands,
    errors: Errors,
    step: S,
    dx: *mut f32,
    input: usize,
    set: u32,
}

impl<const K: usize, S: Step> Kernel for Both<'_, K, S> {
    type Output = ();

    /// Takes the step along a gradient after the products of the next: by then it has come.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Both {
            operands,
            errors,
            step,
            input,
            mut set,
            ..
        } = self;
        let Dense { inputs, outputs, .. } = operands.shape;
        // SAFETY: the input exists for the samples of the set, and so do its weights.
        unsafe {
            let mut row = Row::<V, K> {
                x: [V::splat(0.0); K],
                errors: [errors.dy; K],
            };
            let mut dx = [self.dx; K];
            for (k, dx) in dx.iter_mut().enumerate() {
                let sample = set.trailing_zeros() as usize;
                set &= set - 1;
                row.x[k] = V::splat(*operands.x.add(sample * inputs + input));
                row.errors[k] = errors.dy.add(sample * errors.stride);
                *dx = dx.add(sample * inputs + input);
            }
            let at = input * outputs;
            let w = operands.w.add(at).cast_const();
            let mut sums = [V::splat(0.0); K];
            let whole = outputs - outputs % V::LANES;
            if whole > 0 {
                let mut gradient = row.products(0, V::load(w), &mut sums);
                let mut column = V::LANES;
                while column < whole {
                    let next = row.products(column, V::load(w.add(column)), &mut sums);
                    operands.step::<V, S, false>(step, gradient, at + column - V::LANES, V::LANES);
                    gradient = next;
                    column += V::LANES;
                }
                operands.step::<V, S, false>(step, gradient, at + column - V::LANES, V::LANES);
            }
            if whole < outputs {
                let count = outputs - whole;
                let gradient = row.products(whole, V::load_partial(w.add(whole), count), &mut sums);
                operands.step::<V, S, true>(step, gradient, at + whole, count);
            }
            let unscale = 1.0 / step.scale();
            for (dx, sums) in dx.chunks(4).zip(sums.chunks(4)) {
                let mut four = [V::splat(0.0); 4];
                four[..sums.len()].copy_from_slice(sums);
                for (&dx, sum) in dx.iter().zip(V::sum4(four)) {
                    *dx = sum * unscale;
                }
            }
        }
    }
}
