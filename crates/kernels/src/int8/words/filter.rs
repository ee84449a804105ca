//! Weights of bytes in the panels the register tile reads.

use std::ops::Range;

use super::{pairs, tile::COLUMNS};
use crate::conv::correlation::Correlation;

/// Products summed in registers before they go to memory: a panel this deep stays in the L1 cache.
const DEPTH: usize = 512;

/// The order of packed weights: groups, blocks of channels, panels of columns, taps, pairs of channels, columns of the
/// panel, the two of a pair.
#[derive(Copy, Clone, Debug)]
pub(in crate::int8) struct Layout {
    shape: Correlation,
    /// Channels of a block, but for the last.
    pub(in crate::int8) block: usize,
}

impl Layout {
    pub(in crate::int8) fn new(shape: &Correlation) -> Layout {
        let most = (DEPTH / shape.taps()).max(16);
        let blocks = shape.depth.div_ceil(most).max(1);
        Layout {
            shape: *shape,
            block: shape
                .depth
                .div_ceil(blocks)
                .next_multiple_of(16)
                .min(shape.depth)
                .max(1),
        }
    }

    /// The blocks of channels; one, empty, where there are no channels.
    pub(in crate::int8) fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let (depth, block) = (self.shape.depth, self.block);
        (0..depth.div_ceil(block).max(1)).map(move |i| i * block..((i + 1) * block).min(depth))
    }

    /// Words from a pair of channels to the next, over all panels and taps.
    fn pair_len(&self) -> usize {
        self.shape.taps() * self.shape.columns.next_multiple_of(COLUMNS) * 2
    }

    fn group_len(&self) -> usize {
        self.pair_len() * self.blocks().map(|channels| pairs(&channels)).sum::<usize>()
    }

    pub(in crate::int8) fn len(&self) -> usize {
        self.group_len() * self.shape.groups
    }

    /// The panels of a group's block of channels.
    pub(in crate::int8) fn panels(&self, group: usize, channels: &Range<usize>) -> Range<usize> {
        // All blocks but the last are of even size, so that no pair is split.
        let start = group * self.group_len() + channels.start.div_ceil(2) * self.pair_len();
        start..start + pairs(channels) * self.pair_len()
    }

    /// Packs all weights.
    pub(in crate::int8) fn pack(&self, weights: &[i8], to: &mut [i16]) {
        for group in 0..self.shape.groups {
            for channels in self.blocks() {
                let panel_len = self.shape.taps() * pairs(&channels) * COLUMNS * 2;
                let panels = to[self.panels(group, &channels)].chunks_exact_mut(panel_len.max(1));
                for (column, panel) in (0..self.shape.columns).step_by(COLUMNS).zip(panels) {
                    let columns = column..(column + COLUMNS).min(self.shape.columns);
                    self.pack_panel(
                        &weights[group * self.shape.group_stride..],
                        &channels,
                        columns,
                        panel,
                    );
                }
            }
        }
    }

    fn pack_panel(&self, weights: &[i8], channels: &Range<usize>, columns: Range<usize>, panel: &mut [i16]) {
        let [down, across] = self.shape.lines;
        let mut lines = panel.chunks_exact_mut(COLUMNS * 2);
        for y in 0..down.taps {
            for x in 0..across.taps {
                let start = self.shape.tap(y, x);
                for (first, line) in channels.clone().step_by(2).zip(&mut lines) {
                    for (i, column) in columns.clone().enumerate() {
                        for channel in first..(first + 2).min(channels.end) {
                            let at = start + channel * self.shape.depth_stride + column;
                            line[2 * i + channel - first] = weights[at].into();
                        }
                    }
                }
            }
        }
    }
}
