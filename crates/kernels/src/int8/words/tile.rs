//! The register tile: pairs of 16-bit factors, 32-bit sums.

use crate::{
    conv::band::Place,
    level::{Level, Simd},
};

/// Columns of a tile, at every level.
pub(super) const COLUMNS: usize = 16;

/// Rows of a tile.
const ROWS: usize = 6;

/// A tile of sums.
type Sums = [[i32; COLUMNS]; ROWS];

/// A band's results, from one block of channels of one group. Lengths along channels are counted in pairs.
pub(super) struct BandTile<'a> {
    pub(super) places: &'a [Place],
    pub(super) copy: &'a [i16],
    /// Pairs per pixel of the copy.
    pub(super) pixel: usize,
    /// Stretches of products, down and across.
    pub(super) count: [usize; 2],
    /// Pairs from one to the next.
    pub(super) step: [usize; 2],
    /// Pairs of a stretch.
    pub(super) len: usize,
    pub(super) panels: &'a [i16],
    pub(super) columns: usize,
    /// The sums, from the group's first column on.
    pub(super) sums: *mut i32,
    /// Whether the sums hold a part already.
    pub(super) add: bool,
}

/// Computes a band.
///
/// # Safety
/// All columns of all places lie inside the sums, and nobody else uses them.
pub(super) unsafe fn run(simd: Simd, band: &BandTile<'_>) {
    let depth = band.count[0] * band.count[1] * band.len;
    assert!(band.panels.len() >= depth * band.columns.next_multiple_of(COLUMNS) * 2);
    if depth > 0 {
        let reach = (band.count[0] - 1) * band.step[0] + (band.count[1] - 1) * band.step[1] + band.len;
        let last = band.places.iter().map(|place| place.from).max().unwrap_or(0);
        assert!((last * band.pixel + reach) * 2 <= band.copy.len());
    }
    // SAFETY: the operands were just checked, the sums are the caller's promise, and a token proves its level.
    unsafe {
        match simd.level() {
            Level::Portable => sweep_portable(band, depth),
            #[cfg(target_arch = "x86_64")]
            _ => avx2::sweep(band, depth),
            #[cfg(not(target_arch = "x86_64"))]
            _ => sweep_portable(band, depth),
        }
    }
}

impl BandTile<'_> {
    /// Where each row's pairs start; rows without a place repeat the first.
    #[inline(always)]
    fn rows(&self, places: &[Place]) -> [*const i16; ROWS] {
        let mut rows = [self.copy.as_ptr(); ROWS];
        for (r, row) in rows.iter_mut().enumerate() {
            let place = if r < places.len() { places[r] } else { places[0] };
            *row = row.wrapping_add(place.from * self.pixel * 2);
        }
        rows
    }

    /// Writes the valid part of a tile.
    #[inline(always)]
    unsafe fn store(&self, tile: &Sums, places: &[Place], column: usize) {
        let count = (self.columns - column).min(COLUMNS);
        for (row, place) in tile.iter().zip(places) {
            for (i, sum) in row.iter().take(count).enumerate() {
                // SAFETY: the caller vouches for all columns of all places.
                unsafe {
                    let to = self.sums.add(place.to + column + i);
                    *to = if self.add { *to + sum } else { *sum };
                }
            }
        }
    }
}

unsafe fn sweep_portable(band: &BandTile<'_>, depth: usize) {
    for (j, column) in (0..band.columns).step_by(COLUMNS).enumerate() {
        for places in band.places.chunks(ROWS) {
            let mut tile: Sums = [[0; COLUMNS]; ROWS];
            let mut panel = band.panels[j * COLUMNS * 2 * depth..].chunks_exact(COLUMNS * 2);
            let rows = band.rows(places);
            for y in 0..band.count[0] {
                for x in 0..band.count[1] {
                    let start = y * band.step[0] + x * band.step[1];
                    for (i, line) in (start..start + band.len).zip(&mut panel) {
                        for (row, sums) in rows.iter().zip(&mut tile) {
                            // SAFETY: the stretches of every place lie inside the copy.
                            let pair = unsafe { row.add(2 * i).cast::<[i16; 2]>().read_unaligned() };
                            let [a, b] = pair.map(i32::from);
                            for (sum, w) in sums.iter_mut().zip(line.chunks_exact(2)) {
                                *sum += a * i32::from(w[0]) + b * i32::from(w[1]);
                            }
                        }
                    }
                }
            }
            // SAFETY: passed on from the caller.
            unsafe { band.store(&tile, places, column) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{BandTile, COLUMNS, ROWS, Sums};
    use crate::conv::band::Place;

    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn sweep(band: &BandTile<'_>, depth: usize) {
        for (j, column) in (0..band.columns).step_by(COLUMNS).enumerate() {
            for places in band.places.chunks(ROWS) {
                // SAFETY: panel `j` exists, and so does what the places see; the sums are the caller's promise.
                unsafe {
                    let panel = band.panels.as_ptr().add(j * COLUMNS * 2 * depth);
                    let sums = multiply(band, places, panel);
                    if places.len() == ROWS && column + COLUMNS <= band.columns {
                        store(band, &sums, places, column);
                    } else {
                        let mut tile: Sums = [[0; COLUMNS]; ROWS];
                        for (row, sums) in tile.iter_mut().zip(&sums) {
                            _mm256_storeu_si256(row.as_mut_ptr().cast(), sums[0]);
                            _mm256_storeu_si256(row.as_mut_ptr().add(8).cast(), sums[1]);
                        }
                        band.store(&tile, places, column);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply(band: &BandTile<'_>, places: &[Place], mut panel: *const i16) -> [[__m256i; 2]; ROWS] {
        // SAFETY: the caller is compiled for AVX2 and vouches for the panel and for what every place sees.
        unsafe {
            let rows = band.rows(places);
            let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
            for y in 0..band.count[0] {
                for x in 0..band.count[1] {
                    let start = y * band.step[0] + x * band.step[1];
                    for i in start..start + band.len {
                        let low = _mm256_loadu_si256(panel.cast());
                        let high = _mm256_loadu_si256(panel.add(16).cast());
                        for (row, sums) in rows.iter().zip(sums.iter_mut()) {
                            let pair = _mm256_set1_epi32(row.cast::<i32>().add(i).read_unaligned());
                            sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(pair, low));
                            sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(pair, high));
                        }
                        panel = panel.add(COLUMNS * 2);
                    }
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn store(band: &BandTile<'_>, sums: &[[__m256i; 2]; ROWS], places: &[Place], column: usize) {
        // SAFETY: the caller is compiled for AVX2, and the whole tile lies inside the sums.
        unsafe {
            for (sums, place) in sums.iter().zip(places) {
                for (v, sum) in sums.iter().enumerate() {
                    let to = band.sums.add(place.to + column + 8 * v).cast::<__m256i>();
                    let mut sum = *sum;
                    if band.add {
                        sum = _mm256_add_epi32(sum, _mm256_loadu_si256(to));
                    }
                    _mm256_storeu_si256(to, sum);
                }
            }
        }
    }
}
