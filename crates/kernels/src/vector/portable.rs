//! Four lanes in plain Rust: the reference for the others and the fallback on any CPU.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::Vector;
use crate::level::Kernel;

const LANES: usize = 4;

/// Four `f32` lanes, the width every target's baseline has.
#[derive(Copy, Clone)]
#[repr(align(16))]
pub(crate) struct Portable([f32; LANES]);

impl Portable {
    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) -> Portable {
        let mut lanes = self.0;
        for lane in &mut lanes {
            *lane = f(*lane);
        }
        Portable(lanes)
    }

    #[inline(always)]
    fn zip(self, other: Portable, f: impl Fn(f32, f32) -> f32) -> Portable {
        let mut lanes = self.0;
        for (lane, b) in lanes.iter_mut().zip(other.0) {
            *lane = f(*lane, b);
        }
        Portable(lanes)
    }

    #[inline(always)]
    fn compare(self, other: Portable, f: impl Fn(f32, f32) -> bool) -> [bool; LANES] {
        let mut mask = [false; LANES];
        for (lane, (a, b)) in mask.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            *lane = f(a, b);
        }
        mask
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $op:tt) => {
        impl $trait for Portable {
            type Output = Portable;
            #[inline(always)]
            fn $method(self, other: Portable) -> Portable {
                self.zip(other, |a, b| a $op b)
            }
        }
    };
}
operator!(Add, add, +);
operator!(Sub, sub, -);
operator!(Mul, mul, *);
operator!(Div, div, /);

impl Neg for Portable {
    type Output = Portable;
    #[inline(always)]
    fn neg(self) -> Portable {
        self.map(|a| -a)
    }
}

/// A fused multiply-add only where it is one instruction: in software it costs a hundred.
#[inline(always)]
fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
        a.mul_add(b, c)
    } else {
        a * b + c
    }
}

impl Vector for Portable {
    const LANES: usize = LANES;
    const REGISTERS: usize = 16;
    type Mask = [bool; LANES];

    #[inline]
    unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
        // SAFETY: no instructions beyond the target's baseline are used.
        unsafe { kernel.run::<Portable>() }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Portable {
        Portable([x; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Portable {
        // SAFETY: the caller vouches for the floats.
        Portable(unsafe { from.cast::<[f32; LANES]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize) -> Portable {
        let mut lanes = [0.0; LANES];
        for (i, lane) in lanes.iter_mut().enumerate().take(count) {
            // SAFETY: `i < count`, which the caller vouches for.
            *lane = unsafe { *from.add(i) };
        }
        Portable(lanes)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for the destination.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut f32, count: usize) {
        for (i, lane) in self.0.into_iter().enumerate().take(count) {
            // SAFETY: `i < count`, which the caller vouches for.
            unsafe { *to.add(i) = lane };
        }
    }

    #[inline(always)]
    unsafe fn transpose8(from: *const f32, from_stride: usize, rows: usize, to: *mut f32, to_stride: usize) {
        for column in 0..8 {
            for row in 0..8 {
                // SAFETY: the caller vouches for `rows` source rows and eight destination rows of eight.
                unsafe {
                    let value = if row < rows {
                        *from.add(row * from_stride + column)
                    } else {
                        0.0
                    };
                    *to.add(column * to_stride + row) = value;
                }
            }
        }
    }

    #[inline(always)]
    fn mul_add(self, b: Portable, c: Portable) -> Portable {
        let mut lanes = self.0;
        for (lane, (b, c)) in lanes.iter_mut().zip(b.0.into_iter().zip(c.0)) {
            *lane = multiply_add(*lane, b, c);
        }
        Portable(lanes)
    }

    #[inline(always)]
    fn neg_mul_add(self, b: Portable, c: Portable) -> Portable {
        (-self).mul_add(b, c)
    }

    #[inline(always)]
    fn max(self, other: Portable) -> Portable {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, other: Portable) -> Portable {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn abs(self) -> Portable {
        self.map(f32::abs)
    }

    #[inline(always)]
    fn copy_sign(self, sign: Portable) -> Portable {
        self.zip(sign, f32::copysign)
    }

    #[inline(always)]
    fn sqrt(self) -> Portable {
        self.map(f32::sqrt)
    }

    #[inline(always)]
    fn round(self) -> Portable {
        self.map(f32::round_ties_even)
    }

    #[inline(always)]
    fn floor(self) -> Portable {
        self.map(f32::floor)
    }

    #[inline(always)]
    fn exp2_integral(self) -> Portable {
        self.map(|n| f32::from_bits((((n as i32) + 127) as u32) << 23))
    }

    #[inline(always)]
    fn split_exponent(self) -> (Portable, Portable) {
        let mantissa = self.map(|x| f32::from_bits((x.to_bits() & 0x007f_ffff) | 0x3f00_0000));
        let exponent = self.map(|x| ((x.to_bits() >> 23) as i32 - 126) as f32);
        (mantissa, exponent)
    }

    #[inline(always)]
    fn less(self, other: Portable) -> [bool; LANES] {
        self.compare(other, |a, b| a < b)
    }

    #[inline(always)]
    fn equal(self, other: Portable) -> [bool; LANES] {
        self.compare(other, |a, b| a == b)
    }

    #[inline(always)]
    fn select(mask: [bool; LANES], yes: Portable, no: Portable) -> Portable {
        let mut lanes = no.0;
        for (lane, (chosen, yes)) in lanes.iter_mut().zip(mask.into_iter().zip(yes.0)) {
            *lane = if chosen { yes } else { *lane };
        }
        Portable(lanes)
    }

    #[inline(always)]
    fn any(mask: [bool; LANES]) -> bool {
        mask.contains(&true)
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        let [a, b, c, d] = self.0;
        (a + b) + (c + d)
    }

    #[inline(always)]
    fn sum4(rows: [Portable; 4]) -> [f32; 4] {
        rows.map(Portable::sum)
    }
}
