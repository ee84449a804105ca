//! The loops around the register tile: groups, bands, and shares for the threads.

use std::ops::Range;

use super::{
    filter::{Panels, padded},
    tile::{self, BandTile, Target, WIDTH},
};
use crate::{
    conv::{
        band::{Bands, MOST_PLACES, Places},
        correlation::Correlation,
    },
    int8::ByteResults,
    share::{Shared, on_threads_with},
};

/// Bytes of a band's copy that stay in the L2 cache beside the panels.
const COPY: usize = 192 << 10;

/// A forward pass cut for a number of threads.
pub(in crate::int8) struct Plan {
    shape: Correlation,
    bands: Bands,
    /// Threads that share the results, and threads that share the columns of each.
    grid: [usize; 2],
}

impl Plan {
    pub(in crate::int8) fn new(shape: &Correlation, threads: usize) -> Plan {
        let channels = padded(shape.depth);
        let [down, across] = shape.lines;
        // Whichever is larger is shared out, so that each thread reads only a part of it.
        let weights = shape.groups * shape.taps() * channels * shape.columns;
        let source = shape.n * down.source * across.source * shape.source_pitch();
        let columns = match weights > source {
            true => threads.clamp(1, shape.columns.div_ceil(WIDTH).max(1)),
            false => 1,
        };
        let wanted = threads / columns;
        let bands = Bands::new(shape, channels, MOST_PLACES, COPY, wanted);
        Plan {
            shape: *shape,
            bands,
            grid: [wanted.min(bands.count()).max(1), columns],
        }
    }

    fn threads(&self) -> usize {
        self.grid[0] * self.grid[1]
    }

    /// Whether the tiles read the images as they are.
    fn is_direct(&self) -> bool {
        self.bands.is_direct() && self.shape.groups == 1 && self.shape.depth.is_multiple_of(4)
    }

    fn copy_len(&self) -> usize {
        match self.is_direct() {
            true => 0,
            false => self.bands.copy_len(padded(self.shape.depth)),
        }
    }

    pub(in crate::int8) fn workspace(&self) -> usize {
        self.copy_len() * self.threads()
    }

    pub(in crate::int8) fn run(
        &self,
        x: &[u8],
        zero_point: u8,
        panels: &Panels,
        results: ByteResults<'_>,
        workspace: &mut [u8],
    ) {
        let job = Job {
            plan: self,
            x,
            zero_point,
            panels,
            target: match results {
                ByteResults::Sums(sums) => Target::Sums(Shared::new(sums)),
                ByteResults::Bytes(how, y) => Target::Bytes(how, Shared::new(y)),
            },
        };
        on_threads_with(self.threads(), workspace, self.copy_len(), |index, copy| {
            job.share(index, copy)
        });
    }
}

/// A forward pass to be computed. The threads write different results.
struct Job<'a> {
    plan: &'a Plan,
    x: &'a [u8],
    zero_point: u8,
    panels: &'a Panels,
    target: Target<'a>,
}

impl Job<'_> {
    /// One thread's bands and columns.
    fn share(&self, index: usize, copy: &mut [u8]) {
        let Plan { shape, bands, grid } = self.plan;
        let part = |i: usize, parts: usize, all: usize| i * all / parts..(i + 1) * all / parts;
        let panels = part(index % grid[1], grid[1], shape.columns.div_ceil(WIDTH));
        let columns = panels.start * WIDTH..(panels.end * WIDTH).min(shape.columns);
        let mut places = Places::default();
        for band in part(index / grid[1], grid[0], bands.count()) {
            bands.locate(band, &mut places);
            for group in 0..shape.groups {
                self.band(band, &places, group, columns.clone(), copy);
            }
        }
    }

    fn band(&self, band: usize, places: &Places, group: usize, columns: Range<usize>, copy: &mut [u8]) {
        let Plan { shape, bands, .. } = self.plan;
        let [down, across] = shape.lines;
        let pixel = padded(shape.depth);
        let step = bands.tap_steps().map(|pixels| pixels * pixel);
        let (count, len) = match bands.is_dense() {
            true => ([down.taps, 1], across.taps * pixel),
            false => ([down.taps, across.taps], pixel),
        };
        let copy: &[u8] = if self.plan.is_direct() {
            &self.x[bands.first_pixel(band) * pixel..]
        } else {
            self.copy(band, group * shape.depth..(group + 1) * shape.depth, copy);
            copy
        };
        let (panels, column_sums) = self.panels.part(group, columns.clone());
        let tile = BandTile {
            places: places.as_slice(),
            copy,
            pixel,
            count,
            step,
            len,
            panels,
            column_sums,
            zero_point: self.zero_point,
            columns,
            first_column: group * shape.columns,
            target: self.target,
        };
        // SAFETY: weights are only packed in fours where the CPU can multiply them; the places lie inside the target,
        // and only this thread writes these columns of them.
        unsafe { tile::run(&tile) }
    }

    /// Copies what a band sees, with zero points around it.
    fn copy(&self, band: usize, channels: Range<usize>, to: &mut [u8]) {
        let width = padded(channels.len());
        let mut rows = to.chunks_exact_mut((self.plan.bands.pitch() * width).max(1));
        self.plan.bands.each_row(band, |row| {
            let Some(to) = rows.next().filter(|_| width > 0) else {
                return;
            };
            let Range { start, end } = row.pixels;
            to[..start * width].fill(self.zero_point);
            to[end * width..].fill(self.zero_point);
            let to = &mut to[start * width..end * width];
            if width == row.step && channels.len() == width {
                to.copy_from_slice(&self.x[row.from..][..to.len()]);
                return;
            }
            for (i, to) in to.chunks_exact_mut(width).enumerate() {
                let from = &self.x[row.from + i * row.step..][channels.clone()];
                to[..from.len()].copy_from_slice(from);
            }
        });
    }
}
