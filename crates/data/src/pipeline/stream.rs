//! Rows that come one after the other, shuffled within a window.

use super::{batch::Buffer, below, random};
use crate::{
    error::Result,
    readers::{self, RowReader},
};

const CHUNK: usize = 256;
const STREAM: u64 = 0x77;

/// Opens the stream anew for every epoch.
pub(super) type Open = dyn Fn() -> Result<Box<dyn RowReader>> + Send + Sync;

/// A stream that is being read, row by row, in shuffled order.
pub(super) struct Cursor {
    reader: Box<dyn RowReader>,
    chunk: readers::Batch,
    /// Next row of the chunk, and the number in the file of the chunk's first row.
    next: usize,
    chunk_start: u64,
    ended: bool,
    columns: usize,
    window: Vec<Held>,
    window_values: Vec<f32>,
    window_len: usize,
    seed: u64,
    epoch: u64,
    /// Rows handed out, those of other shards included.
    drawn: u64,
}

/// Number and label of a row whose values lie at the same place of the window.
#[derive(Copy, Clone)]
struct Held {
    row: u64,
    label: f32,
}

impl Cursor {
    pub(super) fn open(open: &Open, window: usize, seed: u64, epoch: u64) -> Result<Cursor> {
        let reader = open()?;
        let columns = reader.names().len();
        Ok(Cursor {
            reader,
            chunk: readers::Batch::new(),
            next: 0,
            chunk_start: 0,
            ended: false,
            columns,
            window: Vec::new(),
            window_values: Vec::new(),
            window_len: window.max(1),
            seed,
            epoch,
            drawn: 0,
        })
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Appends up to `rows` rows of shard `shard` of `shards` to a buffer; fewer only at the end of the stream.
    pub(super) fn fill(
        &mut self,
        rows: usize,
        (shard, shards): (u64, u64),
        buffer: &mut Buffer,
    ) -> Result<()> {
        while buffer.rows.len() < rows {
            let ours = self.drawn % shards == shard;
            if !self.draw(ours.then_some(&mut *buffer))? {
                break;
            }
        }
        Ok(())
    }

    /// Takes a random row of the window, into a buffer if there is one; false at the end of the stream.
    fn draw(&mut self, buffer: Option<&mut Buffer>) -> Result<bool> {
        while self.window.len() < self.window_len && self.refill()? {
            let (held, values) = self.incoming();
            self.window.push(held);
            self.window_values.extend_from_slice(&self.chunk.values[values]);
            self.next += 1;
        }
        if self.window.is_empty() {
            return Ok(false);
        }
        let bits = random(self.seed, self.epoch, STREAM, self.drawn);
        let pick = below(bits, self.window.len() as u64) as usize;
        let span = pick * self.columns..(pick + 1) * self.columns;
        self.drawn += 1;
        if let Some(buffer) = buffer {
            buffer.values.extend_from_slice(&self.window_values[span.clone()]);
            buffer.labels.push(self.window[pick].label);
            buffer.rows.push(self.window[pick].row);
        }
        if self.refill()? {
            let (held, values) = self.incoming();
            self.window[pick] = held;
            self.window_values[span].copy_from_slice(&self.chunk.values[values]);
            self.next += 1;
        } else {
            self.window.swap_remove(pick);
            let last = self.window.len() * self.columns;
            self.window_values
                .copy_within(last..last + self.columns, span.start);
            self.window_values.truncate(last);
        }
        Ok(true)
    }

    /// Makes sure that the chunk has a next row; false at the end of the stream.
    fn refill(&mut self) -> Result<bool> {
        if self.next < self.chunk.rows() {
            return Ok(true);
        }
        if !self.ended {
            self.chunk_start += self.chunk.rows() as u64;
            self.next = 0;
            self.ended = self.reader.read(CHUNK, &mut self.chunk)? == 0;
        }
        Ok(!self.ended)
    }

    fn incoming(&self) -> (Held, std::ops::Range<usize>) {
        let held = Held {
            row: self.chunk_start + self.next as u64,
            label: self.chunk.labels.get(self.next).copied().unwrap_or(f32::NAN),
        };
        (held, self.next * self.columns..(self.next + 1) * self.columns)
    }
}
