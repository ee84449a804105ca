//! `x^T * dy` for a few weight rows at a time, and the step along it while it is in the first-level cache.
//!
//! Products and step are separate loops: fused in one register tile, the long latency of the step's root and quotient
//! stalls the multiply-adds of the next tile, which measures slower than a trip through the cache.

use std::mem::MaybeUninit;

use super::{Dense, ROW_BLOCK};
use crate::{
    level::Kernel,
    update::{Step, step_at},
    vector::{MAX_LANES, Vector},
};

/// Columns whose gradient is kept at once.
const CHUNK: usize = 512;

/// The gradient of some columns of a block of weight rows, one row after the other. A whole register may be stored at the
/// last of them.
#[repr(align(64))]
struct Scratch(MaybeUninit<[f32; ROW_BLOCK * CHUNK + MAX_LANES]>);

/// Whether a step fetches as many weights as it steps, those that follow. It pays where a register is a cache line: the
/// arithmetic of a step leaves time for it.
#[inline(always)]
pub(super) fn fetches_ahead<V: Vector>() -> bool {
    V::LANES == MAX_LANES
}

#[derive(Copy, Clone)]
pub(super) struct Operands {
    pub(super) shape: Dense,
    pub(super) x: *const f32,
    pub(super) dy: *const f32,
    pub(super) w: *mut f32,
    pub(super) states: [*mut f32; 2],
}

impl Operands {
    /// Steps `count <= ROW_BLOCK` weight rows from `start` on.
    ///
    /// # Safety
    /// The CPU supports `V`, the operands fit the shape and the rows exist.
    #[inline(always)]
    pub(super) unsafe fn block<V: Vector, S: Step>(&self, step: S, start: usize, count: usize) {
        let outputs = self.shape.outputs;
        let mut scratch = Scratch(MaybeUninit::uninit());
        let to = scratch.0.as_mut_ptr().cast::<f32>();
        for column in (0..outputs).step_by(CHUNK) {
            let columns = (outputs - column).min(CHUNK);
            // SAFETY: passed on from the caller; the gradient is written before it is read.
            unsafe {
                V::run(Gradient {
                    operands: self,
                    start,
                    count,
                    column,
                    columns,
                    to,
                });
                if columns == outputs {
                    self.step_row::<V, S>(step, to, start * outputs, count * outputs);
                    continue;
                }
                for row in 0..count {
                    let gradient = to.add(row * columns).cast_const();
                    self.step_row::<V, S>(step, gradient, (start + row) * outputs + column, columns);
                }
            }
        }
    }

    /// Steps `count` consecutive weights, the first at `offset`.
    #[inline(always)]
    pub(super) unsafe fn step_row<V: Vector, S: Step>(
        &self,
        step: S,
        gradient: *const f32,
        offset: usize,
        count: usize,
    ) {
        let mut i = 0;
        // SAFETY: the weights, their states and their gradient exist.
        unsafe {
            while i + V::LANES <= count {
                let at = offset + i;
                if S::READS && fetches_ahead::<V>() {
                    V::prefetch(self.w.wrapping_add(at + count));
                    for state in self.states.iter().take(S::STATES) {
                        V::prefetch(state.wrapping_add(at + count));
                    }
                }
                step_at::<V, S, false>(
                    step,
                    V::load(gradient.add(i)),
                    self.w.add(at),
                    self.states,
                    at,
                    V::LANES,
                );
                i += V::LANES;
            }
            if i < count {
                let (at, tail) = (offset + i, count - i);
                let gradient = V::load_partial(gradient.add(i), tail);
                step_at::<V, S, true>(step, gradient, self.w.add(at), self.states, at, tail);
            }
        }
    }
}

/// The gradient of `count` weight rows and some columns, in a function of its own for all rules.
struct Gradient<'a> {
    operands: &'a Operands,
    start: usize,
    count: usize,
    column: usize,
    columns: usize,
    to: *mut f32,
}

impl Kernel for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the rows and columns exist, and the scratch holds them.
        unsafe {
            if self.count == ROW_BLOCK {
                self.rows::<V, ROW_BLOCK>(0);
            } else {
                for row in 0..self.count {
                    self.rows::<V, 1>(row);
                }
            }
        }
    }
}

impl Gradient<'_> {
    /// `H` weight rows in tiles of about equal width, from last to first: what the last vector of a row spills into the
    /// next row is overwritten.
    #[inline(always)]
    unsafe fn rows<V: Vector, const H: usize>(&self, row: usize) {
        let widest = match (V::REGISTERS, H) {
            (16, ROW_BLOCK) => 2,
            (16, _) => 4,
            _ => 6,
        };
        let mut vectors = self.columns.div_ceil(V::LANES);
        let mut tiles = vectors.div_ceil(widest);
        while tiles > 0 {
            let width = vectors.div_ceil(tiles);
            vectors -= width;
            tiles -= 1;
            let column = vectors * V::LANES;
            let partial = self.columns - column < width * V::LANES;
            // SAFETY: passed on from the caller.
            unsafe {
                match (width, partial) {
                    (1, false) => self.tile::<V, H, 1, false>(row, column),
                    (1, true) => self.tile::<V, H, 1, true>(row, column),
                    (2, false) => self.tile::<V, H, 2, false>(row, column),
                    (2, true) => self.tile::<V, H, 2, true>(row, column),
                    (3, false) if widest > 2 => self.tile::<V, H, 3, false>(row, column),
                    (3, true) if widest > 2 => self.tile::<V, H, 3, true>(row, column),
                    (4, false) if widest > 2 => self.tile::<V, H, 4, false>(row, column),
                    (4, true) if widest > 2 => self.tile::<V, H, 4, true>(row, column),
                    (5, false) if widest > 4 => self.tile::<V, H, 5, false>(row, column),
                    (5, true) if widest > 4 => self.tile::<V, H, 5, true>(row, column),
                    (6, false) if widest > 4 => self.tile::<V, H, 6, false>(row, column),
                    (6, true) if widest > 4 => self.tile::<V, H, 6, true>(row, column),
                    _ => unreachable!("no tile is wider"),
                }
            }
        }
    }

    /// `H` weight rows by `W` vectors, of which the last is partial if `PARTIAL`.
    #[inline(always)]
    unsafe fn tile<V: Vector, const H: usize, const W: usize, const PARTIAL: bool>(
        &self,
        row: usize,
        column: usize,
    ) {
        let Dense {
            rows,
            inputs,
            outputs,
        } = self.operands.shape;
        let tail = self.columns - column - (W - 1) * V::LANES;
        // SAFETY: the rows and columns of the tile exist; the scratch has room for a whole vector at its end.
        unsafe {
            // Without samples these point nowhere, and nothing is read.
            let mut x = self.operands.x.wrapping_add(self.start + row);
            let mut dy = self.operands.dy.wrapping_add(self.column + column);
            let mut sums = [[V::splat(0.0); W]; H];
            for _ in 0..rows {
                let mut errors = [V::splat(0.0); W];
                for (vector, error) in errors.iter_mut().enumerate() {
                    let at = dy.add(vector * V::LANES);
                    *error = if PARTIAL && vector == W - 1 {
                        V::load_partial(at, tail)
                    } else {
                        V::load(at)
                    };
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x = V::splat(*x.add(row));
                    for (sum, error) in sums.iter_mut().zip(&errors) {
                        *sum = x.mul_add(*error, *sum);
                    }
                }
                x = x.wrapping_add(inputs);
                dy = dy.wrapping_add(outputs);
            }
            for (h, sums) in sums.iter().enumerate() {
                let to = self.to.add((row + h) * self.columns + column);
                for (vector, sum) in sums.iter().enumerate() {
                    sum.store(to.add(vector * V::LANES));
                }
            }
        }
    }
}
