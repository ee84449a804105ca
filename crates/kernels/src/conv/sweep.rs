//! The loops around the register tile: groups, bands, blocks of channels, and shares for the threads.

use std::ops::Range;

use super::{
    band::{Bands, MOST_PLACES, Places},
    correlation::Correlation,
    dot_tile::BandDots,
    filter::Layout,
    finish::Finish,
    tile::{BandTile, Runs},
};
use crate::{level::Simd, share::on_threads_with};

/// Floats of a band's copy that stay in the L2 cache beside the panels.
const COPY: usize = 40 << 10;

/// A correlation cut for a number of threads.
#[derive(Copy, Clone)]
pub(super) struct Plan {
    pub(super) layout: Layout,
    shape: Correlation,
    bands: Bands,
    /// Threads that share the results, and threads that share the columns of each.
    grid: [usize; 2],
}

impl Plan {
    pub(super) fn new(simd: Simd, shape: &Correlation, threads: usize) -> Plan {
        let layout = Layout::new(simd, shape);
        // What is larger is shared out, so that each thread reads only a part of it.
        let [down, across] = shape.lines;
        let source = shape.n * down.source * across.source * shape.source_pitch();
        let most = if layout.dots { 1 } else { layout.panel_count() };
        let columns = if layout.len() > source {
            threads.clamp(1, most)
        } else {
            1
        };
        let wanted = threads / columns;
        let bands = Bands::new(shape, layout.block, MOST_PLACES, COPY, wanted);
        Plan {
            layout,
            shape: *shape,
            bands,
            grid: [wanted.min(bands.count()).max(1), columns],
        }
    }

    fn threads(&self) -> usize {
        self.grid[0] * self.grid[1]
    }

    /// Floats of workspace, besides those of the packed weights.
    pub(super) fn workspace(&self) -> usize {
        self.copy_len() * self.threads()
    }

    fn copy_len(&self) -> usize {
        match self.bands.is_direct() {
            true => 0,
            false => self.bands.copy_len(self.layout.block),
        }
    }

    /// Computes all results from packed weights.
    pub(super) fn run(
        &self,
        simd: Simd,
        source: &[f32],
        panels: &[f32],
        finish: Finish<'_>,
        target: &mut [f32],
        workspace: &mut [f32],
    ) {
        let job = Job {
            plan: self,
            simd,
            source,
            panels,
            finish,
            target: target.as_mut_ptr(),
        };
        on_threads_with(self.threads(), workspace, self.copy_len(), |index, copy| {
            job.share(index, copy)
        });
    }

    fn runs(&self, channels: usize) -> Runs {
        let [down, across] = self.shape.lines;
        let step = self.bands.tap_steps().map(|pixels| pixels * channels);
        if self.bands.is_dense() {
            Runs {
                count: [down.taps, 1],
                step,
                len: across.taps * channels,
            }
        } else {
            Runs {
                count: [down.taps, across.taps],
                step,
                len: channels,
            }
        }
    }
}

/// A correlation to be computed. The threads write different results through the pointer.
struct Job<'a> {
    plan: &'a Plan,
    simd: Simd,
    source: &'a [f32],
    panels: &'a [f32],
    finish: Finish<'a>,
    target: *mut f32,
}

// SAFETY: the operands are only read, and different bands and columns are different results.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    /// One thread's bands and columns.
    fn share(&self, index: usize, copy: &mut [f32]) {
        let Plan {
            shape,
            layout,
            bands,
            grid,
        } = self.plan;
        let part = |i: usize, parts: usize, all: usize| i * all / parts..(i + 1) * all / parts;
        let panels = part(index % grid[1], grid[1], layout.panel_count());
        let columns = panels.start * layout.width..(panels.end * layout.width).min(shape.columns);
        let mut places = Places::default();
        for band in part(index / grid[1], grid[0], bands.count()) {
            bands.locate(band, &mut places);
            for group in 0..shape.groups {
                for channels in layout.blocks() {
                    self.block(band, &places, group, channels, columns.clone(), copy);
                }
            }
        }
    }

    fn block(
        &self,
        band: usize,
        places: &Places,
        group: usize,
        channels: Range<usize>,
        columns: Range<usize>,
        copy: &mut [f32],
    ) {
        let Plan {
            shape, layout, bands, ..
        } = self.plan;
        let first = group * shape.depth;
        let of_all = first + channels.start..first + channels.end;
        let (copy, pixel): (&[f32], usize) = if bands.is_direct() {
            let start = bands.first_pixel(band) * shape.source_pitch() + of_all.start;
            (&self.source[start.min(self.source.len())..], shape.source_pitch())
        } else {
            if shape.taps() > 0 && !channels.is_empty() {
                bands.copy(self.simd, band, self.source, of_all, copy);
            }
            (copy, channels.len())
        };
        let tile = BandTile {
            places: places.as_slice(),
            copy,
            pixel,
            runs: self.plan.runs(channels.len()),
            panels: &self.panels[layout.panels(group, &channels)],
            columns,
            // SAFETY: the group's first column lies inside every pixel of the target.
            target: unsafe { self.target.add(group * shape.columns) },
            finish: self.finish,
            first_column: group * shape.columns,
            add: channels.start > 0,
            last: channels.end == shape.depth,
        };
        if layout.dots {
            self.simd.run(BandDots(tile));
        } else {
            self.simd.run(tile);
        }
    }
}
