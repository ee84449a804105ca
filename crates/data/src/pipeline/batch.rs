//! A batch on its way to the consumer, in memory that is used again.

use std::sync::Arc;

use super::queue::Queue;

/// One row while it is mapped. A mapping may change values and label in place.
pub struct Row<'a> {
    /// The values.
    pub values: &'a mut [f32],
    /// The label; NaN if the source has none.
    pub label: &'a mut f32,
    /// The row's index in the source.
    pub index: u64,
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// The pipeline's seed.
    pub seed: u64,
    /// Memory for whatever the mapping needs; holds whatever the last one left.
    pub scratch: &'a mut Vec<f32>,
}

/// What a batch is made of.
#[derive(Default)]
pub(super) struct Buffer {
    pub(super) values: Vec<f32>,
    pub(super) labels: Vec<f32>,
    pub(super) rows: Vec<u64>,
    pub(super) scratch: Vec<f32>,
    pub(super) columns: usize,
}

/// Rows ready for training. Dropping it gives its memory back to the pipeline.
pub struct Batch {
    pub(super) buffer: Buffer,
    pub(super) epoch: u64,
    pub(super) index: u64,
    pub(super) home: Arc<Queue>,
}

impl Batch {
    /// All values, row by row.
    pub fn values(&self) -> &[f32] {
        &self.buffer.values
    }

    /// Values per row.
    pub fn columns(&self) -> usize {
        self.buffer.columns
    }

    /// One label per row, NaN if the source has none and no mapping made one.
    pub fn labels(&self) -> &[f32] {
        &self.buffer.labels
    }

    /// The index in the source of each row; for streams, the row's number in the file.
    pub fn rows(&self) -> &[u64] {
        &self.buffer.rows
    }

    /// The epoch, counted from 0.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The batch's number in its epoch, counted from 0.
    pub fn index(&self) -> u64 {
        self.index
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.buffer));
    }
}
