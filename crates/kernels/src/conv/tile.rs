//! The register tile: results in rows, channels in columns, and the sums over taps and channels in registers.

use std::ops::Range;

use super::{
    band::Place,
    finish::{Finish, FinishTile, SCRATCH},
};
use crate::{
    even_parts,
    level::{Kernel, Level, Simd},
    vector::Vector,
};

/// Rows and columns of the tile. Every row has a pointer of its own, so that general registers limit the rows too.
pub(super) fn size(simd: Simd) -> [usize; 2] {
    match simd.level() {
        Level::Portable => [6, 8],
        Level::Avx2 => [6, 16],
        Level::Avx512 => [8, 32],
    }
}

/// The stretches of the copy that a result's products run over, relative to its place.
#[derive(Copy, Clone, Debug)]
pub(super) struct Runs {
    /// Stretches down and across.
    pub(super) count: [usize; 2],
    /// Floats from one to the next, down and across.
    pub(super) step: [usize; 2],
    /// Floats of a stretch.
    pub(super) len: usize,
}

/// A band's results, from one block of channels of one group.
pub(super) struct BandTile<'a> {
    pub(super) places: &'a [Place],
    pub(super) copy: &'a [f32],
    /// Floats per pixel of the copy.
    pub(super) pixel: usize,
    pub(super) runs: Runs,
    /// The panels of all the group's columns.
    pub(super) panels: &'a [f32],
    /// The columns to compute, from the start of a panel.
    pub(super) columns: Range<usize>,
    /// The target, from the group's first column on.
    pub(super) target: *mut f32,
    pub(super) finish: Finish<'a>,
    /// The group's first column.
    pub(super) first_column: usize,
    /// Whether the target already holds a part of the sum.
    pub(super) add: bool,
    /// Whether this part completes it.
    pub(super) last: bool,
}

impl Kernel for BandTile<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        assert!(self.columns.start.is_multiple_of(2 * V::LANES));
        self.check(self.columns.end.next_multiple_of(2 * V::LANES));
        // SAFETY: the panels and the copy were just checked; the target is the caller's promise.
        unsafe {
            if V::REGISTERS == 32 {
                self.sweep::<V, 8, 2>()
            } else {
                self.sweep::<V, 6, 2>()
            }
        }
    }
}

/// What a tile fetches on the side, for every product a little further on.
#[derive(Copy, Clone)]
struct Ahead {
    next: *const f32,
    stride: usize,
}

impl BandTile<'_> {
    /// Panics unless the panels have weights for so many columns and every place sees a part of the copy.
    #[inline(always)]
    pub(super) fn check(&self, columns: usize) {
        let Runs { count, step, len } = self.runs;
        let depth = count[0] * count[1] * len;
        assert!(self.panels.len() >= depth * columns);
        if depth > 0 {
            let reach = (count[0] - 1) * step[0] + (count[1] - 1) * step[1] + len;
            let last = self.places.iter().map(|place| place.from).max().unwrap_or(0);
            assert!(last * self.pixel + reach <= self.copy.len());
        }
    }

    #[inline(always)]
    unsafe fn sweep<V: Vector, const H: usize, const W: usize>(&self) {
        let width = W * V::LANES;
        let depth = self.runs.count[0] * self.runs.count[1] * self.runs.len;
        let Range { start, end } = self.columns;
        for column in (start..end).step_by(width) {
            // The tiles of a panel share out the fetching of the next one, which lies behind it.
            let stride = width.div_ceil(self.places.len().div_ceil(H).max(1));
            let mut rest = self.places;
            for (i, rows) in even_parts(self.places.len(), H).enumerate() {
                let (places, after) = rest.split_at(rows);
                rest = after;
                // SAFETY: the column's panel exists, and so does what the places see.
                unsafe {
                    let panel = self.panels.as_ptr().add(column * depth);
                    let next = panel.wrapping_add(depth * (width + i * stride));
                    let ahead = Ahead { next, stride };
                    match rows {
                        1 => self.tile::<V, 1, W>(places, panel, ahead, column),
                        2 => self.tile::<V, 2, W>(places, panel, ahead, column),
                        3 => self.tile::<V, 3, W>(places, panel, ahead, column),
                        4 => self.tile::<V, 4, W>(places, panel, ahead, column),
                        5 => self.tile::<V, 5, W>(places, panel, ahead, column),
                        6 => self.tile::<V, 6, W>(places, panel, ahead, column),
                        7 => self.tile::<V, 7, W>(places, panel, ahead, column),
                        _ => self.tile::<V, 8, W>(places, panel, ahead, column),
                    }
                }
            }
        }
    }

    /// One tile from its products to memory.
    #[inline(always)]
    unsafe fn tile<V: Vector, const H: usize, const W: usize>(
        &self,
        places: &[Place],
        panel: *const f32,
        ahead: Ahead,
        column: usize,
    ) {
        // Of known length, the loops over it unroll.
        let Some(places) = places.first_chunk::<H>() else {
            return;
        };
        let width = W * V::LANES;
        let direct = !self.last || self.finish.is_simple();
        // SAFETY: the caller vouches for the panel and for what every place sees.
        unsafe {
            self.fetch::<V, H, W>(places, column);
            let sums = self.multiply::<V, H, W>(places, panel, ahead);
            if direct && column + width <= self.columns.end {
                return self.store::<V, H, W>(sums, places, column);
            }
            let mut scratch = [0.0; SCRATCH];
            for (r, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    sum.store(scratch.as_mut_ptr().add(r * width + v * V::LANES));
                }
            }
            V::run(FinishTile {
                scratch: &scratch,
                width,
                places,
                columns: column..(column + width).min(self.columns.end),
                first_column: self.first_column,
                target: self.target,
                finish: &self.finish,
                add: self.add,
                last: self.last,
            });
        }
    }

    /// Has the lines fetched to which the tile goes, and those of its residual, while it is computed.
    #[inline(always)]
    fn fetch<V: Vector, const H: usize, const W: usize>(&self, places: &[Place; H], column: usize) {
        let residual = self.finish.residual.filter(|_| self.last);
        for place in places {
            for v in 0..W {
                let at = place.to + column + v * V::LANES;
                V::prefetch(self.target.wrapping_add(at));
                if let Some(residual) = residual {
                    V::prefetch(residual.as_ptr().wrapping_add(self.first_column + at));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply<V: Vector, const H: usize, const W: usize>(
        &self,
        places: &[Place; H],
        mut panel: *const f32,
        Ahead { mut next, stride }: Ahead,
    ) -> [[V; W]; H] {
        // SAFETY: the caller vouches for the panel and for what every place sees.
        unsafe {
            let mut rows = [self.copy.as_ptr(); H];
            for (row, place) in rows.iter_mut().zip(places) {
                *row = row.wrapping_add(place.from * self.pixel);
            }
            let mut sums = [[V::splat(0.0); W]; H];
            let Runs { count, step, len } = self.runs;
            for y in 0..count[0] {
                for x in 0..count[1] {
                    let start = y * step[0] + x * step[1];
                    for i in start..start + len {
                        V::prefetch(next);
                        next = next.wrapping_add(stride);
                        let mut line = [V::splat(0.0); W];
                        for (v, register) in line.iter_mut().enumerate() {
                            *register = V::load(panel.add(v * V::LANES));
                        }
                        for (row, sums) in rows.iter().zip(sums.iter_mut()) {
                            let value = V::splat(*row.add(i));
                            for (sum, weight) in sums.iter_mut().zip(&line) {
                                *sum = value.mul_add(*weight, *sum);
                            }
                        }
                        panel = panel.add(W * V::LANES);
                    }
                }
            }
            sums
        }
    }

    /// Writes a whole tile straight from the registers.
    #[inline(always)]
    unsafe fn store<V: Vector, const H: usize, const W: usize>(
        &self,
        mut sums: [[V; W]; H],
        places: &[Place; H],
        column: usize,
    ) {
        // SAFETY: the tile lies inside the target, the biases and the residual.
        unsafe {
            if self.add {
                for (sums, place) in sums.iter_mut().zip(places) {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = *sum + V::load(self.target.add(place.to + column + v * V::LANES));
                    }
                }
            }
            if self.last {
                if let Some(bias) = self.finish.bias {
                    let bias = bias.as_ptr().add(self.first_column + column);
                    for sums in &mut sums {
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = *sum + V::load(bias.add(v * V::LANES));
                        }
                    }
                }
                if let Some(residual) = self.finish.residual {
                    let residual = residual.as_ptr().add(self.first_column + column);
                    for (sums, place) in sums.iter_mut().zip(places) {
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = *sum + V::load(residual.add(place.to + v * V::LANES));
                        }
                    }
                }
                for sums in &mut sums {
                    for sum in sums {
                        *sum = self.finish.activation.apply_linear(*sum);
                    }
                }
            }
            for (sums, place) in sums.iter().zip(places) {
                for (v, sum) in sums.iter().enumerate() {
                    sum.store(self.target.add(place.to + column + v * V::LANES));
                }
            }
        }
    }
}
