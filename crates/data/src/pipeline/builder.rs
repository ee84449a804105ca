//! Settings of a pipeline.

use std::{ops::RangeInclusive, sync::Mutex};

use super::{
    batch::Row,
    queue::Queue,
    random,
    run::{Map, Pipeline, Plan, Position, Progress, Source},
    tune::{Limits, TuningEvent},
};
use crate::error::{Error, Result};

/// Settings of a pipeline that is to be started.
pub struct PipelineBuilder {
    source: Source,
    batch: usize,
    seed: u64,
    shuffle: bool,
    window: usize,
    shard: (u64, u64),
    drop_last: bool,
    epochs: u64,
    maps: Vec<Box<Map>>,
    workers: RangeInclusive<usize>,
    depth: RangeInclusive<usize>,
    events: Box<dyn FnMut(&TuningEvent) + Send>,
}

impl PipelineBuilder {
    pub(super) fn new(source: Source) -> PipelineBuilder {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        PipelineBuilder {
            source,
            batch: 128,
            seed: 0,
            shuffle: true,
            window: 4096,
            shard: (0, 1),
            drop_last: false,
            epochs: u64::MAX,
            maps: Vec::new(),
            workers: 1..=processors,
            depth: 2..=16,
            events: Box::new(|_| {}),
        }
    }

    /// Rows per batch; 128 unless set.
    pub fn batch(mut self, rows: usize) -> PipelineBuilder {
        self.batch = rows;
        self
    }

    /// What the order, and mappings that use it, depend on; 0 unless set.
    pub fn seed(mut self, seed: u64) -> PipelineBuilder {
        self.seed = seed;
        self
    }

    /// Rows in the order of the source.
    pub fn sequential(mut self) -> PipelineBuilder {
        self.shuffle = false;
        self
    }

    /// Rows that a stream is shuffled among; 4096 unless set. Sources with random access are shuffled as a whole.
    pub fn window(mut self, rows: usize) -> PipelineBuilder {
        self.window = rows;
        self
    }

    /// Takes every `shards`-th row of the shuffled order, from number `shard` on. The shards of an epoch share no row and
    /// together have all; their sizes differ by at most one row.
    pub fn shard(mut self, shard: u64, shards: u64) -> PipelineBuilder {
        self.shard = (shard, shards);
        self
    }

    /// Leaves out the last batch of an epoch if it is short.
    pub fn drop_last(mut self) -> PipelineBuilder {
        self.drop_last = true;
        self
    }

    /// Ends after this many epochs, counted from the very start; without it the pipeline goes on for ever.
    pub fn epochs(mut self, epochs: u64) -> PipelineBuilder {
        self.epochs = epochs;
        self
    }

    /// Applies a function to every row, after those given before. An error or a panic comes out in place of the batch.
    pub fn map(
        mut self,
        map: impl Fn(&mut Row<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> PipelineBuilder {
        self.maps.push(Box::new(map));
        self
    }

    /// Between which numbers of threads the pipeline may choose while it runs; 1 to all processors unless set.
    pub fn workers(mut self, workers: RangeInclusive<usize>) -> PipelineBuilder {
        self.workers = workers;
        self
    }

    /// Between which numbers of batches to prepare ahead the pipeline may choose while it runs; 2 to 16 unless set.
    pub fn depth(mut self, depth: RangeInclusive<usize>) -> PipelineBuilder {
        self.depth = depth;
        self
    }

    /// Calls a function, on the consumer's thread, with every decision the pipeline takes.
    pub fn events(mut self, events: impl FnMut(&TuningEvent) + Send + 'static) -> PipelineBuilder {
        self.events = Box::new(events);
        self
    }

    /// Starts at the first batch of the first epoch.
    pub fn start(self) -> Result<Pipeline> {
        let plan = self.fingerprint();
        self.resume(Position {
            epoch: 0,
            batch: 0,
            plan,
        })
    }

    /// Starts at a position of an earlier pipeline with the same settings, and delivers what was left.
    pub fn resume(self, position: Position) -> Result<Pipeline> {
        self.check()?;
        if position.plan != self.fingerprint() {
            return Err(Error::Setting(
                "the position belongs to a pipeline with another source, seed, batch size, shuffle or shard; \
                 start that one again, or begin anew"
                    .to_owned(),
            ));
        }
        let limits = Limits {
            workers: self.workers.clone(),
            depth: self.depth,
        };
        let source = match self.source {
            Source::Stream(open, _) => Source::Stream(open, Box::new(Mutex::new(Progress::from(position)))),
            rows => rows,
        };
        let plan = Plan {
            source,
            batch: self.batch,
            seed: self.seed,
            shuffle: self.shuffle,
            window: self.window,
            shard: self.shard,
            drop_last: self.drop_last,
            epochs: self.epochs,
            maps: self.maps,
            start: position,
        };
        Pipeline::launch(plan, Queue::new(limits), *self.workers.end(), self.events)
    }

    fn check(&self) -> Result<()> {
        let (shard, shards) = self.shard;
        let problem = if self.batch == 0 || self.window == 0 {
            "a batch and a shuffle window need at least one row".to_owned()
        } else if shard >= shards {
            format!("there is no shard {shard} among {shards}; shards are counted from 0")
        } else if *self.workers.start() == 0 || self.workers.is_empty() {
            format!(
                "{:?} is no range of numbers of workers; it begins at 1 or more",
                self.workers
            )
        } else if *self.depth.start() == 0 || self.depth.is_empty() {
            format!("{:?} is no range of depths; it begins at 1 or more", self.depth)
        } else if matches!(&self.source, Source::Rows(data) if data.rows() <= shard) {
            "the shard has no rows; use fewer shards or more data".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Setting(problem))
    }

    /// A number that differs, but for accidents, between settings whose batches differ.
    fn fingerprint(&self) -> u64 {
        let (rows, columns) = match &self.source {
            Source::Rows(data) => (data.rows(), data.columns() as u64),
            Source::Stream(..) => (u64::MAX, self.window as u64),
        };
        let (shard, shards) = self.shard;
        let flags = u64::from(self.shuffle) | u64::from(self.drop_last) << 1;
        let parts = [self.seed, self.batch as u64, shard, shards, flags, rows, columns];
        parts
            .into_iter()
            .fold(0x5379_6e6f_6400, |sum, part| random(sum, part, 1, 0))
    }
}
