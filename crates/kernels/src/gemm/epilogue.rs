//! The general way of a tile to memory: partial tiles, and epilogues too large to be compiled into the tile.

use super::{Bias, Epilogue, tile::Stage};
use crate::{
    level::Kernel,
    vector::{Vector, load_up_to, store_up_to},
};

/// Floats of the largest tile.
pub(super) const SCRATCH: usize = 14 * 32;

/// A tile of products in scratch memory, of which `size` rows and columns belong to `c`.
pub(super) struct Finish<'a> {
    pub(super) scratch: &'a [f32; SCRATCH],
    pub(super) width: usize,
    pub(super) size: [usize; 2],
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) c: *mut f32,
    pub(super) stride: usize,
    pub(super) stage: Stage,
    pub(super) epilogue: &'a Epilogue<'a>,
}

impl Kernel for Finish<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let [rows, columns] = self.size;
        for r in 0..rows {
            let mut column = 0;
            while column < columns {
                let count = (columns - column).min(V::LANES);
                // SAFETY: the tile's valid part lies inside `c`, whose extent every part of the epilogue shares.
                unsafe {
                    let c = self.c.add(r * self.stride + column);
                    let mut value = V::load(self.scratch.as_ptr().add(r * self.width + column));
                    if self.stage.add {
                        value = value + load_up_to(c, count);
                    }
                    if self.stage.last {
                        value = self.finish(value, self.row + r, self.column + column, count);
                    }
                    store_up_to(value, c, count);
                }
                column += count;
            }
        }
    }
}

impl Finish<'_> {
    #[inline(always)]
    unsafe fn finish<V: Vector>(&self, sum: V, row: usize, column: usize, count: usize) -> V {
        let index = row * self.stride + column;
        // SAFETY: passed on from the caller.
        unsafe {
            let mut sum = match self.epilogue.bias {
                Bias::None => sum,
                Bias::PerColumn(bias) => sum + load_up_to(bias.as_ptr().add(column), count),
                Bias::PerRow(bias) => sum + V::splat(*bias.as_ptr().add(row)),
            };
            if let Some(residual) = self.epilogue.residual {
                sum = sum + load_up_to(residual.as_ptr().add(index), count);
            }
            let value = self.epilogue.activation.apply(sum);
            self.epilogue.gate.apply(value, index, count)
        }
    }
}
