//! Weights in the panels the register tile reads.

use std::ops::Range;

use super::{correlation::Correlation, dot_tile::MOST_COLUMNS, tile};
use crate::{
    level::{Kernel, Simd},
    vector::{Vector, load_up_to},
};

/// Products summed in registers before they go to memory: a panel this deep stays in the L1 cache.
const DEPTH: usize = 320;

/// The order of packed weights: groups, blocks of channels of the source, panels of columns, taps, channels, columns
/// of the panel. The order of additions follows from it, and with it from the shape and the level alone.
#[derive(Copy, Clone, Debug)]
pub(super) struct Layout {
    shape: Correlation,
    /// Whether vectors go along the sum: a panel is then a column.
    pub(super) dots: bool,
    /// Columns of a panel.
    pub(super) width: usize,
    /// Channels of a block, but for the last.
    pub(super) block: usize,
}

impl Layout {
    pub(super) fn new(simd: Simd, shape: &Correlation) -> Layout {
        let most = (DEPTH / shape.taps().max(1)).max(8);
        let blocks = shape.depth.div_ceil(most).max(1);
        let dots = (1..=MOST_COLUMNS).contains(&shape.columns) && shape.depth >= 8;
        Layout {
            shape: *shape,
            dots,
            width: if dots { 1 } else { tile::size(simd)[1] },
            block: shape
                .depth
                .div_ceil(blocks)
                .next_multiple_of(8)
                .min(shape.depth)
                .max(1),
        }
    }

    /// The blocks of channels; one, empty, where there are no channels.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let (depth, block) = (self.shape.depth, self.block);
        (0..depth.div_ceil(block).max(1)).map(move |i| i * block..((i + 1) * block).min(depth))
    }

    /// The panels of a block.
    pub(super) fn panel_count(&self) -> usize {
        self.shape.columns.div_ceil(self.width)
    }

    fn group_len(&self) -> usize {
        self.shape.taps() * self.shape.depth * self.shape.columns.next_multiple_of(self.width)
    }

    /// Floats of the packed weights.
    pub(super) fn len(&self) -> usize {
        self.group_len() * self.shape.groups
    }

    /// The panels of a group's block of channels.
    pub(super) fn panels(&self, group: usize, channels: &Range<usize>) -> Range<usize> {
        let row = self.shape.taps() * self.shape.columns.next_multiple_of(self.width);
        let start = group * self.group_len();
        start + channels.start * row..start + channels.end * row
    }

    /// Packs all weights.
    pub(super) fn pack(&self, simd: Simd, weights: &[f32], to: &mut [f32]) {
        let shape = &self.shape;
        for group in 0..shape.groups {
            for channels in self.blocks() {
                let panel_len = shape.taps() * channels.len() * self.width;
                let panels = &mut to[self.panels(group, &channels)];
                let starts = (0..shape.columns).step_by(self.width);
                for (column, panel) in starts.zip(panels.chunks_exact_mut(panel_len.max(1))) {
                    let weights = &weights[group * shape.group_stride..];
                    if self.dots {
                        pack_column(shape, weights, channels.clone(), column, panel);
                        continue;
                    }
                    simd.run(PackPanel {
                        shape,
                        weights,
                        channels: channels.clone(),
                        columns: column..(column + self.width).min(shape.columns),
                        width: self.width,
                        panel,
                    });
                }
            }
        }
    }
}

/// One column's weights, in the order in which its products are summed.
fn pack_column(shape: &Correlation, weights: &[f32], channels: Range<usize>, column: usize, to: &mut [f32]) {
    let [down, across] = shape.lines;
    let mut to = to.iter_mut();
    for y in 0..down.taps {
        for x in 0..across.taps {
            let start = shape.tap(y, x) + column * shape.column_stride;
            for (channel, to) in channels.clone().zip(&mut to) {
                *to = weights[start + channel * shape.depth_stride];
            }
        }
    }
}

/// The weights of some columns, tap by tap, channel by channel.
pub(super) struct PackPanel<'a> {
    pub(super) shape: &'a Correlation,
    pub(super) weights: &'a [f32],
    pub(super) channels: Range<usize>,
    pub(super) columns: Range<usize>,
    pub(super) width: usize,
    pub(super) panel: &'a mut [f32],
}

impl Kernel for PackPanel<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let [down, across] = self.shape.lines;
        let (depth, width) = (self.channels.len(), self.width);
        assert!(self.panel.len() == down.taps * across.taps * depth * width);
        if self.panel.is_empty() {
            return;
        }
        let Correlation {
            depth_stride,
            column_stride,
            ..
        } = *self.shape;
        let mut to = self.panel.as_mut_ptr();
        for y in 0..down.taps {
            for x in 0..across.taps {
                let start = self.shape.tap(y, x)
                    + self.channels.start * depth_stride
                    + self.columns.start * column_stride;
                let last = start + (depth - 1) * depth_stride + (self.columns.len() - 1) * column_stride;
                assert!(last < self.weights.len());
                // SAFETY: the last weight of the tap lies inside the slice, and the panel has room for every tap.
                unsafe {
                    let from = self.weights.as_ptr().add(start);
                    if column_stride == 1 {
                        copy::<V>(from, depth_stride, depth, self.columns.len(), width, to);
                    } else {
                        transpose::<V>(from, column_stride, depth, self.columns.len(), width, to, width);
                    }
                    to = to.add(depth * width);
                }
            }
        }
    }
}

/// The columns lie side by side.
///
/// # Safety
/// The CPU supports `V`; `columns` floats are readable at every depth, `width`, a multiple of the lanes, are writable.
#[inline(always)]
pub(crate) unsafe fn copy<V: Vector>(
    from: *const f32,
    stride: usize,
    depth: usize,
    columns: usize,
    width: usize,
    to: *mut f32,
) {
    for d in 0..depth {
        for i in (0..width).step_by(V::LANES) {
            let count = columns.saturating_sub(i);
            // SAFETY: `columns` floats are readable at every depth, `width`, a multiple of the lanes, writable.
            unsafe {
                let value = match count {
                    0 => V::splat(0.0),
                    _ => load_up_to::<V>(from.add(d * stride + i), count),
                };
                value.store(to.add(d * width + i));
            }
        }
    }
}

/// The channels lie side by side, the columns `stride` apart: blocks of eight by eight are transposed in registers.
/// `width`, a multiple of eight, are written at every depth, `pitch` apart.
///
/// # Safety
/// The CPU supports `V`; `columns` rows of `depth` floats are readable, and `width` floats are writable at every depth.
#[inline(always)]
pub(crate) unsafe fn transpose<V: Vector>(
    from: *const f32,
    stride: usize,
    depth: usize,
    columns: usize,
    width: usize,
    to: *mut f32,
    pitch: usize,
) {
    let blocked = depth / 8 * 8;
    for group in (0..width).step_by(8) {
        let rows = columns.saturating_sub(group).min(8);
        // SAFETY: `columns` rows of `depth` floats are readable, and the panel's width is a multiple of eight.
        unsafe {
            let source = if rows > 0 { from.add(group * stride) } else { from };
            for d in (0..blocked).step_by(8) {
                V::transpose8(source.add(d), stride, rows, to.add(d * pitch + group), pitch);
            }
            for d in blocked..depth {
                for r in 0..8 {
                    let value = if r < rows {
                        *source.add(r * stride + d)
                    } else {
                        0.0
                    };
                    *to.add(d * pitch + group + r) = value;
                }
            }
        }
    }
}
