//! The gradient of the weights: for every tap and pair of channels a sum over all results.
//!
//! A tile's rows are taps and channels of the images, its columns channels of the results. The sum goes band by band,
//! in an order that does not depend on the threads, which share out columns and rows.

use std::ops::Range;

use super::{
    band::{Bands, MOST_PLACES, Place, Places},
    correlation::Correlation,
    gradient_tile::{GradientTile, Panels},
    tile,
};
use crate::{
    level::{Kernel, Simd},
    share::on_threads_with,
    vector::{Vector, load_up_to},
};

/// Floats of a band's copy that stay in the L2 cache.
const COPY: usize = 40 << 10;

/// Channels of the images that are copied together: pixels of one and a half cache lines fill the cache evenly.
const CHANNELS: usize = 24;

/// The same for single taps of images with many channels, where a copy of few of them touches a page for each pixel.
const CHANNELS_OF_MANY: usize = 72;
const MANY: usize = 512;

/// Rows of the gradient below which packing the results' gradient costs more than it saves, and the channels up to
/// which it may be read where it is without straining the cache.
const FEW_ROWS: usize = 160;
const FEW_CHANNELS: usize = 64;

/// A weight gradient cut for a number of threads.
pub(super) struct Plan {
    shape: Correlation,
    bands: Bands,
    block: usize,
    tile: [usize; 2],
    /// Whether the results' gradient is packed.
    packs: bool,
    /// Threads along the rows and the columns.
    grid: [usize; 2],
}

impl Plan {
    /// Takes the correlation of the forward pass.
    pub(super) fn new(simd: Simd, shape: &Correlation, threads: usize) -> Plan {
        let is_scattered = shape.taps() == 1 && shape.depth > MANY;
        let most = if is_scattered { CHANNELS_OF_MANY } else { CHANNELS };
        let blocks = shape.depth.div_ceil(most).max(1);
        let block = shape
            .depth
            .div_ceil(blocks)
            .next_multiple_of(8)
            .min(shape.depth)
            .max(1);
        let tile = tile::size(simd);
        let panels = shape.columns.div_ceil(tile[1]).max(1);
        let rows = (shape.taps() * block).div_ceil(tile[0]);
        let across = threads.clamp(1, panels);
        let packs = shape.taps() * shape.depth > FEW_ROWS
            || shape.target_pitch() > FEW_CHANNELS
            || !shape.columns.is_multiple_of(tile[1]);
        Plan {
            shape: *shape,
            bands: Bands::new(shape, block, MOST_PLACES, COPY, 1),
            block,
            tile,
            packs,
            grid: [(threads / across).clamp(1, rows.max(1)), across],
        }
    }

    fn copy_len(&self) -> usize {
        self.bands.copy_len(self.block)
    }

    fn thread_workspace(&self) -> usize {
        let panels = self.shape.columns.div_ceil(self.tile[1]).div_ceil(self.grid[1]);
        let packed = panels * self.tile[1] * self.bands.places();
        self.copy_len() + if self.packs { packed } else { 0 }
    }

    pub(super) fn workspace(&self) -> usize {
        self.thread_workspace() * self.grid[0] * self.grid[1]
    }

    /// Computes the whole gradient.
    pub(super) fn run(&self, simd: Simd, x: &[f32], dy: &[f32], dw: &mut [f32], workspace: &mut [f32]) {
        if self.bands.count() == 0 || dw.is_empty() {
            return dw.fill(0.0);
        }
        let job = Job {
            plan: self,
            simd,
            x,
            dy,
            dw: dw.as_mut_ptr(),
        };
        let threads = self.grid[0] * self.grid[1];
        on_threads_with(threads, workspace, self.thread_workspace(), |index, share| {
            job.share(index, share)
        });
    }
}

/// A gradient to be computed. The threads write different parts of it through the pointer.
struct Job<'a> {
    plan: &'a Plan,
    simd: Simd,
    x: &'a [f32],
    dy: &'a [f32],
    dw: *mut f32,
}

// SAFETY: the operands are only read, and the shares are different rows and columns of the gradient.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    /// One thread's rows and columns, over all bands.
    fn share(&self, index: usize, workspace: &mut [f32]) {
        let Plan {
            shape,
            bands,
            grid,
            tile,
            ..
        } = self.plan;
        let part = |i: usize, parts: usize, all: usize| i * all / parts..(i + 1) * all / parts;
        let all_panels = shape.columns.div_ceil(tile[1]);
        let panels = part(index % grid[1], grid[1], all_panels);
        let columns = panels.start * tile[1]..(panels.end * tile[1]).min(shape.columns);
        let (copy, panels) = workspace.split_at_mut(self.plan.copy_len());
        let mut places = Places::default();
        for band in 0..bands.count() {
            bands.locate(band, &mut places);
            for group in 0..shape.groups {
                let panels = self.panels(places.as_slice(), group, columns.clone(), panels);
                for first in (0..shape.depth).step_by(self.plan.block) {
                    let channels = first..(first + self.plan.block).min(shape.depth);
                    let tiles = (shape.taps() * channels.len()).div_ceil(tile[0]);
                    let tiles = part(index / grid[1], grid[0], tiles);
                    self.block(
                        band,
                        &places,
                        group,
                        channels,
                        tiles,
                        columns.clone(),
                        copy,
                        panels,
                    );
                }
            }
        }
    }

    /// The columns of the results' gradient, packed panel after panel, place after place, if that pays.
    fn panels<'b>(
        &'b self,
        places: &[Place],
        group: usize,
        columns: Range<usize>,
        packed: &'b mut [f32],
    ) -> Panels<'b> {
        let first = group * self.plan.shape.columns + columns.start;
        let width = self.plan.tile[1];
        if !self.plan.packs {
            // The results of a band follow one another.
            return Panels {
                data: &self.dy[places.first().map_or(0, |place| place.to) + first..],
                line: self.plan.shape.target_pitch(),
                panel: width,
            };
        }
        self.simd.run(PackPanels {
            places,
            dy: &self.dy[first..],
            columns: columns.len(),
            width,
            panels: packed,
        });
        Panels {
            data: packed,
            line: width,
            panel: width * places.len(),
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what a block of the loop nest consists of"
    )]
    fn block(
        &self,
        band: usize,
        places: &Places,
        group: usize,
        channels: Range<usize>,
        tiles: Range<usize>,
        columns: Range<usize>,
        copy: &mut [f32],
        panels: Panels<'_>,
    ) {
        let Plan { shape, bands, .. } = self.plan;
        let first = group * shape.depth;
        bands.copy(
            self.simd,
            band,
            self.x,
            first + channels.start..first + channels.end,
            copy,
        );
        let pixel = channels.len();
        let mut starts = [0; MOST_PLACES];
        for (start, place) in starts.iter_mut().zip(places.as_slice()) {
            *start = place.from * pixel;
        }
        self.simd.run(GradientTile {
            shape,
            starts: &starts[..places.as_slice().len()],
            copy,
            pixel,
            tap_steps: bands.tap_steps(),
            tiles,
            panels,
            columns,
            first_channel: channels.start,
            // SAFETY: a group's weights start inside the gradient, which is not empty.
            dw: unsafe { self.dw.add(group * shape.group_stride) },
            add: band > 0,
        });
    }
}

struct PackPanels<'a> {
    places: &'a [Place],
    dy: &'a [f32],
    columns: usize,
    width: usize,
    panels: &'a mut [f32],
}

impl Kernel for PackPanels<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (width, panel_len) = (self.width, self.places.len() * self.width);
        assert!(self.panels.len() >= panel_len * self.columns.div_ceil(width));
        // Places outermost: the gradient comes from far away, and is best read in its own order.
        for (i, place) in self.places.iter().enumerate() {
            let from = &self.dy[place.to..][..self.columns];
            for column in (0..self.columns.next_multiple_of(width)).step_by(V::LANES) {
                let count = self.columns.saturating_sub(column);
                let to = column / width * panel_len + i * width + column % width;
                // SAFETY: `columns` floats are readable, and panels of whole vectors writable.
                unsafe {
                    let value = match count {
                        0 => V::splat(0.0),
                        _ => load_up_to::<V>(from.as_ptr().add(column), count),
                    };
                    value.store(self.panels.as_mut_ptr().add(to));
                }
            }
        }
    }
}
