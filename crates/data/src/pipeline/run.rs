//! The running pipeline: its threads, and the consumer's side of the queue.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use serde::{Deserialize, Serialize};

use super::{
    batch::{Batch, Buffer, Row},
    builder::PipelineBuilder,
    dataset::Dataset,
    order::Order,
    queue::{Item, Queue},
    stream::{Cursor, Open},
    tune::TuningEvent,
};
use crate::{
    error::{Error, Result, panic_message},
    readers::RowReader,
};

/// A function applied to every row.
pub(super) type Map = dyn Fn(&mut Row<'_>) -> Result<(), String> + Send + Sync;

/// Where a run stands: the next batch that will be delivered. It can be stored, and a pipeline with the same settings goes
/// on from it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// The batch in the epoch, counted from 0.
    pub batch: u64,
    /// A fingerprint of the settings that decide what batches hold.
    pub plan: u64,
}

/// Everything that decides what batches hold.
pub(super) struct Plan {
    pub(super) source: Source,
    pub(super) batch: usize,
    pub(super) seed: u64,
    pub(super) shuffle: bool,
    pub(super) window: usize,
    pub(super) shard: (u64, u64),
    pub(super) drop_last: bool,
    pub(super) epochs: u64,
    pub(super) maps: Vec<Box<Map>>,
    pub(super) start: Position,
}

pub(super) enum Source {
    Rows(Arc<dyn Dataset>),
    Stream(Box<Open>, Box<Mutex<Progress>>),
}

/// How far a stream was read. One worker reads at a time; all map.
#[derive(Default)]
pub(super) struct Progress {
    cursor: Option<Cursor>,
    epoch: u64,
    index: u64,
    skip: u64,
    over: bool,
}

impl Progress {
    pub(super) fn from(start: Position) -> Progress {
        Progress {
            epoch: start.epoch,
            skip: start.batch,
            ..Progress::default()
        }
    }
}

/// An input pipeline at work. Dropping it ends its threads.
pub struct Pipeline {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    position: Position,
    finished: bool,
    events: Box<dyn FnMut(&TuningEvent) + Send>,
}

impl Pipeline {
    /// Settings of a pipeline over rows with random access, shuffled over all rows.
    pub fn over<D: Dataset + 'static>(data: Arc<D>) -> PipelineBuilder {
        PipelineBuilder::new(Source::Rows(data))
    }

    /// Settings of a pipeline over a stream that `open` opens anew for every epoch, shuffled within a window.
    pub fn stream(open: impl Fn() -> Result<Box<dyn RowReader>> + Send + Sync + 'static) -> PipelineBuilder {
        PipelineBuilder::new(Source::Stream(Box::new(open), Box::default()))
    }

    pub(super) fn launch(
        plan: Plan,
        queue: Queue,
        workers: usize,
        events: Box<dyn FnMut(&TuningEvent) + Send>,
    ) -> Result<Pipeline> {
        let (position, plan, queue) = (plan.start, Arc::new(plan), Arc::new(queue));
        let mut pipeline = Pipeline {
            queue,
            threads: Vec::with_capacity(workers),
            position,
            finished: false,
            events,
        };
        for id in 0..workers {
            let (plan, queue) = (Arc::clone(&plan), Arc::clone(&pipeline.queue));
            let thread = std::thread::Builder::new()
                .name(format!("synod-data-{id}"))
                .spawn(move || plan.work(&queue, id))
                .map_err(|e| Error::Setting(format!("cannot start worker {id} of the pipeline: {e}")))?;
            pipeline.threads.push(thread);
        }
        Ok(pipeline)
    }

    /// The next batch in order; none at the end of each epoch, and for ever after the last.
    ///
    /// An error takes the place of its batch; the batches behind it still come, unless a stream broke off.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        if self.finished {
            return Ok(None);
        }
        let (item, event) = self.queue.take();
        if let Some(event) = event {
            (self.events)(&event);
        }
        match item {
            Item::Batch { buffer, epoch, index } => {
                (self.position.epoch, self.position.batch) = (epoch, index + 1);
                Ok(Some(Batch {
                    buffer,
                    epoch,
                    index,
                    home: Arc::clone(&self.queue),
                }))
            }
            Item::EndOfEpoch { next } => {
                (self.position.epoch, self.position.batch) = (next, 0);
                Ok(None)
            }
            Item::Failed { error, epoch, index } => {
                (self.position.epoch, self.position.batch) = (epoch, index);
                Err(error)
            }
            Item::Finished => {
                self.finished = true;
                Ok(None)
            }
        }
    }

    /// Where the run stands. After an error it is the failed batch, so that resuming tries it again.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Workers and depth at present.
    pub fn effort(&self) -> (usize, usize) {
        let effort = self.queue.effort();
        (effort.workers, effort.depth)
    }

    /// Buffers made since the start; in steady state the number stays.
    pub fn buffers_made(&self) -> usize {
        self.queue.buffers_made()
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.queue.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Plan {
    fn work(&self, queue: &Queue, id: usize) {
        while queue.admit(id) {
            let (place, item) = match &self.source {
                Source::Rows(data) => {
                    let Some(place) = queue.claim() else {
                        return;
                    };
                    (place, self.rows(queue, &**data, place))
                }
                Source::Stream(open, progress) => {
                    // Places are claimed while the stream is held, so that they follow its order.
                    let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
                    let Some(place) = queue.claim() else {
                        return;
                    };
                    let item = self.read(queue, &**open, &mut progress);
                    drop(progress);
                    (place, self.mapped(item))
                }
            };
            let over = matches!(item, Item::Finished);
            queue.put(place, item);
            if over {
                return;
            }
        }
    }

    /// Rows of an epoch that are this shard's.
    pub(super) fn shard_rows(&self, rows: u64) -> u64 {
        let (shard, shards) = self.shard;
        rows.saturating_sub(shard).div_ceil(shards)
    }

    fn batches(&self, rows: u64) -> u64 {
        let (rows, batch) = (self.shard_rows(rows), self.batch as u64);
        if self.drop_last {
            rows / batch
        } else {
            rows.div_ceil(batch)
        }
    }

    /// What belongs at a place of the output: its batches follow each other, with an end after each epoch.
    fn rows(&self, queue: &Queue, data: &dyn Dataset, place: u64) -> Item {
        let per_epoch = self.batches(data.rows());
        let step = self.start.batch.min(per_epoch).saturating_add(place);
        let epoch = self.start.epoch.saturating_add(step / (per_epoch + 1));
        let index = step % (per_epoch + 1);
        if epoch >= self.epochs {
            return Item::Finished;
        }
        if index == per_epoch {
            return Item::EndOfEpoch { next: epoch + 1 };
        }
        let mut buffer = queue.buffer();
        match guard("source", epoch, index, || {
            self.gather(data, epoch, index, &mut buffer)
        }) {
            Ok(()) => self.mapped(Item::Batch { buffer, epoch, index }),
            Err(error) => Item::Failed { error, epoch, index },
        }
    }

    fn gather(&self, data: &dyn Dataset, epoch: u64, index: u64, buffer: &mut Buffer) -> Result<()> {
        let (all, (shard, shards)) = (data.rows(), self.shard);
        let order = match self.shuffle {
            true => Order::shuffled(all, self.seed, epoch),
            false => Order::sequential(all),
        };
        let first = index * self.batch as u64;
        let last = (first + self.batch as u64).min(self.shard_rows(all));
        buffer.rows.clear();
        buffer
            .rows
            .extend((first..last).map(|k| order.at(k * shards + shard)));
        buffer.columns = data.columns();
        // A buffer that begins with a short batch must not grow again at its first full one.
        let full = (self.batch as u64).min(self.shard_rows(all)) as usize;
        buffer
            .values
            .reserve((full * buffer.columns).saturating_sub(buffer.values.len()));
        buffer.labels.reserve(full.saturating_sub(buffer.labels.len()));
        buffer.rows.reserve(full.saturating_sub(buffer.rows.len()));
        // Every value is overwritten, so what the buffer held before need not be cleared.
        buffer.values.resize(buffer.rows.len() * buffer.columns, 0.0);
        buffer.labels.resize(buffer.rows.len(), f32::NAN);
        let to = buffer.values.chunks_exact_mut(buffer.columns.max(1));
        for ((to, label), &row) in to.zip(&mut buffer.labels).zip(&buffer.rows) {
            data.copy_row(row, to)?;
            *label = data.label(row)?.unwrap_or(f32::NAN);
        }
        Ok(())
    }

    /// The next batch of a stream, not yet mapped.
    fn read(&self, queue: &Queue, open: &Open, progress: &mut Progress) -> Item {
        if progress.over || progress.epoch >= self.epochs {
            return Item::Finished;
        }
        let (epoch, index) = (progress.epoch, progress.index + progress.skip);
        let mut buffer = queue.buffer();
        let read = guard("source", epoch, index, || {
            self.advance(open, progress, &mut buffer)
        });
        match read {
            Err(error) => {
                progress.over = true;
                Item::Failed { error, epoch, index }
            }
            Ok(()) if buffer.rows.is_empty() || (self.drop_last && buffer.rows.len() < self.batch) => {
                queue.give_back(buffer);
                progress.cursor = None;
                progress.epoch += 1;
                progress.index = 0;
                progress.skip = 0;
                Item::EndOfEpoch { next: epoch + 1 }
            }
            Ok(()) => {
                progress.index += 1;
                Item::Batch { buffer, epoch, index }
            }
        }
    }

    fn advance(&self, open: &Open, progress: &mut Progress, buffer: &mut Buffer) -> Result<()> {
        let window = if self.shuffle { self.window } else { 1 };
        let cursor = match &mut progress.cursor {
            Some(cursor) => cursor,
            none => {
                let cursor = none.insert(Cursor::open(open, window, self.seed, progress.epoch)?);
                // A stream has no way to the middle but through its start.
                for _ in 0..progress.skip {
                    clear(buffer);
                    cursor.fill(self.batch, self.shard, buffer)?;
                }
                progress.index += progress.skip;
                progress.skip = 0;
                cursor
            }
        };
        clear(buffer);
        buffer.columns = cursor.columns();
        cursor.fill(self.batch, self.shard, buffer)
    }

    fn mapped(&self, item: Item) -> Item {
        let Item::Batch {
            mut buffer,
            epoch,
            index,
        } = item
        else {
            return item;
        };
        match guard("map stage", epoch, index, || self.map(epoch, &mut buffer)) {
            Ok(()) => Item::Batch { buffer, epoch, index },
            Err(error) => Item::Failed { error, epoch, index },
        }
    }

    fn map(&self, epoch: u64, buffer: &mut Buffer) -> Result<()> {
        if self.maps.is_empty() {
            return Ok(());
        }
        let Buffer {
            values,
            labels,
            rows,
            scratch,
            columns,
        } = buffer;
        for ((values, label), &index) in values.chunks_exact_mut((*columns).max(1)).zip(labels).zip(&*rows) {
            let mut row = Row {
                values,
                label,
                index,
                epoch,
                seed: self.seed,
                scratch,
            };
            for map in &self.maps {
                map(&mut row).map_err(|message| Error::Map { row: index, message })?;
            }
        }
        Ok(())
    }
}

fn clear(buffer: &mut Buffer) {
    buffer.values.clear();
    buffer.labels.clear();
    buffer.rows.clear();
}

/// Runs a stage on a batch and makes an error of a panic.
fn guard(stage: &'static str, epoch: u64, batch: u64, f: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        Err(Error::Panicked {
            stage,
            epoch,
            batch,
            message: panic_message(&*panic),
        })
    })
}
