//! The loops around the register tile: groups, bands, blocks of channels, and shares for the threads.

use std::{ops::Range, thread};

use super::{
    band::{Bands, MOST_PLACES, Places},
    correlation::Correlation,
    dot_tile::BandDots,
    filter::Layout,
    finish::Finish,
    tile::{BandTile, Runs},
};
use crate::level::Simd;

/// Floats of a band's copy that stay in the L2 cache beside the panels.
const COPY: usize = 40 << 10;

/// A correlation cut for a number of threads.
#[derive(Copy, Clone)]
pub(super) struct Plan {
    pub(super) layout: Layout,
    shape: Correlation,
    bands: Bands,
    threads: usize,
}

impl Plan {
    pub(super) fn new(simd: Simd, shape: &Correlation, threads: usize) -> Plan {
        let layout = Layout::new(simd, shape);
        let bands = Bands::new(shape, layout.block, MOST_PLACES, COPY, threads);
        Plan {
            layout,
            shape: *shape,
            bands,
            threads: threads.min(bands.count()).max(1),
        }
    }

    /// Floats of workspace, besides those of the packed weights.
    pub(super) fn workspace(&self) -> usize {
        self.bands.copy_len(self.layout.block) * self.threads
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
        let count = self.bands.count();
        let share = |index: usize| index * count / self.threads..(index + 1) * count / self.threads;
        let mut copies = workspace.chunks_exact_mut(self.bands.copy_len(self.layout.block).max(1));
        let mut copy = || copies.next().unwrap_or_default();
        if self.threads == 1 {
            return job.bands(share(0), copy());
        }
        thread::scope(|scope| {
            for index in 1..self.threads {
                let (job, copy) = (&job, copy());
                scope.spawn(move || job.bands(share(index), copy));
            }
            job.bands(share(0), copy());
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

// SAFETY: the operands are only read, and different bands write different results.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    fn bands(&self, bands: Range<usize>, copy: &mut [f32]) {
        let shape = &self.plan.shape;
        let mut places = Places::default();
        for band in bands {
            self.plan.bands.locate(band, &mut places);
            for group in 0..shape.groups {
                for channels in self.plan.layout.blocks() {
                    self.block(band, &places, group, channels, copy);
                }
            }
        }
    }

    fn block(&self, band: usize, places: &Places, group: usize, channels: Range<usize>, copy: &mut [f32]) {
        let Plan {
            shape, layout, bands, ..
        } = self.plan;
        let first = group * shape.depth;
        if shape.taps() > 0 && !channels.is_empty() {
            let channels = first + channels.start..first + channels.end;
            bands.copy(self.simd, band, self.source, channels, copy);
        }
        let tile = BandTile {
            places: places.as_slice(),
            copy,
            pixel: channels.len(),
            runs: self.plan.runs(channels.len()),
            panels: &self.panels[layout.panels(group, &channels)],
            columns: shape.columns,
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
