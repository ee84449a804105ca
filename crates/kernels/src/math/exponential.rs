//! Exponential, logarithm and what is made of them.

use super::polynomial;
use crate::vector::Vector;

/// `ln 2` in two parts; products of the first with small integers are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// # Safety
/// The CPU supports `V`.
#[inline(always)]
pub(crate) unsafe fn exp_vector<V: Vector>(x: V) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        // Outside these bounds the result is infinite or rounds to zero. NaN passes: it is the second operand.
        let x = V::splat(89.0).min(V::splat(-104.0).max(x));
        let n = (x * V::splat(std::f32::consts::LOG2_E)).round();
        let r = n.neg_mul_add(V::splat(LN2_HIGH), x);
        let r = n.neg_mul_add(V::splat(LN2_LOW), r);
        let tail = polynomial(
            r,
            [
                1.987_569_1e-4,
                1.398_199_9e-3,
                8.333_452e-3,
                4.166_579_6e-2,
                1.666_666_5e-1,
                5e-1,
            ],
        );
        let value = tail.mul_add(r * r, r) + V::splat(1.0);
        // Two factors, since 2^n itself may be out of range where the result is not.
        let half = (n * V::splat(0.5)).floor();
        value * half.exp2_integral() * (n - half).exp2_integral()
    }
}

/// # Safety
/// The CPU supports `V`.
#[inline(always)]
pub(crate) unsafe fn log_vector<V: Vector>(x: V) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        let zero = V::splat(0.0);
        let one = V::splat(1.0);
        let tiny = x.less(V::splat(f32::MIN_POSITIVE));
        let scaled = V::select(tiny, x * V::splat(8_388_608.0), x);
        let (mantissa, exponent) = scaled.split_exponent();
        let exponent = V::select(tiny, exponent - V::splat(23.0), exponent);
        // Centre the mantissa on one: [sqrt(1/2), sqrt(2)).
        let small = mantissa.less(V::splat(std::f32::consts::FRAC_1_SQRT_2));
        let e = V::select(small, exponent - one, exponent);
        let r = V::select(small, mantissa + mantissa, mantissa) - one;
        let square = r * r;
        let tail = polynomial(
            r,
            [
                7.037_684e-2,
                -1.151_461e-1,
                1.167_699_8e-1,
                -1.242_014_1e-1,
                1.424_932_3e-1,
                -1.666_805_7e-1,
                2.000_071_5e-1,
                -2.499_999_4e-1,
                3.333_333e-1,
            ],
        );
        let low = e.mul_add(V::splat(LN2_LOW), tail * r * square);
        let low = square.neg_mul_add(V::splat(0.5), low);
        let value = e.mul_add(V::splat(LN2_HIGH), r + low);
        let infinity = V::splat(f32::INFINITY);
        let value = V::select(x.equal(infinity), infinity, value);
        let value = V::select(x.equal(zero), -infinity, value);
        let value = V::select(x.less(zero), V::splat(f32::NAN), value);
        x.nan_or(value)
    }
}

/// # Safety
/// The CPU supports `V`.
#[inline(always)]
pub(crate) unsafe fn sigmoid_vector<V: Vector>(x: V) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        // With the exponential of a negative number nothing overflows, and both tails keep their precision.
        let e = exp_vector(-x.abs());
        let upper = V::splat(1.0) / (V::splat(1.0) + e);
        V::select(x.less(V::splat(0.0)), e * upper, upper)
    }
}

/// # Safety
/// The CPU supports `V`.
#[inline(always)]
pub(crate) unsafe fn tanh_vector<V: Vector>(x: V) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        let one = V::splat(1.0);
        let magnitude = x.abs();
        let square = x * x;
        let near = polynomial(
            square,
            [
                -5.704_988_7e-3,
                2.063_909e-2,
                -5.373_971_6e-2,
                1.333_144_2e-1,
                -3.333_328e-1,
            ],
        );
        let near = near.mul_add(square * x, x);
        let far = one - (one + one) / (exp_vector(magnitude + magnitude) + one);
        V::select(magnitude.less(V::splat(0.625)), near, far.copy_sign(x))
    }
}

/// # Safety
/// The CPU supports `V`.
#[inline(always)]
pub(crate) unsafe fn erf_vector<V: Vector>(x: V) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        // The rational minimax approximation of Eigen and XLA; beyond four, erf rounds to one.
        let x = V::splat(4.0).min(V::splat(-4.0).max(x));
        let square = x * x;
        let above = polynomial(
            square,
            [
                -2.726_142_3e-10,
                2.770_681_3e-8,
                -2.101_024e-6,
                -5.692_506_5e-5,
                -7.349_906e-4,
                -2.954_6e-3,
                -1.609_603_3e-2,
            ],
        );
        let below = polynomial(
            square,
            [
                -1.456_607_2e-5,
                -2.133_740_6e-4,
                -1.682_827e-3,
                -7.373_329e-3,
                -1.426_473_9e-2,
            ],
        );
        // The quotient first: the product of a tiny x would lose its digits.
        x * (above / below)
    }
}
