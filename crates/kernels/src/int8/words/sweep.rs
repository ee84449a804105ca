//! The loops around the register tile: groups, bands, blocks of channels, and shares for the threads.

use std::ops::Range;

use super::{
    filter::Layout,
    pairs,
    tile::{self, BandTile},
};
use crate::{
    conv::{
        band::{Bands, MOST_PLACES, Places},
        correlation::Correlation,
    },
    level::Simd,
    share::on_threads_with,
};

/// Words of a band's copy that stay in the L2 cache beside the panels.
const COPY: usize = 80 << 10;

/// A forward pass cut for a number of threads.
pub(in crate::int8) struct Plan {
    shape: Correlation,
    layout: Layout,
    bands: Bands,
    threads: usize,
}

impl Plan {
    pub(in crate::int8) fn new(shape: &Correlation, threads: usize) -> Plan {
        let layout = Layout::new(shape);
        let bands = Bands::new(shape, layout.block, MOST_PLACES, COPY, threads);
        Plan {
            shape: *shape,
            layout,
            bands,
            threads: threads.min(bands.count()).max(1),
        }
    }

    fn copy_len(&self) -> usize {
        self.bands.copy_len(self.layout.block.next_multiple_of(2))
    }

    pub(in crate::int8) fn workspace(&self) -> usize {
        self.copy_len() * self.threads
    }

    pub(in crate::int8) fn run(
        &self,
        simd: Simd,
        x: &[u8],
        zero_point: u8,
        panels: &[i16],
        sums: &mut [i32],
        workspace: &mut [i16],
    ) {
        let job = Job {
            plan: self,
            simd,
            x,
            zero_point: zero_point.into(),
            panels,
            sums: sums.as_mut_ptr(),
        };
        let count = self.bands.count();
        on_threads_with(self.threads, workspace, self.copy_len(), |index, copy| {
            job.bands(
                index * count / self.threads..(index + 1) * count / self.threads,
                copy,
            )
        });
    }
}

/// A forward pass to be computed. The threads write different results through the pointer.
struct Job<'a> {
    plan: &'a Plan,
    simd: Simd,
    x: &'a [u8],
    zero_point: i16,
    panels: &'a [i16],
    sums: *mut i32,
}

// SAFETY: the operands are only read, and different bands write different results.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    fn bands(&self, bands: Range<usize>, copy: &mut [i16]) {
        let mut places = Places::default();
        for band in bands {
            self.plan.bands.locate(band, &mut places);
            for group in 0..self.plan.shape.groups {
                for channels in self.plan.layout.blocks() {
                    self.block(band, &places, group, channels, copy);
                }
            }
        }
    }

    fn block(&self, band: usize, places: &Places, group: usize, channels: Range<usize>, copy: &mut [i16]) {
        let Plan {
            shape, layout, bands, ..
        } = self.plan;
        let first = group * shape.depth;
        self.copy(band, first + channels.start..first + channels.end, copy);
        let ([down, across], pairs) = (shape.lines, pairs(&channels));
        let step = bands.tap_steps().map(|pixels| pixels * pairs);
        let (count, len) = if bands.is_dense() {
            ([down.taps, 1], across.taps * pairs)
        } else {
            ([down.taps, across.taps], pairs)
        };
        let tile = BandTile {
            places: places.as_slice(),
            copy,
            pixel: pairs,
            count,
            step,
            len,
            panels: &self.panels[layout.panels(group, &channels)],
            columns: shape.columns,
            // SAFETY: the group's first column lies inside every pixel of the sums.
            sums: unsafe { self.sums.add(group * shape.columns) },
            add: channels.start > 0,
        };
        // SAFETY: the places lie inside the sums, and only this thread writes them.
        unsafe { tile::run(self.simd, &tile) }
    }

    /// Copies what a band sees, less the zero point, with zeros around it.
    fn copy(&self, band: usize, channels: Range<usize>, to: &mut [i16]) {
        let width = pairs(&channels) * 2;
        let mut rows = to.chunks_exact_mut((self.plan.bands.pitch() * width).max(1));
        self.plan.bands.each_row(band, |row| {
            let Some(to) = rows.next().filter(|_| width > 0) else {
                return;
            };
            let Range { start, end } = row.pixels;
            to[..start * width].fill(0);
            to[end * width..].fill(0);
            for (i, to) in to[start * width..end * width].chunks_exact_mut(width).enumerate() {
                let from = &self.x[row.from + i * row.step..][channels.clone()];
                for (to, &from) in to.iter_mut().zip(from) {
                    *to = i16::from(from) - self.zero_point;
                }
                to[from.len()..].fill(0);
            }
        });
    }
}
