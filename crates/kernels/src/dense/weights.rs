//! `x^T * dy` in register tiles of weight rows by output vectors, each stepped before it leaves the registers.

use std::hint::black_box;

use super::{Dense, ROW_BLOCK};
use crate::{
    update::{Step, step_at},
    vector::Vector,
};

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
        // SAFETY: passed on from the caller.
        unsafe {
            if count == ROW_BLOCK {
                self.rows::<V, S, ROW_BLOCK>(step, start);
            } else {
                for row in start..start + count {
                    self.rows::<V, S, 1>(step, row);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn rows<V: Vector, S: Step, const H: usize>(&self, step: S, start: usize) {
        let outputs = self.shape.outputs;
        let widest = if V::REGISTERS == 32 { 4 } else { 3 };
        let mut column = 0;
        while column < outputs {
            let vectors = (outputs - column).div_ceil(V::LANES);
            let columns = (outputs - column).min(widest * V::LANES);
            let partial = !columns.is_multiple_of(V::LANES);
            // SAFETY: passed on from the caller.
            unsafe {
                match (vectors.min(widest), partial) {
                    (1, false) => self.tile::<V, S, H, 1, false>(step, start, column),
                    (1, true) => self.tile::<V, S, H, 1, true>(step, start, column),
                    (2, false) => self.tile::<V, S, H, 2, false>(step, start, column),
                    (2, true) => self.tile::<V, S, H, 2, true>(step, start, column),
                    (3, false) => self.tile::<V, S, H, 3, false>(step, start, column),
                    (3, true) => self.tile::<V, S, H, 3, true>(step, start, column),
                    (_, false) if widest == 4 => self.tile::<V, S, H, 4, false>(step, start, column),
                    (_, true) if widest == 4 => self.tile::<V, S, H, 4, true>(step, start, column),
                    _ => unreachable!("no wider tile"),
                }
            }
            column += columns;
        }
    }

    /// `H` weight rows by `W` vectors, of which the last is partial if `PARTIAL`.
    #[inline(always)]
    unsafe fn tile<V: Vector, S: Step, const H: usize, const W: usize, const PARTIAL: bool>(
        &self,
        step: S,
        start: usize,
        column: usize,
    ) {
        let Dense { rows, inputs, outputs } = self.shape;
        let tail = outputs - column - (W - 1) * V::LANES;
        // SAFETY: the rows and columns of the tile exist in every operand.
        unsafe {
            let mut x = self.x.add(start);
            let mut dy = self.dy.add(column);
            let mut sums = [[V::splat(0.0); W]; H];
            for _ in 0..rows {
                let mut errors = [V::splat(0.0); W];
                for (vector, error) in errors.iter_mut().enumerate() {
                    let at = dy.add(vector * V::LANES);
                    *error = if PARTIAL && vector == W - 1 { V::load_partial(at, tail) } else { V::load(at) };
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
            // Read the rule's constants only here: hoisted before the loop, they would push the sums out of registers.
            let step = *black_box(&step);
            for (row, sums) in sums.iter().enumerate() {
                let offset = (start + row) * outputs + column;
                for (vector, &sum) in sums.iter().enumerate() {
                    let offset = offset + vector * V::LANES;
                    let parameter = self.w.add(offset);
                    if PARTIAL && vector == W - 1 {
                        step_at::<V, S, true>(step, sum, parameter, self.states, offset, tail);
                    } else {
                        step_at::<V, S, false>(step, sum, parameter, self.states, offset, V::LANES);
                    }
                }
            }
        }
    }
}
