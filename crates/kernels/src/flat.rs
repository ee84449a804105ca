//! Vector algebra on flat buffers: what averaging, clipping and checking of whole models is made of.

use crate::{
    level::{Kernel, Simd},
    vector::{Vector, load_up_to, store_up_to},
};

/// `y += a * x`.
pub fn axpy(simd: Simd, a: f32, x: &[f32], y: &mut [f32]) {
    assert!(
        x.len() == y.len(),
        "axpy: {} inputs, {} outputs",
        x.len(),
        y.len()
    );
    simd.run(Axpy(a, x, y));
}

/// `x *= a`.
pub fn scale(simd: Simd, a: f32, x: &mut [f32]) {
    simd.run(Scale(a, x));
}

/// The inner product, accumulated in double precision; the same bits at every level.
pub fn dot(simd: Simd, x: &[f32], y: &[f32]) -> f64 {
    assert!(
        x.len() == y.len(),
        "dot: {} elements against {}",
        x.len(),
        y.len()
    );
    simd.run(Dot(x, y))
}

/// The Euclidean norm, accumulated in double precision; the same bits at every level.
pub fn norm2(simd: Simd, x: &[f32]) -> f64 {
    dot(simd, x, x).sqrt()
}

/// Whether no element is infinite or NaN.
pub fn all_finite(simd: Simd, x: &[f32]) -> bool {
    simd.run(AllFinite(x))
}

struct Axpy<'a>(f32, &'a [f32], &'a mut [f32]);

impl Kernel for Axpy<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let mut i = 0;
        // SAFETY: both slices have `count` floats from `i` on.
        unsafe {
            let a = V::splat(self.0);
            while i < self.1.len() {
                let count = (self.1.len() - i).min(V::LANES);
                let y = self.2.as_mut_ptr().add(i);
                let x = load_up_to::<V>(self.1.as_ptr().add(i), count);
                store_up_to(x.mul_add(a, load_up_to(y, count)), y, count);
                i += count;
            }
        }
    }
}

struct Scale<'a>(f32, &'a mut [f32]);

impl Kernel for Scale<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for x in self.1 {
            *x *= self.0;
        }
    }
}

const STREAMS: usize = 16;

struct Dot<'a>(&'a [f32], &'a [f32]);

impl Kernel for Dot<'_> {
    type Output = f64;

    /// Products of two `f32` are exact in `f64`, so fusing the addition or not gives the same bits.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) -> f64 {
        let mut sums = [0.0f64; STREAMS];
        let (x, x_tail) = self.0.as_chunks::<STREAMS>();
        let (y, y_tail) = self.1.as_chunks::<STREAMS>();
        for (x, y) in x.iter().zip(y) {
            for lane in 0..STREAMS {
                sums[lane] += x[lane] as f64 * y[lane] as f64;
            }
        }
        for (sum, (&x, &y)) in sums.iter_mut().zip(x_tail.iter().zip(y_tail)) {
            *sum += x as f64 * y as f64;
        }
        sums.into_iter().sum()
    }
}

struct AllFinite<'a>(&'a [f32]);

impl Kernel for AllFinite<'_> {
    type Output = bool;

    #[inline(always)]
    unsafe fn run<V: Vector>(self) -> bool {
        // A branch per block, not per element: the common answer is "yes" and needs the whole pass.
        self.0.chunks(1024).all(|block| {
            let mut infinite = 0u32;
            for x in block {
                infinite |= u32::from(x.to_bits() & 0x7f80_0000 == 0x7f80_0000);
            }
            infinite == 0
        })
    }
}
