//! General powers.

use crate::vector::{MAX_LANES, Vector};

/// # Safety
/// The CPU supports `V`.
#[inline(always)]
pub(crate) unsafe fn pow_vector<V: Vector>(base: V, exponent: V) -> V {
    let mut bases = [0.0; MAX_LANES];
    let mut exponents = [0.0; MAX_LANES];
    // SAFETY: the scratch holds the widest register; the CPU is vouched for by the caller.
    unsafe {
        base.store(bases.as_mut_ptr());
        exponent.store(exponents.as_mut_ptr());
        let plain = |(x, y): (&f32, &f32)| (f32::MIN_POSITIVE..f32::INFINITY).contains(x) && y.is_finite();
        if bases.iter().zip(&exponents).take(V::LANES).all(plain) {
            for (x, y) in bases[..V::LANES].iter_mut().zip(&exponents) {
                *x = positive_power(*x, *y);
            }
        } else {
            for (x, y) in bases[..V::LANES].iter_mut().zip(&exponents) {
                *x = x.powf(*y);
            }
        }
        V::load(bases.as_ptr())
    }
}

/// `x^y` for normal positive `x`, branch-free in double precision so that the compiler vectorises the lanes: the
/// logarithm must carry more bits than an `f32` has, because the exponential magnifies its error.
#[inline(always)]
fn positive_power(x: f32, y: f32) -> f32 {
    let bits = x.to_bits();
    let centred = bits.wrapping_sub(0x3f35_04f3);
    let exponent = (centred as i32) >> 23;
    let mantissa = f32::from_bits(bits.wrapping_sub((exponent << 23) as u32)) as f64;
    // log2 m = 2/ln2 * atanh(s) with s = (m - 1) / (m + 1), |s| < 0.172.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let z = s * s;
    let series =
        1.0 + z * (1.0 / 3.0 + z * (1.0 / 5.0 + z * (1.0 / 7.0 + z * (1.0 / 9.0 + z * (1.0 / 11.0)))));
    let log2 = exponent as f64 + s * series * (2.0 * std::f64::consts::LOG2_E);
    let product = (y as f64 * log2).clamp(-200.0, 200.0);
    // Adding and subtracting 1.5 * 2^52 rounds to an integer, which then sits in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let shifted = product + ROUND;
    let r = (product - (shifted - ROUND)) * std::f64::consts::LN_2;
    let tail = 1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0));
    let value = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * tail))));
    let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    (value * scale) as f32
}
