//! Sixteen lanes: AVX-512 F, VL, BW and DQ.

use std::{arch::x86_64::*, ops::Neg};

use super::{Avx2, MAX_LANES, Vector, load_up_to, operators};
use crate::level::Kernel;

/// Sixteen `f32` lanes in a 512-bit register.
#[derive(Copy, Clone)]
#[repr(transparent)]
pub(crate) struct Avx512(__m512);

operators!(Avx512: Add add _mm512_add_ps, Sub sub _mm512_sub_ps, Mul mul _mm512_mul_ps, Div div _mm512_div_ps);

impl Neg for Avx512 {
    type Output = Avx512;
    #[inline(always)]
    fn neg(self) -> Avx512 {
        // SAFETY: a value of this type proves that the CPU has the instructions.
        Avx512(unsafe { _mm512_xor_ps(self.0, _mm512_set1_ps(-0.0)) })
    }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function is compiled with the features of `Avx512`.
    unsafe { kernel.run::<Avx512>() }
}

#[inline(always)]
fn lane_mask(count: usize) -> __mmask16 {
    debug_assert!(count <= 16);
    ((1u32 << count) - 1) as __mmask16
}

/// The sum of the upper and lower halves.
#[inline(always)]
fn fold(x: __m512) -> __m256 {
    // SAFETY: the callers hold a 512-bit register they loaded under the level's contract.
    unsafe { _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps::<1>(x)) }
}

impl Vector for Avx512 {
    const LANES: usize = 16;
    const REGISTERS: usize = 32;
    type Mask = __mmask16;

    #[inline(always)]
    unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
        // SAFETY: the caller vouches for the CPU.
        unsafe { run(kernel) }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Avx512 {
        // SAFETY: the caller vouches for the CPU.
        Avx512(unsafe { _mm512_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Avx512 {
        // SAFETY: the caller vouches for the CPU and the floats.
        Avx512(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize) -> Avx512 {
        // SAFETY: masked lanes are not read; the caller vouches for the others.
        Avx512(unsafe { _mm512_maskz_loadu_ps(lane_mask(count), from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for the destination.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut f32, count: usize) {
        // SAFETY: masked lanes are not written; the caller vouches for the others.
        unsafe { _mm512_mask_storeu_ps(to, lane_mask(count), self.0) }
    }

    #[inline(always)]
    unsafe fn store_pieces(self, to: *mut f32, count: usize) {
        debug_assert!(count < 16);
        // SAFETY: the caller vouches for `count` floats.
        unsafe {
            let (mut to, mut eight) = (to, _mm512_castps512_ps256(self.0));
            if count & 8 != 0 {
                _mm256_storeu_ps(to, eight);
                (to, eight) = (to.add(8), _mm512_extractf32x8_ps::<1>(self.0));
            }
            let mut four = _mm256_castps256_ps128(eight);
            if count & 4 != 0 {
                _mm_storeu_ps(to, four);
                (to, four) = (to.add(4), _mm256_extractf128_ps::<1>(eight));
            }
            if count & 2 != 0 {
                _mm_storel_pd(to.cast(), _mm_castps_pd(four));
                (to, four) = (to.add(2), _mm_movehl_ps(four, four));
            }
            if count & 1 != 0 {
                _mm_store_ss(to, four);
            }
        }
    }

    #[inline(always)]
    unsafe fn transpose8(from: *const f32, from_stride: usize, rows: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: passed on from the caller; this level includes AVX2.
        unsafe { Avx2::transpose8(from, from_stride, rows, to, to_stride) }
    }

    #[inline(always)]
    fn transpose(square: &mut [Avx512; MAX_LANES]) {
        // SAFETY: proved by the values.
        unsafe {
            let mut pairs = [_mm512_setzero_pd(); 16];
            for i in 0..8 {
                let (a, b) = (square[2 * i].0, square[2 * i + 1].0);
                pairs[2 * i] = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
                pairs[2 * i + 1] = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
            }
            // Register `4 * i + j`: columns `j`, `j + 4`, `j + 8` and `j + 12` of rows `4 * i` to `4 * i + 3`.
            let mut fours = [_mm512_setzero_ps(); 16];
            for i in 0..4 {
                for j in 0..2 {
                    let (a, b) = (pairs[4 * i + j], pairs[4 * i + j + 2]);
                    fours[4 * i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
                    fours[4 * i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
                }
            }
            for j in 0..4 {
                let [a, b, c, d] = [fours[j], fours[4 + j], fours[8 + j], fours[12 + j]];
                let even = [
                    _mm512_shuffle_f32x4::<0x88>(a, b),
                    _mm512_shuffle_f32x4::<0x88>(c, d),
                ];
                let odd = [
                    _mm512_shuffle_f32x4::<0xdd>(a, b),
                    _mm512_shuffle_f32x4::<0xdd>(c, d),
                ];
                square[j] = Avx512(_mm512_shuffle_f32x4::<0x88>(even[0], even[1]));
                square[4 + j] = Avx512(_mm512_shuffle_f32x4::<0x88>(odd[0], odd[1]));
                square[8 + j] = Avx512(_mm512_shuffle_f32x4::<0xdd>(even[0], even[1]));
                square[12 + j] = Avx512(_mm512_shuffle_f32x4::<0xdd>(odd[0], odd[1]));
            }
        }
    }

    #[inline(always)]
    fn mul_add(self, b: Avx512, c: Avx512) -> Avx512 {
        // SAFETY: a value of this type proves that the CPU has the instruction; so in every method below.
        Avx512(unsafe { _mm512_fmadd_ps(self.0, b.0, c.0) })
    }

    #[inline(always)]
    fn neg_mul_add(self, b: Avx512, c: Avx512) -> Avx512 {
        // SAFETY: proved by the value.
        Avx512(unsafe { _mm512_fnmadd_ps(self.0, b.0, c.0) })
    }

    #[inline(always)]
    fn max(self, other: Avx512) -> Avx512 {
        // SAFETY: proved by the value.
        Avx512(unsafe { _mm512_max_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn min(self, other: Avx512) -> Avx512 {
        // SAFETY: proved by the value.
        Avx512(unsafe { _mm512_min_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn abs(self) -> Avx512 {
        // SAFETY: proved by the value.
        Avx512(unsafe { _mm512_andnot_ps(_mm512_set1_ps(-0.0), self.0) })
    }

    #[inline(always)]
    fn copy_sign(self, sign: Avx512) -> Avx512 {
        // SAFETY: proved by the value.
        unsafe {
            let bit = _mm512_set1_ps(-0.0);
            Avx512(_mm512_or_ps(
                _mm512_andnot_ps(bit, self.0),
                _mm512_and_ps(bit, sign.0),
            ))
        }
    }

    #[inline(always)]
    fn sqrt(self) -> Avx512 {
        // SAFETY: proved by the value.
        Avx512(unsafe { _mm512_sqrt_ps(self.0) })
    }

    #[inline(always)]
    fn round(self) -> Avx512 {
        // SAFETY: proved by the value.
        Avx512(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
    }

    #[inline(always)]
    fn floor(self) -> Avx512 {
        // SAFETY: proved by the value.
        Avx512(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }

    #[inline(always)]
    fn exp2_integral(self) -> Avx512 {
        // SAFETY: proved by the value.
        unsafe {
            let biased = _mm512_add_epi32(_mm512_cvtps_epi32(self.0), _mm512_set1_epi32(127));
            Avx512(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased)))
        }
    }

    #[inline(always)]
    fn split_exponent(self) -> (Avx512, Avx512) {
        // SAFETY: proved by the value.
        unsafe {
            let bits = _mm512_castps_si512(self.0);
            let mantissa = _mm512_or_si512(
                _mm512_and_si512(bits, _mm512_set1_epi32(0x007f_ffff)),
                _mm512_set1_epi32(0x3f00_0000),
            );
            let exponent = _mm512_sub_epi32(_mm512_srli_epi32::<23>(bits), _mm512_set1_epi32(126));
            (
                Avx512(_mm512_castsi512_ps(mantissa)),
                Avx512(_mm512_cvtepi32_ps(exponent)),
            )
        }
    }

    #[inline(always)]
    fn less(self, other: Avx512) -> __mmask16 {
        // SAFETY: proved by the value.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0) }
    }

    #[inline(always)]
    fn equal(self, other: Avx512) -> __mmask16 {
        // SAFETY: proved by the value.
        unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, other.0) }
    }

    #[inline(always)]
    fn select(mask: __mmask16, yes: Avx512, no: Avx512) -> Avx512 {
        // SAFETY: proved by the values.
        Avx512(unsafe { _mm512_mask_blend_ps(mask, no.0, yes.0) })
    }

    #[inline(always)]
    fn any(mask: __mmask16) -> bool {
        mask != 0
    }

    #[inline(always)]
    unsafe fn list_nonzero(x: *const f32, count: usize, to: *mut u16) -> usize {
        let mut length = 0;
        // SAFETY: the caller vouches for the CPU, the numbers and room for a register of indices after the last.
        unsafe {
            let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            for start in (0..count).step_by(16) {
                let numbers = load_up_to::<Avx512>(x.add(start), count - start);
                let nonzero = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(numbers.0, _mm512_setzero_ps());
                let indices = _mm512_add_epi32(lanes, _mm512_set1_epi32(start as i32));
                let listed = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(nonzero, indices));
                _mm256_storeu_si256(to.add(length).cast(), listed);
                length += nonzero.count_ones() as usize;
            }
        }
        length
    }

    /// Roots and quotients of this width keep the divider busy many times longer than all else a step does. Estimates
    /// of both with one Newton step each, which meet in the denominator, leave it out altogether.
    #[inline(always)]
    unsafe fn minus_over_root(self, numerator: Avx512, square: Avx512, factor: f32, epsilon: f32) -> Avx512 {
        // SAFETY: proved by the values.
        unsafe {
            let estimate = _mm512_rsqrt14_ps(square.0);
            let root = _mm512_mul_ps(square.0, estimate);
            let squared = _mm512_mul_ps(root, estimate);
            let (half, more) = (_mm512_set1_ps(0.5 * factor), _mm512_set1_ps(1.5 * factor));
            let correction = _mm512_fnmadd_ps(squared, half, more);
            let denominator = _mm512_fmadd_ps(root, correction, _mm512_set1_ps(epsilon));
            let estimate = _mm512_rcp14_ps(denominator);
            let error = _mm512_fnmadd_ps(denominator, estimate, _mm512_set1_ps(1.0));
            let inverse = _mm512_fmadd_ps(estimate, error, estimate);
            Avx512(_mm512_fnmadd_ps(numerator.0, inverse, self.0))
        }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: proved by the value.
        unsafe {
            let eight = fold(self.0);
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    fn sum4(rows: [Avx512; 4]) -> [f32; 4] {
        let [a, b, c, d] = rows;
        // SAFETY: proved by the values.
        unsafe {
            let ab = _mm256_hadd_ps(fold(a.0), fold(b.0));
            let cd = _mm256_hadd_ps(fold(c.0), fold(d.0));
            let abcd = _mm256_hadd_ps(ab, cd);
            let sums = _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps::<1>(abcd));
            std::mem::transmute::<__m128, [f32; 4]>(sums)
        }
    }
}
