//! Half-precision and bfloat16 numbers, kept as their bits, rounded to nearest even; NaN stays NaN.

use crate::{
    level::{Kernel, Simd},
    vector::Vector,
};

/// Rounds to IEEE half precision.
pub fn to_f16(simd: Simd, x: &[f32], y: &mut [u16]) {
    assert!(
        x.len() == y.len(),
        "to_f16: {} inputs, {} outputs",
        x.len(),
        y.len()
    );
    simd.run(ToF16(x, y));
}

/// Widens IEEE half precision.
pub fn from_f16(simd: Simd, x: &[u16], y: &mut [f32]) {
    assert!(
        x.len() == y.len(),
        "from_f16: {} inputs, {} outputs",
        x.len(),
        y.len()
    );
    simd.run(FromF16(x, y));
}

/// Rounds to bfloat16.
pub fn to_bf16(simd: Simd, x: &[f32], y: &mut [u16]) {
    assert!(
        x.len() == y.len(),
        "to_bf16: {} inputs, {} outputs",
        x.len(),
        y.len()
    );
    simd.run(ToBf16(x, y));
}

/// Widens bfloat16.
pub fn from_bf16(simd: Simd, x: &[u16], y: &mut [f32]) {
    assert!(
        x.len() == y.len(),
        "from_bf16: {} inputs, {} outputs",
        x.len(),
        y.len()
    );
    simd.run(FromBf16(x, y));
}

struct ToF16<'a>(&'a [f32], &'a mut [u16]);

impl Kernel for ToF16<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let whole = self.0.len() / V::LANES * V::LANES;
        for i in (0..whole).step_by(V::LANES) {
            // SAFETY: both slices have `LANES` numbers from `i` on.
            unsafe { V::load(self.0.as_ptr().add(i)).store_f16(self.1.as_mut_ptr().add(i)) };
        }
        for (y, &x) in self.1[whole..].iter_mut().zip(&self.0[whole..]) {
            *y = f32_to_f16(x);
        }
    }
}

struct FromF16<'a>(&'a [u16], &'a mut [f32]);

impl Kernel for FromF16<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let whole = self.0.len() / V::LANES * V::LANES;
        for i in (0..whole).step_by(V::LANES) {
            // SAFETY: both slices have `LANES` numbers from `i` on.
            unsafe { V::load_f16(self.0.as_ptr().add(i)).store(self.1.as_mut_ptr().add(i)) };
        }
        for (y, &x) in self.1[whole..].iter_mut().zip(&self.0[whole..]) {
            *y = f16_to_f32(x);
        }
    }
}

struct ToBf16<'a>(&'a [f32], &'a mut [u16]);

impl Kernel for ToBf16<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for (y, x) in self.1.iter_mut().zip(self.0) {
            let bits = x.to_bits();
            let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
            // Rounding could carry a NaN into infinity; its quiet bit is set instead.
            let kept = if bits & 0x7fff_ffff > 0x7f80_0000 {
                bits | 0x0040_0000
            } else {
                rounded
            };
            *y = (kept >> 16) as u16;
        }
    }
}

struct FromBf16<'a>(&'a [u16], &'a mut [f32]);

impl Kernel for FromBf16<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for (y, &x) in self.1.iter_mut().zip(self.0) {
            *y = f32::from_bits((x as u32) << 16);
        }
    }
}

pub(crate) fn f16_to_f32(x: u16) -> f32 {
    let sign = ((x & 0x8000) as u32) << 16;
    let magnitude = (x & 0x7fff) as u32;
    let value = match magnitude {
        0x7c00 => f32::INFINITY,
        0x7c01.. => f32::from_bits(0x7fc0_0000 | (magnitude << 13)),
        // Multiplying by 2^112 moves the exponent's bias, and normalises subnormals on the way.
        _ => f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000),
    };
    f32::from_bits(value.to_bits() | sign)
}

pub(crate) fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let half = match magnitude {
        0x7f80_0001.. => 0x7e00 | ((magnitude >> 13) & 0x3ff) as u16,
        0x477f_f000.. => 0x7c00,
        0x3880_0000.. => {
            let rebiased = magnitude - (112 << 23);
            ((rebiased + 0xfff + ((rebiased >> 13) & 1)) >> 13) as u16
        }
        // Adding a half lets the adder round to a multiple of 2^-24, the subnormal step.
        _ => ((f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()) as u16,
    };
    sign | half
}
