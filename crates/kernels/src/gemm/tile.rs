//! The register tile and the two loops over the panels of a block.

use std::ops::Range;

use super::{
    Bias, Epilogue,
    epilogue::{Finish, SCRATCH},
    start::{Start, Tile},
};
use crate::{activation::Gate, level::Kernel, vector::Vector};

/// Steps before the end of a panel at which the tile of `c` is fetched: early enough to be there in time, late enough not
/// to take the place of what is read until then.
const LATE: usize = 96;

/// Steps by which the left panel, which comes from the second-level cache, is fetched ahead.
const AHEAD: usize = 16;

/// Which part of the sum over `k` a block is.
#[derive(Copy, Clone)]
pub(super) struct Stage {
    /// Whether `c` already holds a part of the result.
    pub(super) add: bool,
    /// Whether this part completes it, so that the epilogue is due.
    pub(super) last: bool,
}

/// A block of `c`, from packed panels that fit the caches.
pub(super) struct Panels<'a> {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    pub(super) depth: usize,
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
    pub(super) c: *mut f32,
    pub(super) stride: usize,
    pub(super) epilogue: &'a Epilogue<'a>,
    pub(super) start: Start<'a>,
    pub(super) stage: Stage,
}

impl Kernel for Panels<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the panels were checked to cover the block, which lies inside `c`.
        unsafe {
            match (V::REGISTERS == 32, matches!(self.start, Start::Zero)) {
                (true, true) => self.sweep::<V, 14, 2, true>(),
                (true, false) => self.sweep::<V, 14, 2, false>(),
                (false, true) => self.sweep::<V, 6, 2, true>(),
                (false, false) => self.sweep::<V, 6, 2, false>(),
            }
        }
    }
}

impl Panels<'_> {
    #[inline(always)]
    unsafe fn sweep<V: Vector, const H: usize, const W: usize, const ZERO: bool>(&self) {
        let width = W * V::LANES;
        let Epilogue {
            residual,
            activation,
            gate,
            ..
        } = self.epilogue;
        let plain = residual.is_none() && matches!(gate, Gate::Open) && activation.is_linear();
        let direct = plain || !self.stage.last;
        for (j, column) in self.columns.clone().step_by(width).enumerate() {
            for (i, row) in self.rows.clone().step_by(H).enumerate() {
                let size = [
                    (self.rows.end - row).min(H),
                    (self.columns.end - column).min(width),
                ];
                // SAFETY: panels `i` and `j` exist, and the tile's valid part lies inside `c`.
                unsafe {
                    let a = self.a.as_ptr().add(i * H * self.depth);
                    let b = self.b.as_ptr().add(j * width * self.depth);
                    let c = self.c.add(row * self.stride + column);
                    let sums = if ZERO {
                        [[V::splat(0.0); W]; H]
                    } else {
                        let stride = self.stride;
                        let tile = Tile {
                            row,
                            column,
                            size,
                            c,
                            stride,
                        };
                        self.start.sums::<V, H, W>(&tile)
                    };
                    let sums = self.multiply::<V, H, W>(sums, a, b, c, size[0]);
                    if direct && size == [H, width] {
                        self.store::<V, H, W>(sums, row, column, c);
                    } else {
                        let mut scratch = [0.0; SCRATCH];
                        for (r, sums) in sums.iter().enumerate() {
                            for (v, sum) in sums.iter().enumerate() {
                                sum.store(scratch.as_mut_ptr().add(r * width + v * V::LANES));
                            }
                        }
                        let (stage, stride, epilogue) = (self.stage, self.stride, self.epilogue);
                        V::run(Finish {
                            scratch: &scratch,
                            width,
                            size,
                            row,
                            column,
                            c,
                            stride,
                            stage,
                            epilogue,
                        });
                    }
                }
            }
        }
    }

    /// The tile of products of one panel of `a` with one of `b`, on top of `sums`.
    #[inline(always)]
    unsafe fn multiply<V: Vector, const H: usize, const W: usize>(
        &self,
        mut sums: [[V; W]; H],
        mut a: *const f32,
        mut b: *const f32,
        c: *const f32,
        rows: usize,
    ) -> [[V; W]; H] {
        // Narrower tiles take so few cycles a step that fetching ahead costs them more than it gains.
        let late = if V::REGISTERS == 32 {
            self.depth.min(LATE)
        } else {
            self.depth
        };
        // SAFETY: both panels are `depth` deep, and a prefetch may point anywhere.
        unsafe {
            (a, b) = accumulate(a, b, self.depth - late, &mut sums);
            for row in 0..H.min(rows) {
                V::prefetch(c.wrapping_add(row * self.stride));
                V::prefetch(c.wrapping_add(row * self.stride + W * V::LANES - 1));
            }
            accumulate(a, b, late, &mut sums);
        }
        sums
    }

    /// Writes a whole tile straight from the registers.
    #[inline(always)]
    unsafe fn store<V: Vector, const H: usize, const W: usize>(
        &self,
        mut sums: [[V; W]; H],
        row: usize,
        column: usize,
        c: *mut f32,
    ) {
        // SAFETY: the tile lies inside `c` and the biases.
        unsafe {
            if self.stage.add {
                for (r, sums) in sums.iter_mut().enumerate() {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = *sum + V::load(c.add(r * self.stride + v * V::LANES));
                    }
                }
            }
            if self.stage.last {
                match self.epilogue.bias {
                    Bias::None => {}
                    Bias::PerColumn(bias) => {
                        for sums in &mut sums {
                            for (v, sum) in sums.iter_mut().enumerate() {
                                *sum = *sum + V::load(bias.as_ptr().add(column + v * V::LANES));
                            }
                        }
                    }
                    Bias::PerRow(bias) => {
                        for (r, sums) in sums.iter_mut().enumerate() {
                            let bias = V::splat(*bias.as_ptr().add(row + r));
                            for sum in sums {
                                *sum = *sum + bias;
                            }
                        }
                    }
                }
                for sums in &mut sums {
                    for sum in sums {
                        *sum = self.epilogue.activation.apply_linear(*sum);
                    }
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    sum.store(c.add(r * self.stride + v * V::LANES));
                }
            }
        }
    }
}

/// Adds `depth` products to the sums, and gives where the panels go on.
///
/// # Safety
/// The CPU supports `V` and both panels are `depth` deep.
#[inline(always)]
unsafe fn accumulate<V: Vector, const H: usize, const W: usize>(
    mut a: *const f32,
    mut b: *const f32,
    depth: usize,
    sums: &mut [[V; W]; H],
) -> (*const f32, *const f32) {
    for _ in 0..depth {
        if V::REGISTERS == 32 {
            V::prefetch(a.wrapping_add(H * AHEAD));
        }
        // SAFETY: the panels hold this step.
        unsafe {
            let mut line = [V::splat(0.0); W];
            for (v, register) in line.iter_mut().enumerate() {
                *register = V::load(b.add(v * V::LANES));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = V::splat(*a.add(r));
                for (sum, y) in sums.iter_mut().zip(&line) {
                    *sum = x.mul_add(*y, *sum);
                }
            }
            a = a.add(H);
            b = b.add(W * V::LANES);
        }
    }
    (a, b)
}
