//! The tile for results of very few channels: vectors go along the sum, and are added up at its end.

use super::{
    band::Place,
    finish::{FinishTile, SCRATCH},
    tile::BandTile,
};
use crate::{
    level::Kernel,
    vector::{Vector, load_up_to},
};

/// The most columns for which vectors go along the sum.
pub(super) const MOST_COLUMNS: usize = 4;

/// A band whose weights are packed column by column.
pub(super) struct BandDots<'a>(pub(super) BandTile<'a>);

impl Kernel for BandDots<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        self.0.check(self.0.columns.end);
        // SAFETY: the panels and the copy were just checked; the target is the caller's promise.
        unsafe {
            match self.0.columns.end {
                1 => self.sweep::<V, 8, 1>(),
                2 => self.sweep::<V, 6, 2>(),
                3 => self.sweep::<V, 4, 3>(),
                4 => self.sweep::<V, 3, 4>(),
                columns => panic!("conv: a sum along vectors for {columns} columns"),
            }
        }
    }
}

impl BandDots<'_> {
    #[inline(always)]
    unsafe fn sweep<V: Vector, const H: usize, const C: usize>(&self) {
        let band = &self.0;
        for places in band.places.chunks(H) {
            // SAFETY: the caller vouches for what the places see and for the target.
            unsafe {
                let sums = self.multiply::<V, H, C>(places);
                let mut scratch = [0.0; SCRATCH];
                for (sums, to) in sums.iter().zip(scratch.chunks_exact_mut(C)) {
                    for (sum, to) in sums.iter().zip(to) {
                        *to = sum.sum();
                    }
                }
                V::run(FinishTile {
                    scratch: &scratch,
                    width: C,
                    places,
                    columns: 0..C,
                    first_column: band.first_column,
                    target: band.target,
                    finish: &band.finish,
                    add: band.add,
                    last: band.last,
                });
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply<V: Vector, const H: usize, const C: usize>(&self, places: &[Place]) -> [[V; C]; H] {
        let band = &self.0;
        let runs = band.runs;
        let depth = runs.count[0] * runs.count[1] * runs.len;
        // SAFETY: the caller vouches for what every place sees; every column has `depth` weights.
        unsafe {
            let mut rows = [band.copy.as_ptr(); H];
            for (r, row) in rows.iter_mut().enumerate() {
                let place = if r < places.len() { places[r] } else { places[0] };
                *row = row.wrapping_add(place.from * band.pixel);
            }
            let mut sums = [[V::splat(0.0); C]; H];
            let mut weights = band.panels.as_ptr();
            for y in 0..runs.count[0] {
                for x in 0..runs.count[1] {
                    let start = y * runs.step[0] + x * runs.step[1];
                    let mut i = 0;
                    while i + V::LANES <= runs.len {
                        step::<V, H, C>(&rows, start + i, weights.add(i), depth, V::LANES, &mut sums);
                        i += V::LANES;
                    }
                    if i < runs.len {
                        step::<V, H, C>(&rows, start + i, weights.add(i), depth, runs.len - i, &mut sums);
                    }
                    weights = weights.add(runs.len);
                }
            }
            sums
        }
    }
}

/// Adds `count` products to every sum.
#[inline(always)]
unsafe fn step<V: Vector, const H: usize, const C: usize>(
    rows: &[*const f32; H],
    at: usize,
    weights: *const f32,
    depth: usize,
    count: usize,
    sums: &mut [[V; C]; H],
) {
    // SAFETY: the caller vouches for `count` floats of every row and column.
    unsafe {
        let mut columns = [V::splat(0.0); C];
        for (c, column) in columns.iter_mut().enumerate() {
            *column = load_up_to(weights.add(c * depth), count);
        }
        for (row, sums) in rows.iter().zip(sums.iter_mut()) {
            let value = load_up_to::<V>(row.add(at), count);
            for (sum, column) in sums.iter_mut().zip(&columns) {
                *sum = value.mul_add(*column, *sum);
            }
        }
    }
}
