//! Vectorised elementary functions on slices, to 2e-6 of the exact value (absolute near the zeros of erf, tanh and
//! the trigonometric functions), right at zeros, infinities, NaN, subnormals and large magnitudes.

use crate::{
    level::{Kernel, Simd},
    vector::{Vector, load_up_to, store_up_to},
};

mod exponential;
mod power;
mod trigonometric;

pub(crate) use exponential::{erf_vector, exp_vector, log_vector, sigmoid_vector, tanh_vector};
pub(crate) use power::pow_vector;
pub(crate) use trigonometric::{cos_vector, sin_vector};

/// Evaluates a polynomial with the highest coefficient first.
///
/// # Safety
/// The CPU supports `V`.
#[inline(always)]
unsafe fn polynomial<V: Vector, const N: usize>(x: V, coefficients: [f32; N]) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        let mut value = V::splat(coefficients[0]);
        for &coefficient in &coefficients[1..] {
            value = value.mul_add(x, V::splat(coefficient));
        }
        value
    }
}

macro_rules! slice_functions {
    ($($(#[$doc:meta])* $name:ident => $vector:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(simd: Simd, x: &[f32], y: &mut [f32]) {
            struct Map<'a>(&'a [f32], &'a mut [f32]);
            impl Kernel for Map<'_> {
                type Output = ();
                #[inline(always)]
                unsafe fn run<V: Vector>(self) {
                    let mut i = 0;
                    while i < self.0.len() {
                        let count = (self.0.len() - i).min(V::LANES);
                        // SAFETY: both slices have `count` floats from `i` on.
                        unsafe {
                            let value = $vector::<V>(load_up_to(self.0.as_ptr().add(i), count));
                            store_up_to(value, self.1.as_mut_ptr().add(i), count);
                        }
                        i += count;
                    }
                }
            }
            assert!(x.len() == y.len(), "{}: {} inputs, {} outputs", stringify!($name), x.len(), y.len());
            simd.run(Map(x, y));
        }
    )*};
}

slice_functions! {
    /// `y = e^x`.
    exp => exp_vector;
    /// `y = ln x`: NaN below zero, negative infinity at zero.
    log => log_vector;
    /// `y = tanh x`.
    tanh => tanh_vector;
    /// `y = 1 / (1 + e^-x)`.
    sigmoid => sigmoid_vector;
    /// `y = erf x`.
    erf => erf_vector;
    /// `y = sin x`.
    sin => sin_vector;
    /// `y = cos x`.
    cos => cos_vector;
}

/// `y = base ^ exponent`, element by element, with the special cases of C's `powf`.
pub fn pow(simd: Simd, base: &[f32], exponent: &[f32], y: &mut [f32]) {
    struct Power<'a>(&'a [f32], &'a [f32], &'a mut [f32]);
    impl Kernel for Power<'_> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<V: Vector>(self) {
            let mut i = 0;
            while i < self.0.len() {
                let count = (self.0.len() - i).min(V::LANES);
                // SAFETY: the three slices have `count` floats from `i` on.
                unsafe {
                    let base = load_up_to::<V>(self.0.as_ptr().add(i), count);
                    let exponent = load_up_to::<V>(self.1.as_ptr().add(i), count);
                    store_up_to(pow_vector(base, exponent), self.2.as_mut_ptr().add(i), count);
                }
                i += count;
            }
        }
    }
    assert!(
        base.len() == exponent.len() && base.len() == y.len(),
        "pow: {} bases, {} exponents, {} outputs",
        base.len(),
        exponent.len(),
        y.len()
    );
    simd.run(Power(base, exponent, y));
}
