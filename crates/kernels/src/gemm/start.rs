//! What the sums of a tile start from.

use super::{Bias, epilogue::SCRATCH};
use crate::vector::Vector;

/// What a block of `c` starts from.
#[derive(Copy, Clone)]
pub(super) enum Start<'a> {
    /// Zero: what else belongs to the sum comes at the end.
    Zero,
    /// The bias of each row or column.
    Bias(Bias<'a>),
    /// What earlier blocks stored in `c`.
    Stored,
}

/// A tile, of which `size` rows and columns belong to `c`.
pub(super) struct Tile {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) size: [usize; 2],
    /// Its first element.
    pub(super) c: *const f32,
    /// Floats from a row to the next.
    pub(super) stride: usize,
}

impl Start<'_> {
    /// The sums before the first product; beyond the tile's size they are of no use.
    ///
    /// # Safety
    /// The CPU supports `V`, and the tile's valid part lies inside `c` and the biases.
    #[inline(always)]
    pub(super) unsafe fn sums<V: Vector, const H: usize, const W: usize>(&self, tile: &Tile) -> [[V; W]; H] {
        let whole = tile.size == [H, W * V::LANES];
        let mut scratch;
        let (from, stride) = match self {
            Start::Stored if whole => (tile.c, tile.stride),
            Start::Bias(Bias::PerColumn(bias)) if whole => (bias.as_ptr().wrapping_add(tile.column), 0),
            _ => {
                scratch = [0.0; SCRATCH];
                // SAFETY: passed on from the caller.
                unsafe { self.gather(tile, W * V::LANES, &mut scratch) };
                (scratch.as_ptr(), W * V::LANES)
            }
        };
        // SAFETY: a whole tile was asked for, or the scratch holds a whole one.
        unsafe {
            let mut sums = [[V::splat(0.0); W]; H];
            for (r, sums) in sums.iter_mut().enumerate() {
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = V::load(from.add(r * stride + v * V::LANES));
                }
            }
            sums
        }
    }

    /// Copies the valid part to rows of `width` floats, which are zero before.
    unsafe fn gather(&self, tile: &Tile, width: usize, to: &mut [f32; SCRATCH]) {
        let [rows, columns] = tile.size;
        for (r, to) in to.chunks_exact_mut(width).enumerate().take(rows) {
            let to = &mut to[..columns];
            match self {
                Start::Zero | Start::Bias(Bias::None) => {}
                Start::Bias(Bias::PerColumn(bias)) => {
                    to.copy_from_slice(&bias[tile.column..tile.column + columns])
                }
                Start::Bias(Bias::PerRow(bias)) => to.fill(bias[tile.row + r]),
                // SAFETY: the caller vouches for the tile's valid part.
                Start::Stored => to.copy_from_slice(unsafe {
                    std::slice::from_raw_parts(tile.c.add(r * tile.stride), columns)
                }),
            }
        }
    }
}
