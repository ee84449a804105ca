//! Optimiser steps by PyTorch's definitions, on a gradient in memory or on the column sums of an error.

use crate::{
    level::{Kernel, Simd},
    share::Shared,
    vector::{Vector, load_up_to, store_up_to},
    workers::on_threads,
};

mod step;

use step::decayed;
pub(crate) use step::{Assign, Scaled, Step, UseStep};

/// The rule by which a parameter follows its gradient `g`.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Rule {
    /// `p -= rate * (g + weight_decay * p)`.
    Sgd {
        /// Pull of every parameter towards zero.
        weight_decay: f32,
    },
    /// Gradient descent with a velocity, state 0: `b = momentum * b + g`.
    Momentum {
        /// Share of the velocity that is kept.
        momentum: f32,
        /// Whether to step by `g + momentum * b` in place of `b`.
        nesterov: bool,
        /// Pull of every parameter towards zero.
        weight_decay: f32,
    },
    /// `v = alpha * v + (1 - alpha) * g^2`; `p -= rate * g / (sqrt(v) + eps)`. State 0 is `v` in units that may change from
    /// step to step: in such as shrink by `alpha`, what is kept of it need not be touched.
    RmsProp {
        /// Share of the mean square that is kept.
        alpha: f32,
        /// Keeps the quotient finite.
        eps: f32,
    },
    /// Adam or AdamW, with the mean of the gradient in state 0 and of its square in state 1.
    Adam {
        /// Share of the mean that is kept.
        beta1: f32,
        /// Share of the mean square that is kept.
        beta2: f32,
        /// Keeps the quotient finite.
        eps: f32,
        /// Pull of every parameter towards zero.
        weight_decay: f32,
        /// Whether the pull acts on the parameter itself (AdamW) in place of the gradient.
        decoupled: bool,
    },
    /// `s += g^2`, state 0; `p -= rate * g / (sqrt(s) + eps)`.
    Adagrad {
        /// Keeps the quotient finite.
        eps: f32,
    },
}

impl Rule {
    /// How many state slices, each as long as the parameter, the rule keeps.
    pub fn states(&self) -> usize {
        match self {
            Rule::Sgd { .. } => 0,
            Rule::Momentum { .. } | Rule::RmsProp { .. } | Rule::Adagrad { .. } => 1,
            Rule::Adam { .. } => 2,
        }
    }

    /// Panics unless the used states are `len` long and the others empty.
    pub(crate) fn check_states(&self, states: &[&mut [f32]; 2], len: usize, what: &str) {
        for (i, state) in states.iter().enumerate() {
            let wanted = if i < self.states() { len } else { 0 };
            assert!(
                state.len() == wanted,
                "{what}: state {i} has {} floats, not {wanted}",
                state.len()
            );
        }
    }
}

/// What of a rule changes from step to step.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Hyper {
    /// Learning rate.
    pub rate: f32,
    /// Adam's `1 - beta1^t` and `1 - beta2^t` at step `t`, counted from one. RMSprop's unit of the new state, and `alpha`
    /// times the old unit over the new.
    pub more: [f32; 2],
}

/// Elements in whole numbers of which an update is shared out among threads.
const SHARE: usize = 4096;

/// Steps `parameter` along `gradient`. States the rule does not use are empty.
pub fn update(
    simd: Simd,
    rule: &Rule,
    hyper: Hyper,
    gradient: &[f32],
    parameter: &mut [f32],
    states: [&mut [f32]; 2],
) {
    bias_update(simd, 1, gradient, rule, hyper, parameter, states);
}

/// [`update`] by several threads, each on its own elements.
pub fn update_shared(
    simd: Simd,
    rule: &Rule,
    hyper: Hyper,
    gradient: &[f32],
    parameter: &mut [f32],
    states: [&mut [f32]; 2],
    threads: usize,
) {
    let part = parameter.len().div_ceil(threads.max(1)).next_multiple_of(SHARE);
    if threads <= 1 || part >= parameter.len() {
        return update(simd, rule, hyper, gradient, parameter, states);
    }
    let len = parameter.len();
    assert!(
        gradient.len() == len && states.iter().all(|state| state.is_empty() || state.len() == len),
        "update: gradient or states are not as long as the parameter"
    );
    let lens = states.each_ref().map(|state| state.len());
    let (parameter, states) = (Shared::new(parameter), states.map(Shared::new));
    on_threads(len.div_ceil(part), &|index| {
        let range = index * part..((index + 1) * part).min(len);
        // States that the rule does not use are empty, and so are their parts.
        let of_state = |i: usize| range.start.min(lens[i])..range.end.min(lens[i]);
        // SAFETY: every index comes once, and its ranges lie inside the slices.
        let (parameter, states) = unsafe {
            (
                parameter.part(range.clone()),
                [0, 1].map(|i| states[i].part(of_state(i))),
            )
        };
        update(simd, rule, hyper, &gradient[range.clone()], parameter, states);
    });
}

/// Steps `parameter` along the column sums of `dy`, `rows` by the parameter's length.
pub fn bias_update(
    simd: Simd,
    rows: usize,
    dy: &[f32],
    rule: &Rule,
    hyper: Hyper,
    parameter: &mut [f32],
    states: [&mut [f32]; 2],
) {
    let len = parameter.len();
    assert!(
        dy.len() == rows * len,
        "update: a gradient of {} floats for {rows} x {len}",
        dy.len()
    );
    rule.check_states(&states, len, "update");
    rule.with_step(
        simd,
        hyper,
        SumAndStep {
            simd,
            rows,
            dy,
            parameter,
            states,
        },
    );
}

struct SumAndStep<'a> {
    simd: Simd,
    rows: usize,
    dy: &'a [f32],
    parameter: &'a mut [f32],
    states: [&'a mut [f32]; 2],
}

impl UseStep for SumAndStep<'_> {
    #[inline(always)]
    fn call<S: Step>(self, step: S) {
        self.simd.run(Stepping { call: self, step });
    }
}

struct Stepping<'a, S> {
    call: SumAndStep<'a>,
    step: S,
}

impl<S: Step> Kernel for Stepping<'_, S> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let SumAndStep {
            rows,
            dy,
            parameter,
            mut states,
            ..
        } = self.call;
        let len = parameter.len();
        let pointers = states.each_mut().map(|state| state.as_mut_ptr());
        let mut i = 0;
        while i < len {
            let count = (len - i).min(V::LANES);
            // SAFETY: `count` elements from `i` on exist in every row, the parameter and the used states.
            unsafe {
                let mut gradient = V::splat(0.0);
                for row in 0..rows {
                    gradient = gradient + load_up_to(dy.as_ptr().add(row * len + i), count);
                }
                let target = parameter.as_mut_ptr().add(i);
                if count == V::LANES {
                    step_at::<V, S, false>(self.step, gradient, target, pointers, i, count);
                } else {
                    step_at::<V, S, true>(self.step, gradient, target, pointers, i, count);
                }
            }
            i += count;
        }
    }
}

/// Leaves of `count` states, up to `LANES`, what remains without a gradient.
///
/// # Safety
/// The CPU supports `V`, and the states exist.
#[inline(always)]
pub(crate) unsafe fn rest_at<V: Vector>(keep: f32, state: *mut f32, count: usize) {
    // SAFETY: passed on from the caller.
    unsafe { store_up_to(decayed(load_up_to::<V>(state, count), keep), state, count) }
}

/// Applies `step` to one register of parameters; `offset` is where its states lie in theirs.
///
/// # Safety
/// The CPU supports `V`; `count` parameters (`LANES` unless `PARTIAL`) and as many of each used state exist.
#[inline(always)]
pub(crate) unsafe fn step_at<V: Vector, S: Step, const PARTIAL: bool>(
    step: S,
    gradient: V,
    parameter: *mut f32,
    states: [*mut f32; 2],
    offset: usize,
    count: usize,
) {
    let count = if PARTIAL { count } else { V::LANES };
    // Parameters lie row by row: after the end of one, the next is read.
    let store = |value: V, to: *mut f32| {
        // SAFETY: passed on from the caller.
        unsafe {
            if PARTIAL {
                value.store_pieces(to, count)
            } else {
                value.store(to)
            }
        }
    };
    // SAFETY: passed on from the caller; states the step does not use are not touched.
    unsafe {
        let zero = V::splat(0.0);
        let old = if S::READS {
            load_up_to(parameter, count)
        } else {
            zero
        };
        let first = if S::STATES > 0 {
            load_up_to(states[0].add(offset), count)
        } else {
            zero
        };
        let second = if S::STATES > 1 {
            load_up_to(states[1].add(offset), count)
        } else {
            zero
        };
        let (new, [first, second]) = step.apply(gradient, old, [first, second]);
        store(new, parameter);
        if S::STATES > 0 {
            store(first, states[0].add(offset));
        }
        if S::STATES > 1 {
            store(second, states[1].add(offset));
        }
    }
}
