//! Sums, means and extremes along one axis.

use std::ops::Range;

use crate::{
    level::{Kernel, Simd},
    share::{Shared, share},
    vector::{MAX_LANES, Vector, load_up_to, store_up_to},
};

/// How the elements along an axis become one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum; zero for no elements.
    Sum,
    /// The mean; zero for no elements.
    Mean,
    /// The largest; NaN if there is one, negative infinity for no elements.
    Max,
    /// The smallest; NaN if there is one, infinity for no elements.
    Min,
}

/// Elements added up in single precision before the partial sum moves on, which bounds the rounding error of long
/// sums without costing speed.
const BLOCK: usize = 2048;

/// Columns of a reduction that a thread gets at least.
const COLUMNS: usize = 64;

/// Reduces the middle axis of `x`, `[outer, len, inner]`, into `y`, `[outer, inner]`, in a fixed order.
pub fn reduce(simd: Simd, kind: Reduction, outer: usize, len: usize, inner: usize, x: &[f32], y: &mut [f32]) {
    reduce_shared(simd, kind, [outer, len, inner], x, y, 1);
}

/// [`reduce`] by several threads, each on its own results; the bits do not depend on their number.
pub fn reduce_shared(
    simd: Simd,
    kind: Reduction,
    [outer, len, inner]: [usize; 3],
    x: &[f32],
    y: &mut [f32],
    threads: usize,
) {
    assert!(
        x.len() == outer * len * inner && y.len() == outer * inner,
        "reduce of [{outer}, {len}, {inner}]: {} inputs, {} outputs",
        x.len(),
        y.len()
    );
    let to = Shared::new(y);
    let part = |rows: Range<usize>, columns: Range<usize>| {
        let shape = Shape {
            rows,
            columns,
            len,
            inner,
            x,
            y: to,
        };
        match kind {
            Reduction::Sum => simd.run(Reduce {
                shape,
                fold: Sum { scale: 1.0 },
            }),
            Reduction::Mean => simd.run(Reduce {
                shape,
                fold: Sum {
                    scale: 1.0 / len.max(1) as f32,
                },
            }),
            Reduction::Max => simd.run(Reduce { shape, fold: Max }),
            Reduction::Min => simd.run(Reduce { shape, fold: Min }),
        }
    };
    if outer > 1 {
        return share(threads, outer, |rows| part(rows, 0..inner));
    }
    share(threads, inner.div_ceil(COLUMNS), |blocks| {
        part(
            0..outer,
            blocks.start * COLUMNS..(blocks.end * COLUMNS).min(inner),
        );
    });
}

/// Some of the results.
struct Shape<'a> {
    rows: Range<usize>,
    columns: Range<usize>,
    len: usize,
    inner: usize,
    x: &'a [f32],
    /// Where all results start; nobody else writes these.
    y: Shared,
}

/// An associative operation with its neutral element.
trait Fold: Copy {
    const NEUTRAL: f32;
    fn join<V: Vector>(a: V, b: V) -> V;
    fn join_scalar(a: f64, b: f64) -> f64;
    fn finish(self, x: f32) -> f32 {
        x
    }
}

#[derive(Copy, Clone)]
struct Sum {
    scale: f32,
}

impl Fold for Sum {
    const NEUTRAL: f32 = 0.0;
    #[inline(always)]
    fn join<V: Vector>(a: V, b: V) -> V {
        a + b
    }
    #[inline(always)]
    fn join_scalar(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn finish(self, x: f32) -> f32 {
        x * self.scale
    }
}

#[derive(Copy, Clone)]
struct Max;

impl Fold for Max {
    const NEUTRAL: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn join<V: Vector>(a: V, b: V) -> V {
        a.nan_or(a.max(b))
    }
    #[inline(always)]
    fn join_scalar(a: f64, b: f64) -> f64 {
        if a.is_nan() || a > b { a } else { b }
    }
}

#[derive(Copy, Clone)]
struct Min;

impl Fold for Min {
    const NEUTRAL: f32 = f32::INFINITY;
    #[inline(always)]
    fn join<V: Vector>(a: V, b: V) -> V {
        a.nan_or(a.min(b))
    }
    #[inline(always)]
    fn join_scalar(a: f64, b: f64) -> f64 {
        if a.is_nan() || a < b { a } else { b }
    }
}

struct Reduce<'a, F> {
    shape: Shape<'a>,
    fold: F,
}

impl<F: Fold> Kernel for Reduce<'_, F> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Shape {
            rows,
            columns: all,
            len,
            inner,
            x,
            y,
        } = self.shape;
        for o in rows {
            if inner == 1 {
                // SAFETY: the CPU is vouched for by the caller, and the result lies inside `y`.
                unsafe {
                    let joined = self.fold.finish(row::<V, F>(&x[o * len..(o + 1) * len]));
                    *y.pointer().add(o) = joined;
                }
                continue;
            }
            let mut column = all.start;
            while column < all.end {
                // SAFETY: the columns from here to the end of the part exist in `x` and `y`.
                unsafe {
                    let from = x.as_ptr().add(o * len * inner + column);
                    let to = y.pointer().add(o * inner + column);
                    let left = all.end - column;
                    column += if left >= 4 * V::LANES {
                        columns::<V, F, 4>(self.fold, from, len, inner, to, V::LANES)
                    } else {
                        columns::<V, F, 1>(self.fold, from, len, inner, to, left.min(V::LANES))
                    };
                }
            }
        }
    }
}

/// Reduces contiguous elements, four registers wide within a block.
#[inline(always)]
unsafe fn row<V: Vector, F: Fold>(x: &[f32]) -> f32 {
    let mut total = F::NEUTRAL as f64;
    for block in x.chunks(BLOCK) {
        // SAFETY: every load stays inside the block; the CPU is vouched for by the caller.
        unsafe {
            let mut joined = [V::splat(F::NEUTRAL); 4];
            let mut i = 0;
            while i + 4 * V::LANES <= block.len() {
                for (part, register) in joined.iter_mut().enumerate() {
                    *register = F::join(*register, V::load(block.as_ptr().add(i + part * V::LANES)));
                }
                i += 4 * V::LANES;
            }
            while i + V::LANES <= block.len() {
                joined[0] = F::join(joined[0], V::load(block.as_ptr().add(i)));
                i += V::LANES;
            }
            let joined = F::join(F::join(joined[0], joined[1]), F::join(joined[2], joined[3]));
            let mut lanes = [F::NEUTRAL; MAX_LANES];
            joined.store(lanes.as_mut_ptr());
            for &lane in lanes[..V::LANES].iter().chain(&block[i..]) {
                total = F::join_scalar(total, lane as f64);
            }
        }
    }
    total as f32
}

/// Reduces `N` registers of neighbouring columns, `count` lanes of the last, and returns how many columns it did.
#[inline(always)]
unsafe fn columns<V: Vector, F: Fold, const N: usize>(
    fold: F,
    from: *const f32,
    len: usize,
    stride: usize,
    to: *mut f32,
    count: usize,
) -> usize {
    // SAFETY: the caller vouches for the CPU and for the columns in every row.
    unsafe {
        let mut total = [V::splat(F::NEUTRAL); N];
        for start in (0..len).step_by(BLOCK / 16) {
            let mut joined = [V::splat(F::NEUTRAL); N];
            for row in start..(start + BLOCK / 16).min(len) {
                for (part, register) in joined.iter_mut().enumerate() {
                    let x = from.add(row * stride + part * V::LANES);
                    *register = F::join(*register, load_up_to(x, count));
                }
            }
            for (total, joined) in total.iter_mut().zip(&joined) {
                *total = F::join(*total, *joined);
            }
        }
        for (part, total) in total.iter().enumerate() {
            let mut lanes = [0.0; MAX_LANES];
            total.store(lanes.as_mut_ptr());
            for lane in &mut lanes {
                *lane = fold.finish(*lane);
            }
            store_up_to(V::load(lanes.as_ptr()), to.add(part * V::LANES), count);
        }
        (N - 1) * V::LANES + count
    }
}
