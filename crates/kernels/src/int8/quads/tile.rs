//! The register tile: fours of bytes, 32-bit sums, and their way back to bytes.

use std::ops::Range;

use crate::{conv::band::Place, int8::Requantise, share::Shared};

/// Columns of a vector of sums.
pub(super) const LANES: usize = 16;

/// Columns of a panel.
pub(super) const WIDTH: usize = 4 * LANES;

/// Where sums go; the threads write different results.
#[derive(Copy, Clone)]
pub(super) enum Target<'a> {
    Sums(Shared<i32>),
    Bytes(Requantise<'a>, Shared<u8>),
}

/// A band's results of one group. Lengths along channels are counted in bytes, and are whole fours.
pub(super) struct BandTile<'a> {
    pub(super) places: &'a [Place],
    pub(super) copy: &'a [u8],
    /// Bytes per pixel of the copy.
    pub(super) pixel: usize,
    /// Stretches of products, down and across.
    pub(super) count: [usize; 2],
    /// Bytes from one to the next.
    pub(super) step: [usize; 2],
    /// Bytes of a stretch.
    pub(super) len: usize,
    /// The panels of the columns, and the sums of their weights.
    pub(super) panels: &'a [i8],
    pub(super) column_sums: &'a [i32],
    pub(super) zero_point: u8,
    /// The columns to compute, from the start of a panel.
    pub(super) columns: Range<usize>,
    /// The group's first column.
    pub(super) first_column: usize,
    pub(super) target: Target<'a>,
}

impl BandTile<'_> {
    /// Panics unless the panels have weights for all columns and every place sees a part of the copy.
    fn check(&self) -> usize {
        let depth = self.count[0] * self.count[1] * self.len;
        let columns = self.columns.len().next_multiple_of(LANES);
        assert!(self.panels.len() >= depth * columns && self.column_sums.len() >= columns);
        if depth > 0 {
            let reach = (self.count[0] - 1) * self.step[0] + (self.count[1] - 1) * self.step[1] + self.len;
            let last = self.places.iter().map(|place| place.from).max().unwrap_or(0);
            assert!(self.len.is_multiple_of(4) && last * self.pixel + reach <= self.copy.len());
        }
        if let Target::Bytes(how, _) = &self.target {
            let end = self.first_column + self.columns.end;
            assert!(how.scales.len() >= end && how.bias.len() >= end);
        }
        depth
    }
}

/// Computes a band.
///
/// # Safety
/// The CPU has AVX-512 with VNNI; all columns of all places lie inside the target, and nobody else uses them.
pub(super) unsafe fn run(band: &BandTile<'_>) {
    let depth = band.check();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the operands were just checked, the rest is the caller's promise.
    unsafe {
        vnni::sweep(band, depth);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = depth;
}

#[cfg(target_arch = "x86_64")]
mod vnni {
    use std::arch::x86_64::*;

    use super::{BandTile, LANES, Target, WIDTH};
    use crate::{conv::band::Place, even_parts, int8::Requantise};

    /// Rows of a tile: with four vectors of weights and one of bytes they fill the registers.
    const ROWS: usize = 6;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub(super) unsafe fn sweep(band: &BandTile<'_>, depth: usize) {
        for first in (0..band.columns.len()).step_by(WIDTH) {
            let vectors = (band.columns.len() - first).div_ceil(LANES).min(WIDTH / LANES);
            let panel = band.panels.as_ptr().wrapping_add(first * depth);
            // SAFETY: the panel exists and has so many vectors; the rest is the caller's promise.
            unsafe {
                match vectors {
                    1 => rows::<1>(band, depth, panel, first),
                    2 => rows::<2>(band, depth, panel, first),
                    3 => rows::<3>(band, depth, panel, first),
                    _ => rows::<4>(band, depth, panel, first),
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn rows<const W: usize>(band: &BandTile<'_>, depth: usize, panel: *const i8, first: usize) {
        // The tiles of a panel share out the fetching of the next one, which lies behind it.
        let tiles = band.places.len().div_ceil(ROWS).max(1);
        let stride = (W * LANES * 4).div_ceil(tiles);
        let mut rest = band.places;
        for (i, count) in even_parts(band.places.len(), ROWS).enumerate() {
            let (places, after) = rest.split_at(count);
            rest = after;
            let next = panel.wrapping_add(depth * W * LANES + i * stride * (depth / 4));
            let ahead = (next, stride);
            // SAFETY: passed on from the caller.
            unsafe {
                match count {
                    1 => tile::<1, W>(band, places, panel, ahead, first),
                    2 => tile::<2, W>(band, places, panel, ahead, first),
                    3 => tile::<3, W>(band, places, panel, ahead, first),
                    4 => tile::<4, W>(band, places, panel, ahead, first),
                    5 => tile::<5, W>(band, places, panel, ahead, first),
                    _ => tile::<6, W>(band, places, panel, ahead, first),
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn tile<const H: usize, const W: usize>(
        band: &BandTile<'_>,
        places: &[Place],
        panel: *const i8,
        ahead: (*const i8, usize),
        first: usize,
    ) {
        // Of known length, the loops over it unroll.
        let Some(places) = places.first_chunk::<H>() else {
            return;
        };
        // SAFETY: passed on from the caller.
        unsafe {
            let sums = multiply::<H, W>(band, places, panel, ahead, first);
            for (place, sums) in places.iter().zip(&sums) {
                for (v, &sum) in sums.iter().enumerate() {
                    let column = band.columns.start + first + v * LANES;
                    let count = (band.columns.end - column).min(LANES);
                    store(band, sum, place.to + column, band.first_column + column, count);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply<const H: usize, const W: usize>(
        band: &BandTile<'_>,
        places: &[Place; H],
        mut panel: *const i8,
        (mut next, stride): (*const i8, usize),
        first: usize,
    ) -> [[__m512i; W]; H] {
        // SAFETY: the caller is compiled for VNNI and vouches for the panel and for what every place sees.
        unsafe {
            let mut rows = [band.copy.as_ptr(); H];
            for (row, place) in rows.iter_mut().zip(places) {
                *row = row.wrapping_add(place.from * band.pixel);
            }
            let zero = _mm512_set1_epi32(-i32::from(band.zero_point));
            let mut start = [_mm512_setzero_si512(); W];
            for (v, start) in start.iter_mut().enumerate() {
                let sums = _mm512_loadu_si512(band.column_sums.as_ptr().add(first + v * LANES).cast());
                *start = _mm512_mullo_epi32(sums, zero);
            }
            let mut sums = [start; H];
            for y in 0..band.count[0] {
                for x in 0..band.count[1] {
                    let start = y * band.step[0] + x * band.step[1];
                    for i in (start..start + band.len).step_by(4) {
                        _mm_prefetch::<_MM_HINT_T0>(next.cast());
                        next = next.wrapping_add(stride);
                        let mut weights = [zero; W];
                        for (v, weights) in weights.iter_mut().enumerate() {
                            *weights = _mm512_loadu_si512(panel.add(v * LANES * 4).cast());
                        }
                        for (row, sums) in rows.iter().zip(sums.iter_mut()) {
                            let bytes = _mm512_set1_epi32(row.add(i).cast::<i32>().read_unaligned());
                            for (sum, weights) in sums.iter_mut().zip(weights) {
                                *sum = _mm512_dpbusd_epi32(*sum, bytes, weights);
                            }
                        }
                        panel = panel.add(W * LANES * 4);
                    }
                }
            }
            sums
        }
    }

    /// Writes `count` sums that belong at `index` of the target and to `channel` and those after it.
    #[inline(always)]
    unsafe fn store(band: &BandTile<'_>, sums: __m512i, index: usize, channel: usize, count: usize) {
        // SAFETY: the caller is compiled for AVX-512, and so many results lie inside the target, so many channels inside
        // the scales and biases.
        unsafe {
            let mask = (u32::MAX >> (32 - count)) as __mmask16;
            let index = index + band.first_column;
            match &band.target {
                Target::Sums(to) => {
                    _mm512_mask_storeu_epi32(to.pointer().add(index), mask, sums);
                }
                Target::Bytes(how, to) => {
                    let bytes = requantised(how, sums, channel, mask);
                    _mm512_mask_cvtusepi32_storeu_epi8(to.pointer().add(index).cast(), mask, bytes);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn requantised(how: &Requantise<'_>, sums: __m512i, channel: usize, mask: __mmask16) -> __m512i {
        // SAFETY: passed on from the caller.
        unsafe {
            let scales = _mm512_maskz_loadu_ps(mask, how.scales.as_ptr().add(channel));
            let bias = _mm512_maskz_loadu_ps(mask, how.bias.as_ptr().add(channel));
            let [least, most] = how.room().map(|bound| _mm512_set1_ps(bound));
            // Two roundings, as at every level.
            let steps = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), scales), bias);
            let steps = _mm512_min_ps(_mm512_max_ps(steps, least), most);
            // Halves go to even, as conversions round by default.
            let zero = _mm512_set1_epi32(how.zero_point.into());
            _mm512_add_epi32(_mm512_cvtps_epi32(steps), zero)
        }
    }
}
