//! `y = act(x * w + bias)` for inputs that are mostly zero, as those behind a rectifier are: the weights of a zero input
//! are neither read nor multiplied.

use std::mem::MaybeUninit;

use super::{Activation, Dense, forward::load_tile};
use crate::{
    level::{Kernel, Level, Simd},
    vector::{MAX_LANES, Vector},
};

/// The most inputs a list can name.
const INPUTS: usize = 512;
/// Samples whose lists are kept at once.
pub(super) const ROWS: usize = 16;
/// Vectors of columns in a tile: enough to hide the latency of a multiply-add, few enough for a tile of all weight rows
/// to stay in the first-level cache.
const WIDTH: usize = 8;

/// Columns from which on half of the inputs may be listed.
const WIDE: usize = 200;
/// Samples of which one is looked at to judge the others.
const JUDGED: usize = 64;

/// Whether leaving zeros out is likely to pay, judged by the first of every `JUDGED` samples.
#[inline(always)]
pub(super) fn pays(simd: Simd, shape: Dense, x: &[f32]) -> bool {
    let Dense {
        rows,
        inputs,
        outputs,
    } = shape;
    if rows == 0 || !(1..=INPUTS).contains(&inputs) {
        return false;
    }
    let nonzero = simd.run(Nonzero { inputs, x });
    let seen = rows.div_ceil(JUDGED) * inputs;
    // A list costs the more of the gain, the fewer columns it serves. For a sample or two the time goes into reading the
    // weights, so that any row of them left out pays.
    let most = match (rows, outputs >= WIDE, simd.level()) {
        (1..=2, _, _) => seen * 7 / 8,
        // With 32 registers a tile reads a weight for twelve samples, and leaves less to gain.
        (_, _, Level::Avx512) => seen / 4,
        (_, true, _) => seen / 2,
        (_, false, _) => seen / 3,
    };
    nonzero <= most
}

/// How many inputs of the judged samples are not zero.
struct Nonzero<'a> {
    inputs: usize,
    x: &'a [f32],
}

impl Kernel for Nonzero<'_> {
    type Output = usize;

    #[inline(always)]
    unsafe fn run<V: Vector>(self) -> usize {
        let mut nonzero = 0;
        for row in self.x.chunks_exact(self.inputs).step_by(JUDGED) {
            nonzero += row.iter().map(|x| u32::from(*x != 0.0)).sum::<u32>() as usize;
        }
        nonzero
    }
}

pub(super) struct Sparse {
    pub(super) shape: Dense,
    pub(super) x: *const f32,
    pub(super) w: *const f32,
    pub(super) stride: usize,
    pub(super) bias: *const f32,
    pub(super) act: Activation,
    pub(super) y: *mut f32,
}

/// The nonzero inputs of some samples.
struct Lists {
    lengths: [usize; ROWS],
    inputs: [[MaybeUninit<u16>; INPUTS + MAX_LANES]; ROWS],
}

impl Sparse {
    /// # Safety
    /// The CPU supports `V`, the operands fit the shape and a list can name every input.
    #[inline(always)]
    pub(super) unsafe fn run<V: Vector>(&self) {
        let Dense { rows, outputs, .. } = self.shape;
        let mut lists = Lists {
            lengths: [0; ROWS],
            inputs: [[MaybeUninit::uninit(); INPUTS + MAX_LANES]; ROWS],
        };
        for first in (0..rows).step_by(ROWS) {
            let count = (rows - first).min(ROWS);
            // SAFETY: passed on from the caller.
            unsafe { self.list::<V>(first, count, &mut lists) };
            let vectors = outputs.div_ceil(V::LANES);
            let mut tiles = vectors.div_ceil(WIDTH);
            let mut vector = 0;
            while tiles > 0 {
                let width = (vectors - vector).div_ceil(tiles);
                let column = vector * V::LANES;
                let tail = (outputs - column - (width - 1) * V::LANES).min(V::LANES);
                let tile = Tile {
                    layer: self,
                    lists: &lists,
                    first,
                    count,
                    column,
                    tail,
                };
                // SAFETY: passed on from the caller; the tile lies inside the layer.
                unsafe { tile.dispatch::<V>(width) };
                vector += width;
                tiles -= 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn list<V: Vector>(&self, first: usize, count: usize, lists: &mut Lists) {
        let inputs = self.shape.inputs;
        for row in 0..count {
            let list = lists.inputs[row].as_mut_ptr().cast::<u16>();
            // SAFETY: the inputs exist, and a list has room for a register more than it can name.
            lists.lengths[row] = unsafe { V::list_nonzero(self.x.add((first + row) * inputs), inputs, list) };
        }
    }
}

/// Some columns of all listed samples.
struct Tile<'a> {
    layer: &'a Sparse,
    lists: &'a Lists,
    first: usize,
    count: usize,
    column: usize,
    tail: usize,
}

impl Tile<'_> {
    #[inline(always)]
    unsafe fn dispatch<V: Vector>(self, width: usize) {
        macro_rules! widths {
            ($($width:literal)*) => {
                match width {
                    // SAFETY: passed on from the caller.
                    $($width => unsafe {
                        if self.tail == V::LANES {
                            V::run(Call::<$width, false>(self))
                        } else {
                            V::run(Call::<$width, true>(self))
                        }
                    },)*
                    _ => unreachable!("no tile is wider"),
                }
            };
        }
        widths!(1 2 3 4 5 6 7 8)
    }
}

struct Call<'a, const W: usize, const PARTIAL: bool>(Tile<'a>);

impl<const W: usize, const PARTIAL: bool> Kernel for Call<'_, W, PARTIAL> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Tile {
            layer,
            lists,
            first,
            count,
            column,
            tail,
        } = self.0;
        let Dense { inputs, outputs, .. } = layer.shape;
        // SAFETY: samples, listed inputs and columns exist; only the last vector may be partial.
        unsafe {
            let mut start = [V::splat(0.0); W];
            if !layer.bias.is_null() {
                for (vector, start) in start.iter_mut().enumerate() {
                    *start = load_tile::<V, W, PARTIAL>(layer.bias.add(column), vector, tail);
                }
            }
            let w = layer.w.add(column);
            for row in 0..count {
                let x = layer.x.add((first + row) * inputs);
                let mut sums = start;
                for input in &lists.inputs[row][..lists.lengths[row]] {
                    let input = usize::from(input.assume_init());
                    let (x, weights) = (V::splat(*x.add(input)), w.add(input * layer.stride));
                    for (vector, sum) in sums.iter_mut().enumerate() {
                        *sum = x.mul_add(load_tile::<V, W, PARTIAL>(weights, vector, tail), *sum);
                    }
                }
                let y = layer.y.add((first + row) * outputs + column);
                for (vector, sum) in sums.iter().enumerate() {
                    let (value, at) = (layer.act.apply_linear(*sum), y.add(vector * V::LANES));
                    if PARTIAL && vector == W - 1 {
                        value.store_partial(at, tail);
                    } else {
                        value.store(at);
                    }
                }
            }
        }
    }
}
