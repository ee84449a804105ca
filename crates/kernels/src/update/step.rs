//! One register's worth of each rule.

use super::{Hyper, Rule};
use crate::vector::Vector;

/// Added to every mean that decays: the states of a parameter without gradient would otherwise end up subnormal, where
/// arithmetic is many times slower. It is nineteen orders of magnitude below anything a step can show.
const TINY: f32 = f32::MIN_POSITIVE;

/// A rule with its numbers folded into the fewest constants, as code on registers.
pub(crate) trait Step: Copy {
    /// States the step reads and writes.
    const STATES: usize;
    /// Whether the new parameter depends on the old.
    const READS: bool = true;

    /// The new parameter and states.
    ///
    /// # Safety
    /// The CPU supports `V`.
    unsafe fn apply<V: Vector>(self, gradient: V, parameter: V, states: [V; 2]) -> (V, [V; 2]);
}

/// A computation that needs the step as a type, so that it is compiled once for each.
pub(crate) trait UseStep {
    /// Runs the computation.
    fn call<S: Step>(self, step: S);
}

impl Rule {
    /// Calls `user` with this rule's step.
    #[inline(always)]
    pub(crate) fn with_step(&self, hyper: Hyper, user: impl UseStep) {
        let rate = hyper.rate;
        match *self {
            Rule::Sgd { weight_decay } => user.call(Sgd { rate, weight_decay }),
            Rule::Momentum {
                momentum,
                nesterov: true,
                weight_decay,
            } => user.call(Momentum::<true> {
                rate,
                momentum,
                weight_decay,
            }),
            Rule::Momentum {
                momentum,
                nesterov: false,
                weight_decay,
            } => user.call(Momentum::<false> {
                rate,
                momentum,
                weight_decay,
            }),
            Rule::RmsProp { alpha, eps } => user.call(MeanSquare {
                rate,
                keep: alpha,
                add: 1.0 - alpha,
                epsilon: eps,
            }),
            Rule::Adagrad { eps } => user.call(MeanSquare {
                rate,
                keep: 1.0,
                add: 1.0,
                epsilon: eps,
            }),
            Rule::Adam {
                beta1,
                beta2,
                eps,
                weight_decay,
                decoupled,
            } => {
                let root = hyper.correction2.sqrt();
                user.call(Adam {
                    rate: rate / hyper.correction1 * root,
                    keep: [beta1, beta2],
                    add: [1.0 - beta1, 1.0 - beta2],
                    epsilon: eps * root,
                    decay: if decoupled { 0.0 } else { weight_decay },
                    shrink: if decoupled { 1.0 - rate * weight_decay } else { 1.0 },
                })
            }
        }
    }
}

/// The gradient itself, stored: for callers that want it in memory.
#[derive(Copy, Clone)]
pub(crate) struct Assign;

impl Step for Assign {
    const STATES: usize = 0;
    const READS: bool = false;

    #[inline(always)]
    unsafe fn apply<V: Vector>(self, gradient: V, _: V, states: [V; 2]) -> (V, [V; 2]) {
        (gradient, states)
    }
}

#[derive(Copy, Clone)]
struct Sgd {
    rate: f32,
    weight_decay: f32,
}

impl Step for Sgd {
    const STATES: usize = 0;

    #[inline(always)]
    unsafe fn apply<V: Vector>(self, gradient: V, parameter: V, states: [V; 2]) -> (V, [V; 2]) {
        // SAFETY: passed on from the caller.
        unsafe {
            let gradient = parameter.mul_add(V::splat(self.weight_decay), gradient);
            (gradient.neg_mul_add(V::splat(self.rate), parameter), states)
        }
    }
}

#[derive(Copy, Clone)]
struct Momentum<const NESTEROV: bool> {
    rate: f32,
    momentum: f32,
    weight_decay: f32,
}

impl<const NESTEROV: bool> Step for Momentum<NESTEROV> {
    const STATES: usize = 1;

    #[inline(always)]
    unsafe fn apply<V: Vector>(self, gradient: V, parameter: V, [velocity, other]: [V; 2]) -> (V, [V; 2]) {
        // SAFETY: passed on from the caller.
        unsafe {
            let momentum = V::splat(self.momentum);
            let gradient = parameter.mul_add(V::splat(self.weight_decay), gradient);
            let velocity = velocity.mul_add(momentum, gradient);
            let direction = if NESTEROV {
                velocity.mul_add(momentum, gradient)
            } else {
                velocity
            };
            (
                direction.neg_mul_add(V::splat(self.rate), parameter),
                [velocity, other],
            )
        }
    }
}

/// RMSprop, and Adagrad as the case that keeps everything.
#[derive(Copy, Clone)]
struct MeanSquare {
    rate: f32,
    keep: f32,
    add: f32,
    epsilon: f32,
}

impl Step for MeanSquare {
    const STATES: usize = 1;

    #[inline(always)]
    unsafe fn apply<V: Vector>(self, gradient: V, parameter: V, [square, other]: [V; 2]) -> (V, [V; 2]) {
        // SAFETY: passed on from the caller.
        unsafe {
            let added = gradient * V::splat(self.add);
            let square = added.mul_add(gradient, square.mul_add(V::splat(self.keep), V::splat(TINY)));
            let direction = V::over_root(gradient, square, V::splat(self.epsilon));
            (
                direction.neg_mul_add(V::splat(self.rate), parameter),
                [square, other],
            )
        }
    }
}

/// Both corrections are folded into the rate and epsilon: `m/c1 / (sqrt(v/c2) + eps)` times `sqrt(c2)/sqrt(c2)`.
#[derive(Copy, Clone)]
struct Adam {
    rate: f32,
    keep: [f32; 2],
    add: [f32; 2],
    epsilon: f32,
    decay: f32,
    shrink: f32,
}

impl Step for Adam {
    const STATES: usize = 2;

    #[inline(always)]
    unsafe fn apply<V: Vector>(self, gradient: V, parameter: V, [mean, square]: [V; 2]) -> (V, [V; 2]) {
        // SAFETY: passed on from the caller.
        unsafe {
            let gradient = parameter.mul_add(V::splat(self.decay), gradient);
            let parameter = parameter * V::splat(self.shrink);
            let mean = gradient.mul_add(
                V::splat(self.add[0]),
                mean.mul_add(V::splat(self.keep[0]), V::splat(TINY)),
            );
            let added = gradient * V::splat(self.add[1]);
            let square = added.mul_add(gradient, square.mul_add(V::splat(self.keep[1]), V::splat(TINY)));
            let direction = V::over_root(mean, square, V::splat(self.epsilon));
            (
                direction.neg_mul_add(V::splat(self.rate), parameter),
                [mean, square],
            )
        }
    }
}
