//! Activations, and the gates through which gradients pass back.

use crate::{
    math,
    vector::{Vector, load_up_to, store_up_to},
};

/// The function applied to the result of a product.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Activation {
    /// The value itself.
    Identity,
    /// `max(x, 0)`; NaN stays NaN.
    Relu,
    /// `x` where positive, else the slope times `x`.
    LeakyRelu(f32),
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// `x * (1 + erf(x / sqrt(2))) / 2`, the exact form.
    Gelu,
}

impl Activation {
    /// Whether the function is cheap enough to be compiled into every tile.
    #[inline(always)]
    pub(crate) fn is_linear(self) -> bool {
        matches!(
            self,
            Activation::Identity | Activation::Relu | Activation::LeakyRelu(_)
        )
    }

    /// Applies a piecewise linear activation, and leaves the others out.
    ///
    /// # Safety
    /// The CPU supports `V`.
    #[inline(always)]
    pub(crate) unsafe fn apply_linear<V: Vector>(self, x: V) -> V {
        // SAFETY: passed on from the caller.
        unsafe {
            match self {
                Activation::Relu => V::splat(0.0).max(x),
                Activation::LeakyRelu(slope) => V::select(V::splat(0.0).less(x), x, x * V::splat(slope)),
                _ => x,
            }
        }
    }

    /// Applies the activation.
    ///
    /// # Safety
    /// The CPU supports `V`.
    #[inline(always)]
    pub(crate) unsafe fn apply<V: Vector>(self, x: V) -> V {
        // SAFETY: passed on from the caller.
        unsafe {
            match self {
                Activation::Sigmoid => math::sigmoid_vector(x),
                Activation::Tanh => math::tanh_vector(x),
                Activation::Gelu => {
                    let half = x * V::splat(0.5);
                    let erf = math::erf_vector(x * V::splat(std::f32::consts::FRAC_1_SQRT_2));
                    half.mul_add(erf, half)
                }
                _ => self.apply_linear(x),
            }
        }
    }
}

/// The derivative of an activation, computed from its output, by which a gradient is multiplied.
#[derive(Copy, Clone, Debug)]
pub enum Gate<'a> {
    /// One: the gradient passes.
    Open,
    /// One where the output is positive, else zero.
    Relu(&'a [f32]),
    /// One where the output is positive, else the slope.
    LeakyRelu(f32, &'a [f32]),
    /// `y * (1 - y)`.
    Sigmoid(&'a [f32]),
    /// `1 - y * y`.
    Tanh(&'a [f32]),
}

impl Gate<'_> {
    /// Panics unless the outputs, if any, are `len` long.
    pub(crate) fn check(&self, len: usize, what: &str) {
        let outputs = match self {
            Gate::Open => return,
            Gate::Relu(y) | Gate::LeakyRelu(_, y) | Gate::Sigmoid(y) | Gate::Tanh(y) => y.len(),
        };
        assert!(
            outputs == len,
            "{what}: the gate has {outputs} outputs, the gradient {len} elements"
        );
    }

    /// Passes `count <= LANES` gradients, whose outputs start at `index`.
    ///
    /// # Safety
    /// The CPU supports `V` and `index + count` outputs exist.
    #[inline(always)]
    pub(crate) unsafe fn apply<V: Vector>(&self, d: V, index: usize, count: usize) -> V {
        // SAFETY: passed on from the caller.
        unsafe {
            let zero = V::splat(0.0);
            let one = V::splat(1.0);
            match *self {
                Gate::Open => d,
                Gate::Relu(y) => V::select(zero.less(load_up_to(y.as_ptr().add(index), count)), d, zero),
                Gate::LeakyRelu(slope, y) => {
                    let y = load_up_to::<V>(y.as_ptr().add(index), count);
                    V::select(zero.less(y), d, d * V::splat(slope))
                }
                Gate::Sigmoid(y) => {
                    let y = load_up_to::<V>(y.as_ptr().add(index), count);
                    d * (y * (one - y))
                }
                Gate::Tanh(y) => {
                    let y = load_up_to::<V>(y.as_ptr().add(index), count);
                    d * y.neg_mul_add(y, one)
                }
            }
        }
    }

    /// Passes all of `count` gradients in place.
    ///
    /// # Safety
    /// The CPU supports `V`, and `count` gradients and outputs exist.
    #[inline(always)]
    pub(crate) unsafe fn apply_all<V: Vector>(&self, d: *mut f32, count: usize) {
        if matches!(self, Gate::Open) {
            return;
        }
        let mut i = 0;
        while i < count {
            let part = (count - i).min(V::LANES);
            // SAFETY: passed on from the caller.
            unsafe {
                store_up_to(
                    self.apply(load_up_to::<V>(d.add(i), part), i, part),
                    d.add(i),
                    part,
                )
            };
            i += part;
        }
    }
}
