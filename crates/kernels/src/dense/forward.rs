//! `y = act(x * w + bias)` in register tiles of samples by output vectors.

use super::{Activation, Dense, Way, live::Live, sparse::Sparse};
use crate::{
    level::Kernel,
    vector::{Vector, load_up_to, store_up_to},
};

/// Floats of samples and results that are handled together: they stay in the second-level cache beside the weights.
const BLOCK: usize = 1 << 16;

/// Whole numbers of tiles' rows at any level.
const ROWS: usize = 60;

pub(super) struct Forward<'a> {
    pub(super) shape: Dense,
    pub(super) x: &'a [f32],
    pub(super) w: &'a [f32],
    pub(super) bias: Option<&'a [f32]>,
    pub(super) act: Activation,
    pub(super) y: &'a mut [f32],
    pub(super) way: Way,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Forward {
            shape,
            x,
            w,
            bias,
            act,
            y,
            way: Way { stride, sparse },
        } = self;
        let Dense { rows, outputs, .. } = shape;
        let bias = bias.map_or(std::ptr::null(), <[f32]>::as_ptr);
        if sparse {
            let (x, w, y) = (x.as_ptr(), w.as_ptr(), y.as_mut_ptr());
            let layer = Sparse {
                shape,
                x,
                w,
                stride,
                bias,
                act,
                y,
            };
            // SAFETY: the operands were checked, and few enough inputs is part of paying.
            unsafe { layer.run::<V>() };
        } else {
            let (x, w, y) = (x.as_ptr(), w.as_ptr(), y.as_mut_ptr());
            let mut live = Live::new();
            // SAFETY: the operands were checked.
            let list = unsafe { live.find::<V>(shape, x) };
            let tile = Tile {
                shape,
                x,
                w,
                stride,
                bias,
                act,
                y,
                list,
            };
            tile.all::<V>();
        }
        if !act.is_linear() {
            let mut i = 0;
            while i < rows * outputs {
                let count = (rows * outputs - i).min(V::LANES);
                // SAFETY: `count` floats from `i` on lie inside `y`.
                unsafe {
                    let at = y.as_mut_ptr().add(i);
                    store_up_to(act.apply(load_up_to::<V>(at, count)), at, count);
                }
                i += count;
            }
        }
    }
}

/// The most rows of a tile, given how many vectors of columns are left: a single vector needs many rows to hide the
/// latency of the multiply-adds.
#[inline(always)]
fn tallest<V: Vector>(vectors: usize) -> usize {
    match (V::REGISTERS, vectors) {
        (32, _) => 12,
        (_, 1) => 10,
        _ => 6,
    }
}

/// The most vectors of a tile of `rows` rows that, with the weights and one broadcast, fit the registers.
#[inline(always)]
fn widest<V: Vector>(rows: usize) -> usize {
    match (V::REGISTERS, rows) {
        (_, 1) => 8,
        (32, 2..=4) => 6,
        (32, 5..=6) => 4,
        (32, 7..=9) => 3,
        (_, 2) => 4,
        (_, 3..=4) => 3,
        (32, _) | (_, 5..=6) => 2,
        _ => 1,
    }
}

struct Tile<'a> {
    shape: Dense,
    x: *const f32,
    w: *const f32,
    stride: usize,
    bias: *const f32,
    act: Activation,
    y: *mut f32,
    /// The inputs that count, if not all do.
    list: Option<&'a [u16]>,
}

impl Tile<'_> {
    /// Every input that counts of every sample, in tiles of samples by vectors of columns.
    #[inline(always)]
    fn all<V: Vector>(&self) {
        let Dense {
            rows,
            inputs,
            outputs,
        } = self.shape;
        // A sample may be wider than a block.
        let most = (BLOCK / (inputs + outputs).max(1)).max(1).next_multiple_of(ROWS);
        for first in (0..rows).step_by(most) {
            self.block::<V>(first, (rows - first).min(most));
        }
    }

    /// All columns of `rows` samples from `first` on.
    #[inline(always)]
    fn block<V: Vector>(&self, first: usize, rows: usize) {
        let outputs = self.shape.outputs;
        let mut column = 0;
        while column < outputs {
            let vectors = (outputs - column).div_ceil(V::LANES);
            let tallest = rows.div_ceil(rows.div_ceil(tallest::<V>(vectors)));
            let width = vectors.min(widest::<V>(tallest));
            let columns = (width * V::LANES).min(outputs - column);
            let mut row = 0;
            let mut groups = rows.div_ceil(tallest);
            while groups > 0 {
                // Even groups: ten rows are five and five, never six and four.
                let height = (rows - row).div_ceil(groups);
                // SAFETY: the tile lies inside the layer, whose operands were checked.
                unsafe { self.dispatch::<V>(first + row, height, column, width, columns) };
                row += height;
                groups -= 1;
            }
            column += columns;
        }
    }

    /// Runs the tile compiled for `height` by `width` vectors, of which the last may be partial.
    #[inline(always)]
    unsafe fn dispatch<V: Vector>(
        &self,
        row: usize,
        height: usize,
        column: usize,
        width: usize,
        columns: usize,
    ) {
        let tail = columns - (width - 1) * V::LANES;
        let partial = tail < V::LANES;
        macro_rules! call {
            ($height:literal $width:literal) => {
                // SAFETY: passed on from the caller.
                unsafe {
                    match (partial, self.list.is_some()) {
                        (false, false) => V::run(Call::<$height, $width, false, false> {
                            tile: self,
                            row,
                            column,
                            tail,
                        }),
                        (true, false) => V::run(Call::<$height, $width, true, false> {
                            tile: self,
                            row,
                            column,
                            tail,
                        }),
                        (false, true) => V::run(Call::<$height, $width, false, true> {
                            tile: self,
                            row,
                            column,
                            tail,
                        }),
                        (true, true) => V::run(Call::<$height, $width, true, true> {
                            tile: self,
                            row,
                            column,
                            tail,
                        }),
                    }
                }
            };
        }
        macro_rules! tiles {
            ($($height:literal: $($width:literal)*;)*) => {
                match (height, width) {
                    $($(($height, $width) => call!($height $width),)*)*
                    _ => unreachable!("no tile of {height} rows by {width} vectors"),
                }
            };
        }
        if V::REGISTERS == 32 {
            tiles! {
                1: 1 2 3 4 5 6 7 8; 2: 1 2 3 4 5 6; 3: 1 2 3 4 5 6; 4: 1 2 3 4 5 6; 5: 1 2 3 4; 6: 1 2 3 4;
                7: 1 2 3; 8: 1 2 3; 9: 1 2 3; 10: 1 2; 11: 1 2; 12: 1 2;
            }
        } else {
            tiles! {
                1: 1 2 3 4 5 6 7 8; 2: 1 2 3 4; 3: 1 2 3; 4: 1 2 3; 5: 1 2; 6: 1 2; 7: 1; 8: 1; 9: 1; 10: 1;
            }
        }
    }
}

struct Call<'a, const H: usize, const W: usize, const PARTIAL: bool, const LISTED: bool> {
    tile: &'a Tile<'a>,
    row: usize,
    column: usize,
    tail: usize,
}

impl<const H: usize, const W: usize, const PARTIAL: bool, const LISTED: bool> Kernel
    for Call<'_, H, W, PARTIAL, LISTED>
{
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Tile {
            shape: Dense { inputs, outputs, .. },
            x,
            w,
            stride,
            bias,
            act,
            y,
            list,
        } = *self.tile;
        let list = list.unwrap_or_default();
        // SAFETY: the tile's rows and columns lie inside the layer; only the last vector may be partial.
        unsafe {
            let x = x.wrapping_add(self.row * inputs);
            let first = w.wrapping_add(self.column);
            let mut weights = first;
            let mut sums = [[V::splat(0.0); W]; H];
            if !bias.is_null() {
                for vector in 0..W {
                    let bias = load_tile::<V, W, PARTIAL>(bias.add(self.column), vector, self.tail);
                    for sums in &mut sums {
                        sums[vector] = bias;
                    }
                }
            }
            for term in 0..if LISTED { list.len() } else { inputs } {
                let k = if LISTED {
                    usize::from(*list.get_unchecked(term))
                } else {
                    term
                };
                if LISTED {
                    weights = first.wrapping_add(k * stride);
                }
                let mut line = [V::splat(0.0); W];
                for (vector, register) in line.iter_mut().enumerate() {
                    *register = load_tile::<V, W, PARTIAL>(weights, vector, self.tail);
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x = V::splat(*x.add(row * inputs + k));
                    for (sum, weight) in sums.iter_mut().zip(&line) {
                        *sum = x.mul_add(*weight, *sum);
                    }
                }
                weights = weights.wrapping_add(stride);
            }
            for (row, sums) in sums.iter().enumerate() {
                let y = y.add((self.row + row) * outputs + self.column);
                for (vector, sum) in sums.iter().enumerate() {
                    let value = act.apply_linear(*sum);
                    let at = y.add(vector * V::LANES);
                    if PARTIAL && vector == W - 1 {
                        value.store_partial(at, self.tail);
                    } else {
                        value.store(at);
                    }
                }
            }
        }
    }
}

#[inline(always)]
pub(super) unsafe fn load_tile<V: Vector, const W: usize, const PARTIAL: bool>(
    from: *const f32,
    vector: usize,
    tail: usize,
) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        let at = from.add(vector * V::LANES);
        if PARTIAL && vector == W - 1 {
            V::load_partial(at, tail)
        } else {
            V::load(at)
        }
    }
}
