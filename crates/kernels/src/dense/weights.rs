//! `x^T * dy` for a few weight rows at a time, and the step along it while it is in the first-level cache.
//!
//! Products and step are separate loops: in one register tile, a step of many instructions stalls the multiply-adds of the
//! next tile, which measures slower than a trip through the cache. Steps of few instructions are taken by [`fused`].

use std::{mem::MaybeUninit, ops::Range};

use super::{
    Block, Dense, ROW_BLOCK, fused,
    live::{Live, silent},
};
use crate::{
    level::Kernel,
    update::{Step, rest_at, step_at},
    vector::{MAX_LANES, Vector},
};

/// Columns whose gradient is kept at once.
const CHUNK: usize = 512;
/// Weights that are stepped at once where several blocks of rows are.
const STEPPED: usize = 1024;

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
    /// How many weight rows are best stepped at once: the more, the less often products and step take turns, and so many
    /// that all fit the first-level cache with those that are fetched ahead.
    #[inline(always)]
    pub(super) fn rows_at_once(&self) -> usize {
        (STEPPED / self.shape.outputs.max(1) / ROW_BLOCK).max(1) * ROW_BLOCK
    }

    /// Steps `count` weight rows from `start` on, no more than [`Operands::rows_at_once`].
    ///
    /// # Safety
    /// The CPU supports `V`, the operands fit the shape and the rows exist.
    #[inline(always)]
    pub(super) unsafe fn rows<V: Vector, S: Step>(&self, step: S, start: usize, count: usize) {
        let outputs = self.shape.outputs;
        if count <= ROW_BLOCK {
            // SAFETY: passed on from the caller.
            return unsafe { self.block::<V, S>(step, Inputs::run(start, count), count) };
        }
        let mut scratch = Scratch(MaybeUninit::uninit());
        let to = scratch.0.as_mut_ptr().cast::<f32>();
        // SAFETY: passed on from the caller; so many rows fit, and each is written before it is read.
        unsafe {
            for row in (0..count).step_by(ROW_BLOCK) {
                V::run(Gradient {
                    operands: self,
                    inputs: Inputs::run(start + row, (count - row).min(ROW_BLOCK)).at,
                    column: 0,
                    columns: outputs,
                    to: to.add(row * outputs),
                });
            }
            self.step_row::<V, S>(step, to, start * outputs, count * outputs, count * outputs);
        }
    }

    /// Steps the weight rows of some inputs, at most `ROW_BLOCK`; `ahead` is how far on the rows after them lie.
    ///
    /// # Safety
    /// The CPU supports `V`, the operands fit the shape and the rows exist.
    #[inline(always)]
    pub(super) unsafe fn block<V: Vector, S: Step>(&self, step: S, block: Inputs, ahead: usize) {
        let outputs = self.shape.outputs;
        let mut scratch = Scratch(MaybeUninit::uninit());
        let to = scratch.0.as_mut_ptr().cast::<f32>();
        let ahead = ahead * outputs;
        for column in (0..outputs).step_by(CHUNK) {
            let columns = (outputs - column).min(CHUNK);
            // SAFETY: passed on from the caller; the gradient is written before it is read.
            unsafe {
                V::run(Gradient {
                    operands: self,
                    inputs: block.at,
                    column,
                    columns,
                    to,
                });
                if columns == outputs && block.is_run() {
                    self.step_row::<V, S>(step, to, block.at[0] * outputs, block.count * outputs, ahead);
                    continue;
                }
                for (row, input) in block.at.iter().enumerate().take(block.count) {
                    let gradient = to.add(row * columns).cast_const();
                    self.step_row::<V, S>(step, gradient, input * outputs + column, columns, ahead);
                }
            }
        }
    }

    /// Steps `count` consecutive weights, the first at `offset`, and fetches those that lie `ahead`.
    #[inline(always)]
    pub(super) unsafe fn step_row<V: Vector, S: Step>(
        &self,
        step: S,
        gradient: *const f32,
        offset: usize,
        count: usize,
        ahead: usize,
    ) {
        let mut i = 0;
        // SAFETY: the weights, their states and their gradient exist.
        unsafe {
            while i + V::LANES <= count {
                let at = offset + i;
                if S::READS && fetches_ahead::<V>() {
                    V::prefetch(self.w.wrapping_add(at + ahead));
                    for state in self.states.iter().take(S::STATES) {
                        V::prefetch(state.wrapping_add(at + ahead));
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

    /// Steps consecutive weights that have no gradient.
    ///
    /// # Safety
    /// The CPU supports `V`, the operands fit the shape and the weights exist.
    #[inline(always)]
    pub(super) unsafe fn rest<V: Vector, S: Step>(&self, step: S, weights: Range<usize>) {
        if step.rests() == Some(1.0) {
            return;
        }
        for at in weights.clone().step_by(V::LANES) {
            let count = (weights.end - at).min(V::LANES);
            // SAFETY: the weights and their states exist.
            unsafe {
                match step.rests() {
                    Some(keep) => {
                        for state in self.states.iter().take(S::STATES) {
                            rest_at::<V>(keep, state.add(at), count);
                        }
                    }
                    None if count == V::LANES => {
                        step_at::<V, S, false>(step, V::splat(0.0), self.w.add(at), self.states, at, count);
                    }
                    None => {
                        step_at::<V, S, true>(step, V::splat(0.0), self.w.add(at), self.states, at, count);
                    }
                }
            }
        }
    }
}

/// The step of all weights.
pub(super) struct WeightStep<S> {
    pub(super) operands: Operands,
    pub(super) step: S,
}

/// A block of weight rows of listed inputs.
struct ListedBlock<'a, S> {
    call: &'a WeightStep<S>,
    inputs: &'a [u16],
    ahead: usize,
}

impl<S: Step> Kernel for ListedBlock<'_, S> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let WeightStep { operands, step } = self.call;
        // SAFETY: passed on from the caller.
        unsafe { operands.block::<V, S>(*step, Inputs::listed(self.inputs), self.ahead) }
    }
}

impl<S: Step> WeightStep<S> {
    /// Steps all weights, those of inputs that are not listed as without gradient.
    ///
    /// # Safety
    /// The CPU supports `V`, the operands fit the shape, and inputs that are not listed are zero in every sample.
    #[inline(always)]
    pub(super) unsafe fn rows_of<V: Vector>(&self, list: Option<&[u16]>) {
        // SAFETY: passed on from the caller.
        unsafe {
            if fused::pays::<V, S>(self.operands.shape) {
                fused::weights::<V, S>(&self.operands, self.step, list);
            } else if let Some(list) = list {
                self.listed::<V>(list);
            } else {
                let (inputs, most) = (self.operands.shape.inputs, self.operands.rows_at_once());
                for start in (0..inputs).step_by(most) {
                    V::run(Block {
                        operands: self,
                        start,
                        rows: (inputs - start).min(most),
                    });
                }
            }
            self.rest_of::<V>(list);
        }
    }

    /// Steps the weights of inputs that are not listed, as without gradient.
    #[inline(always)]
    unsafe fn rest_of<V: Vector>(&self, list: Option<&[u16]>) {
        let Dense { inputs, outputs, .. } = self.operands.shape;
        for run in list.into_iter().flat_map(|list| silent(list, inputs)) {
            // SAFETY: the operands were checked against the shape.
            unsafe {
                self.operands
                    .rest::<V, S>(self.step, run.start * outputs..run.end * outputs);
            }
        }
    }

    /// Steps the weights of listed inputs.
    #[inline(always)]
    unsafe fn listed<V: Vector>(&self, list: &[u16]) {
        // SAFETY: the operands were checked against the shape, and listed inputs exist.
        unsafe {
            for (block, inputs) in list.chunks(ROW_BLOCK).enumerate() {
                let next = list.get((block + 1) * ROW_BLOCK).unwrap_or(&inputs[0]);
                let ahead = usize::from(next - inputs[0]);
                V::run(ListedBlock {
                    call: self,
                    inputs,
                    ahead,
                });
            }
        }
    }
}

impl<S: Step> Kernel for WeightStep<S> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let mut live = Live::new();
        // SAFETY: the operands were checked against the shape.
        unsafe {
            let list = live.find::<V>(self.operands.shape, self.operands.x);
            self.rows_of::<V>(list);
        }
    }
}

impl<S: Step> Kernel for Block<'_, WeightStep<S>> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let WeightStep { operands, step } = self.operands;
        // SAFETY: passed on from the caller.
        unsafe { operands.rows::<V, S>(*step, self.start, self.rows) }
    }
}

/// The inputs of a block of weight rows.
#[derive(Copy, Clone)]
pub(super) struct Inputs {
    /// Of which the first `count` are meant; the others repeat one of them.
    at: [usize; ROW_BLOCK],
    count: usize,
}

impl Inputs {
    /// `count` inputs from `start` on.
    #[inline(always)]
    pub(super) fn run(start: usize, count: usize) -> Inputs {
        Inputs {
            at: std::array::from_fn(|row| start + row.min(count - 1)),
            count,
        }
    }

    /// Inputs of a list.
    #[inline(always)]
    pub(super) fn listed(list: &[u16]) -> Inputs {
        Inputs {
            at: std::array::from_fn(|row| usize::from(list[row.min(list.len() - 1)])),
            count: list.len(),
        }
    }

    /// Whether they follow one another.
    #[inline(always)]
    fn is_run(&self) -> bool {
        self.at[self.count - 1] - self.at[0] == self.count - 1
    }
}

/// The gradient of a block of weight rows and some columns, in a function of its own for all rules.
struct Gradient<'a> {
    operands: &'a Operands,
    inputs: [usize; ROW_BLOCK],
    column: usize,
    columns: usize,
    to: *mut f32,
}

impl Kernel for Gradient<'_> {
    type Output = ();

    /// Tiles of about equal width, from last to first: what the last vector of a row spills into the next row is
    /// overwritten.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let widest = if V::REGISTERS == 16 { 2 } else { 6 };
        let mut vectors = self.columns.div_ceil(V::LANES);
        let mut tiles = vectors.div_ceil(widest);
        while tiles > 0 {
            let width = vectors.div_ceil(tiles);
            vectors -= width;
            tiles -= 1;
            let column = vectors * V::LANES;
            let partial = self.columns - column < width * V::LANES;
            // SAFETY: the rows and columns exist, and the scratch holds them.
            unsafe {
                match (width, partial) {
                    (1, false) => self.tile::<V, 1, false>(column),
                    (1, true) => self.tile::<V, 1, true>(column),
                    (2, false) => self.tile::<V, 2, false>(column),
                    (2, true) => self.tile::<V, 2, true>(column),
                    (3, false) if widest > 2 => self.tile::<V, 3, false>(column),
                    (3, true) if widest > 2 => self.tile::<V, 3, true>(column),
                    (4, false) if widest > 2 => self.tile::<V, 4, false>(column),
                    (4, true) if widest > 2 => self.tile::<V, 4, true>(column),
                    (5, false) if widest > 2 => self.tile::<V, 5, false>(column),
                    (5, true) if widest > 2 => self.tile::<V, 5, true>(column),
                    (6, false) if widest > 2 => self.tile::<V, 6, false>(column),
                    (6, true) if widest > 2 => self.tile::<V, 6, true>(column),
                    _ => unreachable!("no tile is wider"),
                }
            }
        }
    }
}

impl Gradient<'_> {
    /// All weight rows by `W` vectors, of which the last is partial if `PARTIAL`.
    #[inline(always)]
    unsafe fn tile<V: Vector, const W: usize, const PARTIAL: bool>(&self, column: usize) {
        let Dense {
            rows,
            inputs,
            outputs,
        } = self.operands.shape;
        let tail = self.columns - column - (W - 1) * V::LANES;
        // SAFETY: the rows and columns of the tile exist; the scratch has room for a whole vector at its end.
        unsafe {
            // Without samples these point nowhere, and nothing is read.
            let mut x = self.operands.x;
            let mut dy = self.operands.dy.wrapping_add(self.column + column);
            let mut sums = [[V::splat(0.0); W]; ROW_BLOCK];
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
                for (input, sums) in self.inputs.iter().zip(&mut sums) {
                    let x = V::splat(*x.add(*input));
                    for (sum, error) in sums.iter_mut().zip(&errors) {
                        *sum = x.mul_add(*error, *sum);
                    }
                }
                x = x.wrapping_add(inputs);
                dy = dy.wrapping_add(outputs);
            }
            for (row, sums) in sums.iter().enumerate() {
                let to = self.to.add(row * self.columns + column);
                for (vector, sum) in sums.iter().enumerate() {
                    sum.store(to.add(vector * V::LANES));
                }
            }
        }
    }
}
