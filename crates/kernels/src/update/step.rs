//! One register's worth of each rule.

use super::{Hyper, Rule};
use crate::{level::Simd, vector::Vector};

/// Added to every mean that decays: the states of a parameter without gradient would otherwise end up subnormal, where
/// arithmetic is many times slower. Also added before a root that is found from its inverse, which zero has none of. It is nineteen orders of magnitude below anything a step can show.
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

    /// Whether the step is so few instructions that it can follow the products of a gradient in the same loop.
    const FUSES: bool = false;

    /// What a gradient may be multiplied by beforehand, which spares the step a product.
    fn scale(self) -> f32 {
        1.0
    }

    /// [`Step::apply`] with a gradient times [`Step::scale`].
    ///
    /// # Safety
    /// The CPU supports `V`.
    #[inline(always)]
    unsafe fn apply_scaled<V: Vector>(self, gradient: V, parameter: V, states: [V; 2]) -> (V, [V; 2]) {
        // SAFETY: passed on from the caller.
        unsafe { self.apply(gradient, parameter, states) }
    }

    /// What remains of the states of a parameter without gradient, if the parameter itself stays as it is whatever they
    /// are.
    fn rests(self) -> Option<f32> {
        None
    }
}

/// A step along gradients that were scaled beforehand.
#[derive(Copy, Clone)]
pub(crate) struct Scaled<S>(pub(crate) S);

impl<S: Step> Step for Scaled<S> {
    const STATES: usize = S::STATES;
    const READS: bool = S::READS;

    #[inline(always)]
    unsafe fn apply<V: Vector>(self, gradient: V, parameter: V, states: [V; 2]) -> (V, [V; 2]) {
        // SAFETY: passed on from the caller.
        unsafe { self.0.apply_scaled(gradient, parameter, states) }
    }
}

/// A computation that needs the step as a type, so that it is compiled once for each.
pub(crate) trait UseStep {
    /// Runs the computation.
    fn call<S: Step>(self, step: S);
}

impl Rule {
    /// Calls `user` with this rule's step as it is best taken with `simd`.
    #[inline(always)]
    pub(crate) fn with_step(&self, simd: Simd, hyper: Hyper, user: impl UseStep) {
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
            Rule::RmsProp { alpha, eps } => {
                let [unit, keep] = hyper.more;
                let root = unit.sqrt();
                let way = Plain {
                    rate: rate / root,
                    epsilon: eps / root,
                };
                mean_square(simd, keep, (1.0 - alpha) / unit, way, user)
            }
            Rule::Adagrad { eps } => mean_square(simd, 1.0, 1.0, Plain { rate, epsilon: eps }, user),
            Rule::Adam {
                beta1,
                beta2,
                eps,
                weight_decay,
                decoupled,
            } => {
                let [correction1, correction2] = hyper.more;
                let root = correction2.sqrt();
                let adam = Adam {
                    keep: [beta1, beta2],
                    add: [1.0 - beta1, 1.0 - beta2],
                    decay: if decoupled { 0.0 } else { weight_decay },
                    shrink: if decoupled { 1.0 - rate * weight_decay } else { 1.0 },
                    way: Plain {
                        rate: rate / correction1 * root,
                        epsilon: eps * root,
                    },
                };
                match adam.way.folded() {
                    Some(way) if simd.divides() => user.call(adam.going(way.dividing())),
                    Some(way) => user.call(adam.going(way)),
                    None => user.call(adam),
                }
            }
        }
    }
}

/// RMSprop, and Adagrad as the case that keeps everything and always counts in ones.
#[inline(always)]
fn mean_square(simd: Simd, keep: f32, add: f32, way: Plain, user: impl UseStep) {
    let scale = add.sqrt();
    let scaled = Plain {
        rate: way.rate / scale,
        ..way
    };
    match scaled.folded().filter(|_| keep == 1.0 && way.epsilon > 0.0) {
        Some(way) if simd.divides() => user.call(SumOfSquares {
            scale,
            way: way.dividing(),
        }),
        Some(way) => user.call(SumOfSquares { scale, way }),
        None => user.call(MeanSquare { keep, add, way }),
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

    fn rests(self) -> Option<f32> {
        (self.weight_decay == 0.0).then_some(1.0)
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

/// A mean of squares of which nothing fades in its units, at a rate that folds into the denominator. Gradients are scaled
/// so that their squares are what is added.
#[derive(Copy, Clone)]
struct SumOfSquares<W> {
    scale: f32,
    way: W,
}

impl<W: Way> Step for SumOfSquares<W> {
    const STATES: usize = 1;
    const FUSES: bool = W::FUSES;

    fn scale(self) -> f32 {
        self.scale
    }

    #[inline(always)]
    unsafe fn apply<V: Vector>(self, gradient: V, parameter: V, states: [V; 2]) -> (V, [V; 2]) {
        // SAFETY: passed on from the caller.
        unsafe { self.apply_scaled(gradient * V::splat(self.scale), parameter, states) }
    }

    #[inline(always)]
    unsafe fn apply_scaled<V: Vector>(
        self,
        gradient: V,
        parameter: V,
        [square, other]: [V; 2],
    ) -> (V, [V; 2]) {
        // SAFETY: passed on from the caller.
        unsafe {
            let square = gradient.mul_add(gradient, W::above_zero(square));
            (self.way.go(parameter, gradient, square), [square, other])
        }
    }

    fn rests(self) -> Option<f32> {
        Some(1.0)
    }
}

/// The mean of squares at any rate, whatever is kept and added.
#[derive(Copy, Clone)]
struct MeanSquare {
    keep: f32,
    add: f32,
    way: Plain,
}

impl Step for MeanSquare {
    const STATES: usize = 1;

    #[inline(always)]
    unsafe fn apply<V: Vector>(self, gradient: V, parameter: V, [square, other]: [V; 2]) -> (V, [V; 2]) {
        // SAFETY: passed on from the caller.
        unsafe {
            let added = gradient * V::splat(self.add);
            let square = added.mul_add(gradient, decayed(square, self.keep));
            (self.way.go(parameter, gradient, square), [square, other])
        }
    }

    fn rests(self) -> Option<f32> {
        Some(self.keep)
    }
}

/// The share of a mean that is kept.
///
/// # Safety
/// The CPU supports `V`.
#[inline(always)]
pub(crate) unsafe fn decayed<V: Vector>(mean: V, keep: f32) -> V {
    // SAFETY: passed on from the caller.
    unsafe { mean.mul_add(V::splat(keep), V::splat(TINY)) }
}

/// Both corrections are folded into the rate and epsilon: `m/c1 / (sqrt(v/c2) + eps)` times `sqrt(c2)/sqrt(c2)`.
#[derive(Copy, Clone)]
struct Adam<W> {
    keep: [f32; 2],
    add: [f32; 2],
    decay: f32,
    shrink: f32,
    way: W,
}

impl<W> Adam<W> {
    fn going<N>(self, way: N) -> Adam<N> {
        let Adam {
            keep,
            add,
            decay,
            shrink,
            ..
        } = self;
        Adam {
            keep,
            add,
            decay,
            shrink,
            way,
        }
    }
}

impl<W: Way> Step for Adam<W> {
    const STATES: usize = 2;
    const FUSES: bool = W::FUSES;

    #[inline(always)]
    unsafe fn apply<V: Vector>(self, gradient: V, parameter: V, [mean, square]: [V; 2]) -> (V, [V; 2]) {
        // SAFETY: passed on from the caller.
        unsafe {
            let gradient = parameter.mul_add(V::splat(self.decay), gradient);
            let parameter = parameter * V::splat(self.shrink);
            let mean = gradient.mul_add(V::splat(self.add[0]), decayed(mean, self.keep[0]));
            let added = gradient * V::splat(self.add[1]);
            let square = added.mul_add(gradient, decayed(square, self.keep[1]));
            (self.way.go(parameter, mean, square), [mean, square])
        }
    }
}

/// How far a parameter goes: `parameter - rate * direction / (sqrt(square) + epsilon)`.
trait Way: Copy {
    /// As [`Step::FUSES`].
    const FUSES: bool = false;

    /// A square that is large enough for the root.
    ///
    /// # Safety
    /// The CPU supports `V`.
    #[inline(always)]
    unsafe fn above_zero<V: Vector>(square: V) -> V {
        square
    }

    /// # Safety
    /// The CPU supports `V`.
    unsafe fn go<V: Vector>(self, parameter: V, direction: V, square: V) -> V;
}

/// At any rate.
#[derive(Copy, Clone)]
struct Plain {
    rate: f32,
    epsilon: f32,
}

impl Plain {
    /// The same with fewer products, unless the rate is one at which the denominator might overflow or vanish, as zero is.
    fn folded(self) -> Option<Folded<false>> {
        (1e-18..1e18).contains(&self.rate).then(|| Folded {
            factor: 1.0 / self.rate,
            epsilon: self.epsilon / self.rate,
        })
    }
}

impl Way for Plain {
    #[inline(always)]
    unsafe fn go<V: Vector>(self, parameter: V, direction: V, square: V) -> V {
        // SAFETY: passed on from the caller.
        unsafe {
            let direction = direction / (square.sqrt() + V::splat(self.epsilon));
            direction.neg_mul_add(V::splat(self.rate), parameter)
        }
    }
}

/// With the rate in the denominator; by the divider if `DIVIDES`.
#[derive(Copy, Clone)]
struct Folded<const DIVIDES: bool> {
    factor: f32,
    epsilon: f32,
}

impl Folded<false> {
    fn dividing(self) -> Folded<true> {
        let Folded { factor, epsilon } = self;
        Folded { factor, epsilon }
    }
}

impl<const DIVIDES: bool> Way for Folded<DIVIDES> {
    const FUSES: bool = DIVIDES;

    #[inline(always)]
    unsafe fn above_zero<V: Vector>(square: V) -> V {
        if DIVIDES {
            square
        } else {
            // SAFETY: passed on from the caller.
            unsafe { square + V::splat(TINY) }
        }
    }

    #[inline(always)]
    unsafe fn go<V: Vector>(self, parameter: V, direction: V, square: V) -> V {
        // SAFETY: passed on from the caller.
        unsafe {
            if DIVIDES {
                let denominator = square
                    .sqrt()
                    .mul_add(V::splat(self.factor), V::splat(self.epsilon));
                parameter - direction / denominator
            } else {
                parameter.minus_over_root(direction, square, self.factor, self.epsilon)
            }
        }
    }
}
