//! Eight lanes: AVX2 with FMA and F16C.

use std::{arch::x86_64::*, ops::Neg};

use super::{Vector, operators};
use crate::level::Kernel;

/// Eight `f32` lanes in a 256-bit register.
#[derive(Copy, Clone)]
#[repr(transparent)]
pub(crate) struct Avx2(__m256);

operators!(Avx2: Add add _mm256_add_ps, Sub sub _mm256_sub_ps, Mul mul _mm256_mul_ps, Div div _mm256_div_ps);

impl Neg for Avx2 {
    type Output = Avx2;
    #[inline(always)]
    fn neg(self) -> Avx2 {
        // SAFETY: a value of this type proves that the CPU has the instructions.
        Avx2(unsafe { _mm256_xor_ps(self.0, _mm256_set1_ps(-0.0)) })
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function is compiled with the features of `Avx2`.
    unsafe { kernel.run::<Avx2>() }
}

/// Sliding window of masks: `count` set lanes start at `8 - count`.
static LANE_MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// Writes the first `count < 4` lanes; masked stores take a microcode assist on AMD.
#[inline(always)]
unsafe fn store_below_four(lanes: __m128, to: *mut f32, count: usize) {
    // SAFETY: the caller vouches for `count` floats.
    unsafe {
        if count & 2 != 0 {
            _mm_storel_pd(to.cast(), _mm_castps_pd(lanes));
            if count & 1 != 0 {
                _mm_store_ss(to.add(2), _mm_movehl_ps(lanes, lanes));
            }
        } else if count & 1 != 0 {
            _mm_store_ss(to, lanes);
        }
    }
}

/// Transposes eight registers of eight lanes in place.
#[inline(always)]
fn transpose(r: [__m256; 8]) -> [__m256; 8] {
    // SAFETY: the callers hold AVX2 registers they loaded under the level's contract.
    unsafe {
        let t = [
            _mm256_unpacklo_ps(r[0], r[1]),
            _mm256_unpackhi_ps(r[0], r[1]),
            _mm256_unpacklo_ps(r[2], r[3]),
            _mm256_unpackhi_ps(r[2], r[3]),
            _mm256_unpacklo_ps(r[4], r[5]),
            _mm256_unpackhi_ps(r[4], r[5]),
            _mm256_unpacklo_ps(r[6], r[7]),
            _mm256_unpackhi_ps(r[6], r[7]),
        ];
        let u = [
            _mm256_shuffle_ps::<0x44>(t[0], t[2]),
            _mm256_shuffle_ps::<0xee>(t[0], t[2]),
            _mm256_shuffle_ps::<0x44>(t[1], t[3]),
            _mm256_shuffle_ps::<0xee>(t[1], t[3]),
            _mm256_shuffle_ps::<0x44>(t[4], t[6]),
            _mm256_shuffle_ps::<0xee>(t[4], t[6]),
            _mm256_shuffle_ps::<0x44>(t[5], t[7]),
            _mm256_shuffle_ps::<0xee>(t[5], t[7]),
        ];
        [
            _mm256_permute2f128_ps::<0x20>(u[0], u[4]),
            _mm256_permute2f128_ps::<0x20>(u[1], u[5]),
            _mm256_permute2f128_ps::<0x20>(u[2], u[6]),
            _mm256_permute2f128_ps::<0x20>(u[3], u[7]),
            _mm256_permute2f128_ps::<0x31>(u[0], u[4]),
            _mm256_permute2f128_ps::<0x31>(u[1], u[5]),
            _mm256_permute2f128_ps::<0x31>(u[2], u[6]),
            _mm256_permute2f128_ps::<0x31>(u[3], u[7]),
        ]
    }
}

impl Vector for Avx2 {
    const LANES: usize = 8;
    const REGISTERS: usize = 16;
    type Mask = __m256;

    #[inline(always)]
    unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
        // SAFETY: the caller vouches for the CPU.
        unsafe { run(kernel) }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Avx2 {
        // SAFETY: the caller vouches for the CPU.
        Avx2(unsafe { _mm256_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Avx2 {
        // SAFETY: the caller vouches for the CPU and the floats.
        Avx2(unsafe { _mm256_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize) -> Avx2 {
        debug_assert!(count <= 8);
        // SAFETY: the window of masks stays inside the table, and masked lanes are not read.
        unsafe {
            let mask = _mm256_loadu_si256(LANE_MASKS.as_ptr().add(8 - count).cast());
            Avx2(_mm256_maskload_ps(from, mask))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for the destination.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut f32, count: usize) {
        // SAFETY: the caller vouches for `count` floats.
        unsafe {
            let low = _mm256_castps256_ps128(self.0);
            if count >= 4 {
                _mm_storeu_ps(to, low);
                store_below_four(_mm256_extractf128_ps::<1>(self.0), to.add(4), count - 4);
            } else {
                store_below_four(low, to, count);
            }
        }
    }

    #[inline(always)]
    unsafe fn transpose8(from: *const f32, from_stride: usize, rows: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: the caller vouches for the CPU, `rows` source rows and eight destination rows.
        unsafe {
            let mut block = [_mm256_setzero_ps(); 8];
            if rows == 8 {
                for (row, register) in block.iter_mut().enumerate() {
                    *register = _mm256_loadu_ps(from.add(row * from_stride));
                }
            } else {
                for (row, register) in block.iter_mut().enumerate() {
                    if row < rows {
                        *register = _mm256_loadu_ps(from.add(row * from_stride));
                    }
                }
            }
            for (row, register) in transpose(block).iter().enumerate() {
                _mm256_storeu_ps(to.add(row * to_stride), *register);
            }
        }
    }

    #[inline(always)]
    fn mul_add(self, b: Avx2, c: Avx2) -> Avx2 {
        // SAFETY: a value of this type proves that the CPU has the instruction; so in every method below.
        Avx2(unsafe { _mm256_fmadd_ps(self.0, b.0, c.0) })
    }

    #[inline(always)]
    fn neg_mul_add(self, b: Avx2, c: Avx2) -> Avx2 {
        // SAFETY: proved by the value.
        Avx2(unsafe { _mm256_fnmadd_ps(self.0, b.0, c.0) })
    }

    #[inline(always)]
    fn max(self, other: Avx2) -> Avx2 {
        // SAFETY: proved by the value.
        Avx2(unsafe { _mm256_max_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn min(self, other: Avx2) -> Avx2 {
        // SAFETY: proved by the value.
        Avx2(unsafe { _mm256_min_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn abs(self) -> Avx2 {
        // SAFETY: proved by the value.
        Avx2(unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0) })
    }

    #[inline(always)]
    fn copy_sign(self, sign: Avx2) -> Avx2 {
        // SAFETY: proved by the value.
        unsafe {
            let bit = _mm256_set1_ps(-0.0);
            Avx2(_mm256_or_ps(
                _mm256_andnot_ps(bit, self.0),
                _mm256_and_ps(bit, sign.0),
            ))
        }
    }

    #[inline(always)]
    fn sqrt(self) -> Avx2 {
        // SAFETY: proved by the value.
        Avx2(unsafe { _mm256_sqrt_ps(self.0) })
    }

    #[inline(always)]
    fn round(self) -> Avx2 {
        // SAFETY: proved by the value.
        Avx2(unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
    }

    #[inline(always)]
    fn floor(self) -> Avx2 {
        // SAFETY: proved by the value.
        Avx2(unsafe { _mm256_floor_ps(self.0) })
    }

    #[inline(always)]
    fn exp2_integral(self) -> Avx2 {
        // SAFETY: proved by the value.
        unsafe {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(self.0), _mm256_set1_epi32(127));
            Avx2(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
        }
    }

    #[inline(always)]
    fn split_exponent(self) -> (Avx2, Avx2) {
        // SAFETY: proved by the value.
        unsafe {
            let bits = _mm256_castps_si256(self.0);
            let mantissa = _mm256_or_si256(
                _mm256_and_si256(bits, _mm256_set1_epi32(0x007f_ffff)),
                _mm256_set1_epi32(0x3f00_0000),
            );
            let exponent = _mm256_sub_epi32(_mm256_srli_epi32::<23>(bits), _mm256_set1_epi32(126));
            (
                Avx2(_mm256_castsi256_ps(mantissa)),
                Avx2(_mm256_cvtepi32_ps(exponent)),
            )
        }
    }

    #[inline(always)]
    fn less(self, other: Avx2) -> __m256 {
        // SAFETY: proved by the value.
        unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0) }
    }

    #[inline(always)]
    fn equal(self, other: Avx2) -> __m256 {
        // SAFETY: proved by the value.
        unsafe { _mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, other.0) }
    }

    #[inline(always)]
    fn select(mask: __m256, yes: Avx2, no: Avx2) -> Avx2 {
        // SAFETY: proved by the values.
        Avx2(unsafe { _mm256_blendv_ps(no.0, yes.0, mask) })
    }

    #[inline(always)]
    fn any(mask: __m256) -> bool {
        // SAFETY: a mask is only made from values of this type.
        unsafe { _mm256_movemask_ps(mask) != 0 }
    }

    /// A root and a quotient keep the divider busy longer than the multiply-adds around them take; an estimated
    /// reciprocal with one Newton step leaves it the root alone.
    #[inline(always)]
    unsafe fn minus_over_root(self, numerator: Avx2, square: Avx2, factor: f32, epsilon: f32) -> Avx2 {
        // SAFETY: proved by the values.
        unsafe {
            let (factor, epsilon) = (_mm256_set1_ps(factor), _mm256_set1_ps(epsilon));
            let denominator = _mm256_fmadd_ps(_mm256_sqrt_ps(square.0), factor, epsilon);
            let estimate = _mm256_rcp_ps(denominator);
            let error = _mm256_fnmadd_ps(denominator, estimate, _mm256_set1_ps(1.0));
            let inverse = _mm256_fmadd_ps(estimate, error, estimate);
            Avx2(_mm256_fnmadd_ps(numerator.0, inverse, self.0))
        }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: proved by the value.
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    fn sum4(rows: [Avx2; 4]) -> [f32; 4] {
        let [a, b, c, d] = rows;
        // SAFETY: proved by the values.
        unsafe {
            let ab = _mm256_hadd_ps(a.0, b.0);
            let cd = _mm256_hadd_ps(c.0, d.0);
            let abcd = _mm256_hadd_ps(ab, cd);
            let sums = _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps::<1>(abcd));
            std::mem::transmute::<__m128, [f32; 4]>(sums)
        }
    }
}
