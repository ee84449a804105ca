//! One register of `f32` lanes, and the operations the kernels are written in.
//!
//! The constructors are unsafe because they are where a CPU without the instructions would fault; once a value
//! exists it is itself the proof that the instructions are there, so arithmetic on it is safe.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::level::Kernel;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

pub(crate) use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use {avx2::Avx2, avx512::Avx512};

/// The most lanes any [`Vector`] has: the size of stack scratch for one register.
pub(crate) const MAX_LANES: usize = 16;

/// A register of `f32` lanes. All methods are `#[inline(always)]` and compile to one or a few instructions.
pub(crate) trait Vector:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// Lanes in the register.
    const LANES: usize;
    /// Architectural registers, which bound the tile sizes.
    const REGISTERS: usize;
    /// The result of a comparison, lane by lane.
    type Mask: Copy;

    /// Runs a kernel in a function of its own, compiled with this level's instructions.
    ///
    /// # Safety
    /// The CPU supports the level.
    unsafe fn run<K: Kernel>(kernel: K) -> K::Output;

    /// All lanes `x`.
    ///
    /// # Safety
    /// The CPU supports the level.
    unsafe fn splat(x: f32) -> Self;

    /// Reads `LANES` floats, unaligned.
    ///
    /// # Safety
    /// The CPU supports the level and the floats are readable.
    unsafe fn load(from: *const f32) -> Self;

    /// Reads `count < LANES` floats; the other lanes are zero.
    ///
    /// # Safety
    /// The CPU supports the level and `count` floats are readable.
    unsafe fn load_partial(from: *const f32, count: usize) -> Self;

    /// Writes all lanes, unaligned.
    ///
    /// # Safety
    /// `LANES` floats are writable.
    unsafe fn store(self, to: *mut f32);

    /// Writes the first `count < LANES` lanes and touches nothing else.
    ///
    /// # Safety
    /// `count` floats are writable.
    unsafe fn store_partial(self, to: *mut f32, count: usize);

    /// [`Vector::store_partial`] where what follows in memory is soon read: a load near a masked store may have to wait for
    /// it, so the lanes are stored in pieces.
    ///
    /// # Safety
    /// As for [`Vector::store_partial`].
    #[inline(always)]
    unsafe fn store_pieces(self, to: *mut f32, count: usize) {
        // SAFETY: passed on from the caller.
        unsafe { self.store_partial(to, count) }
    }

    /// Reads `rows <= 8` rows of eight floats and writes their transpose, eight rows of eight, absent ones zero.
    ///
    /// # Safety
    /// The CPU supports the level; the rows are readable and eight rows of eight floats are writable.
    unsafe fn transpose8(from: *const f32, from_stride: usize, rows: usize, to: *mut f32, to_stride: usize);

    /// Exchanges rows and columns of the square that the first `LANES` registers are.
    #[inline(always)]
    fn transpose(square: &mut [Self; MAX_LANES]) {
        let mut memory = [0.0; MAX_LANES * MAX_LANES];
        let mut column = [0.0; MAX_LANES];
        for (row, register) in square.iter().take(Self::LANES).enumerate() {
            // SAFETY: the memory has room for `LANES` registers.
            unsafe { register.store(memory[row * Self::LANES..].as_mut_ptr()) };
        }
        for (i, register) in square.iter_mut().take(Self::LANES).enumerate() {
            for (row, element) in column.iter_mut().take(Self::LANES).enumerate() {
                *element = memory[row * Self::LANES + i];
            }
            // SAFETY: a register exists, so the CPU supports the level, and the column holds `LANES` floats.
            *register = unsafe { Self::load(column.as_ptr()) };
        }
    }

    /// `self * b + c`, with one rounding where the hardware has it.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// `c - self * b`.
    fn neg_mul_add(self, b: Self, c: Self) -> Self;
    /// `self > other ? self : other`: `other` where either is NaN.
    fn max(self, other: Self) -> Self;
    /// `self < other ? self : other`: `other` where either is NaN.
    fn min(self, other: Self) -> Self;
    /// Magnitude.
    fn abs(self) -> Self;
    /// The magnitude of `self` with the sign bit of `sign`.
    fn copy_sign(self, sign: Self) -> Self;
    /// Correctly rounded square root.
    fn sqrt(self) -> Self;
    /// Rounds to an integer, ties to even.
    fn round(self) -> Self;
    /// Rounds down.
    fn floor(self) -> Self;
    /// `2^self` for integral lanes in -126..=127.
    fn exp2_integral(self) -> Self;
    /// `(m, e)` with `self = m * 2^e`, `m` in [0.5, 1), for positive normal lanes.
    fn split_exponent(self) -> (Self, Self);
    /// Lanes where `self < other`.
    fn less(self, other: Self) -> Self::Mask;
    /// Lanes where `self == other`.
    fn equal(self, other: Self) -> Self::Mask;
    /// `mask ? yes : no`.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// Whether any lane of the mask is set.
    fn any(mask: Self::Mask) -> bool;
    /// The sum of the lanes, in a fixed order.
    fn sum(self) -> f32;
    /// The four lane sums of four registers, each in the same fixed order.
    fn sum4(rows: [Self; 4]) -> [f32; 4];

    /// Writes the indices of those of `count` numbers that are not zero, and gives how many there are.
    ///
    /// # Safety
    /// The CPU supports the level, `count` numbers are readable, and `LANES` more indices than those are writable.
    #[inline(always)]
    unsafe fn list_nonzero(x: *const f32, count: usize, to: *mut u16) -> usize {
        let mut length = 0;
        for i in 0..count {
            // SAFETY: the number exists, and no more are listed than there are.
            unsafe {
                *to.add(length) = i as u16;
                length += usize::from(*x.add(i) != 0.0);
            }
        }
        length
    }

    /// `self - numerator / (factor * sqrt(square) + epsilon)`, the quotient to about 1e-7, by whatever is fastest at this
    /// level.
    ///
    /// # Safety
    /// The CPU supports the level.
    #[inline(always)]
    unsafe fn minus_over_root(self, numerator: Self, square: Self, factor: f32, epsilon: f32) -> Self {
        // SAFETY: passed on from the caller.
        let (factor, epsilon) = unsafe { (Self::splat(factor), Self::splat(epsilon)) };
        self - numerator / square.sqrt().mul_add(factor, epsilon)
    }

    /// Starts fetching the line at `address` into the first-level cache.
    #[inline(always)]
    fn prefetch(address: *const f32) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch never faults and SSE is in the x86-64 baseline.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = address;
    }

    /// `self` where it is NaN, else `other`.
    #[inline(always)]
    fn nan_or(self, other: Self) -> Self {
        Self::select(self.equal(self), other, self)
    }
}

/// Reads `count` floats, `1..=LANES` of them.
///
/// # Safety
/// As for [`Vector::load_partial`].
#[inline(always)]
pub(crate) unsafe fn load_up_to<V: Vector>(from: *const f32, count: usize) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        if count >= V::LANES {
            V::load(from)
        } else {
            V::load_partial(from, count)
        }
    }
}

/// Writes `count` floats, `1..=LANES` of them.
///
/// # Safety
/// As for [`Vector::store_partial`].
#[inline(always)]
pub(crate) unsafe fn store_up_to<V: Vector>(value: V, to: *mut f32, count: usize) {
    // SAFETY: passed on from the caller.
    unsafe {
        if count >= V::LANES {
            value.store(to)
        } else {
            value.store_partial(to, count)
        }
    }
}

/// Implements the arithmetic operators of a register newtype with one intrinsic each.
#[cfg(target_arch = "x86_64")]
macro_rules! operators {
    ($vector:ident: $($trait:ident $method:ident $intrinsic:ident),*) => {$(
        impl std::ops::$trait for $vector {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                // SAFETY: a value of this type proves that the CPU has the instruction.
                $vector(unsafe { $intrinsic(self.0, other.0) })
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
use operators;
