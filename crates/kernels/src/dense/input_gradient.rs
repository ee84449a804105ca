//! `dx = gate(dy * w^T)`: inner products of error rows with weight rows, both contiguous.

use super::{Dense, Gate, ROW_BLOCK};
use crate::vector::Vector;

pub(super) struct Operands<'a> {
    pub(super) shape: Dense,
    pub(super) dy: *const f32,
    pub(super) w: *const f32,
    pub(super) gate: Gate<'a>,
    pub(super) dx: *mut f32,
}

impl Operands<'_> {
    /// Passes the whole gradient through the gate, once all blocks are done: it is small, and whole vectors are faster
    /// than the four elements a block yields at a time.
    ///
    /// # Safety
    /// The CPU supports `V` and the operands fit the shape.
    #[inline(always)]
    pub(super) unsafe fn gate<V: Vector>(&self) {
        // SAFETY: passed on from the caller.
        unsafe {
            self.gate
                .apply_all::<V>(self.dx, self.shape.rows * self.shape.inputs)
        }
    }

    /// The gradient of `count <= ROW_BLOCK` inputs from `start` on, for all samples, before the gate.
    ///
    /// # Safety
    /// The CPU supports `V`, the operands fit the shape and the inputs exist.
    #[inline(always)]
    pub(super) unsafe fn block<V: Vector>(&self, start: usize, count: usize) {
        let rows = self.shape.rows;
        // With the errors and one weight these sums fill the registers of either kind without spilling.
        let tallest = if V::REGISTERS == 32 { 5 } else { 2 };
        let mut row = 0;
        let mut groups = rows.div_ceil(tallest);
        while groups > 0 {
            let height = (rows - row).div_ceil(groups);
            // SAFETY: passed on from the caller.
            unsafe {
                match (count, height) {
                    (ROW_BLOCK, 1) => self.tile::<V, ROW_BLOCK, 1>(start, row),
                    (ROW_BLOCK, 2) => self.tile::<V, ROW_BLOCK, 2>(start, row),
                    (ROW_BLOCK, 3) if V::REGISTERS == 32 => self.tile::<V, ROW_BLOCK, 3>(start, row),
                    (ROW_BLOCK, 4) if V::REGISTERS == 32 => self.tile::<V, ROW_BLOCK, 4>(start, row),
                    (ROW_BLOCK, _) if V::REGISTERS == 32 => self.tile::<V, ROW_BLOCK, 5>(start, row),
                    _ => {
                        for row in row..row + height {
                            for input in start..start + count {
                                self.tile::<V, 1, 1>(input, row);
                            }
                        }
                    }
                }
            }
            row += height;
            groups -= 1;
        }
    }

    /// `W` inputs for `H` samples.
    #[inline(always)]
    unsafe fn tile<V: Vector, const W: usize, const H: usize>(&self, start: usize, row: usize) {
        let Dense { inputs, outputs, .. } = self.shape;
        // SAFETY: the rows of errors and weights exist, and every load ends inside them.
        unsafe {
            let dy = self.dy.add(row * outputs);
            let w = self.w.add(start * outputs);
            let mut sums = [[V::splat(0.0); H]; W];
            let mut column = 0;
            while column + V::LANES <= outputs {
                let mut errors = [V::splat(0.0); H];
                for (b, error) in errors.iter_mut().enumerate() {
                    *error = V::load(dy.add(b * outputs + column));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let weight = V::load(w.add(i * outputs + column));
                    for (sum, error) in sums.iter_mut().zip(&errors) {
                        *sum = weight.mul_add(*error, *sum);
                    }
                }
                column += V::LANES;
            }
            if column < outputs {
                let tail = outputs - column;
                for (i, sums) in sums.iter_mut().enumerate() {
                    let weight = V::load_partial(w.add(i * outputs + column), tail);
                    for (b, sum) in sums.iter_mut().enumerate() {
                        *sum = weight.mul_add(V::load_partial(dy.add(b * outputs + column), tail), *sum);
                    }
                }
            }
            for b in 0..H {
                let mut four = [V::splat(0.0); 4];
                for (sum, sums) in four.iter_mut().zip(&sums) {
                    *sum = sums[b];
                }
                let index = (row + b) * inputs + start;
                let sums = V::sum4(four);
                if W == 4 {
                    self.dx.add(index).cast::<[f32; 4]>().write_unaligned(sums);
                } else {
                    for (i, &sum) in sums.iter().enumerate().take(W) {
                        *self.dx.add(index + i) = sum;
                    }
                }
            }
        }
    }
}
