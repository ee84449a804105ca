//! Vector algebra on flat buffers: what averaging and clipping of whole models is made of.

use crate::{
    level::{Kernel, Simd},
    vector::Vector,
};

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
