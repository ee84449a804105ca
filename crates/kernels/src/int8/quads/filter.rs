//! Weights in the panels the register tile reads.

use std::ops::Range;

use super::tile::{LANES, WIDTH};
use crate::conv::correlation::Correlation;

/// Packed weights of all groups. Their order: groups, panels of columns, taps, fours of channels, columns of the panel, the
/// four of them. All panels but the last of a group have [`WIDTH`] columns, the last as many whole vectors as it needs.
#[derive(Clone, Debug)]
pub(in crate::int8) struct Panels {
    data: Vec<i8>,
    /// The sums of the weights of every column, of all groups.
    column_sums: Vec<i32>,
    depth: usize,
    /// The columns that a group's panels have room for.
    room: usize,
}

/// Channels of a pixel of the copy.
pub(super) fn padded(channels: usize) -> usize {
    channels.next_multiple_of(4)
}

impl Panels {
    pub(in crate::int8) fn pack(shape: &Correlation, weights: &[i8]) -> Panels {
        let depth = shape.taps() * padded(shape.depth);
        let room = shape.columns.next_multiple_of(LANES);
        let mut panels = Panels {
            data: vec![0; shape.groups * depth * room],
            column_sums: vec![0; shape.groups * room],
            depth,
            room,
        };
        for group in 0..shape.groups {
            let weights = &weights[(group * shape.group_stride).min(weights.len())..];
            for column in 0..shape.columns {
                panels.pack_column(shape, group, column, weights);
            }
        }
        panels
    }

    fn pack_column(&mut self, shape: &Correlation, group: usize, column: usize, weights: &[i8]) {
        let across = shape.lines[1].taps;
        let first = column / WIDTH * WIDTH;
        let width = (self.room - first).min(WIDTH);
        let start = (group * self.room + first) * self.depth + (column - first) * 4;
        let (channels, mut sum) = (padded(shape.depth), 0);
        for tap in 0..shape.taps() {
            let from = shape.tap(tap / across, tap % across) + column * shape.column_stride;
            for channel in 0..shape.depth {
                let weight = weights[from + channel * shape.depth_stride];
                let product = tap * channels + channel;
                self.data[start + product / 4 * 4 * width + product % 4] = weight;
                sum += i32::from(weight);
            }
        }
        self.column_sums[group * self.room + column] = sum;
    }

    /// The weights of some columns of a group, which start and end where panels do, and the sums of them.
    pub(super) fn part(&self, group: usize, columns: Range<usize>) -> (&[i8], &[i32]) {
        let end = columns.end.next_multiple_of(LANES).min(self.room);
        let range = group * self.room + columns.start..group * self.room + end;
        let data = &self.data[range.start * self.depth..range.end * self.depth];
        (data, &self.column_sums[range])
    }
}
