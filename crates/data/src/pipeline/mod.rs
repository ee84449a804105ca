//! The asynchronous input pipeline: source → shuffle → shard → map → batch → prefetch.
//!
//! Worker threads prepare whole batches ahead of the consumer: each takes the next batch's number, finds its rows, copies
//! them into a pooled buffer and maps them there. What a batch holds is a pure function of seed, epoch and number, so the
//! output is the same for any number of workers, and a run can be resumed in the middle of an epoch.
//!
//! ```
//! use std::sync::Arc;
//! use synod_data::pipeline::{Arrays, Pipeline};
//! let rows: Vec<f32> = (0..1000).map(|i| i as f32).collect();
//! let data = Arc::new(Arrays::new(rows, 10)?);
//! let mut pipeline = Pipeline::over(data).batch(32).seed(7).epochs(1).start()?;
//! let mut seen = 0;
//! while let Some(batch) = pipeline.next_batch()? {
//!     seen += batch.rows().len();
//! }
//! assert_eq!(seen, 100);
//! # Ok::<(), synod_data::Error>(())
//! ```

mod batch;
mod builder;
mod dataset;
mod order;
mod queue;
mod run;
mod stream;
mod tune;

pub use batch::{Batch, Row};
pub use builder::PipelineBuilder;
pub use dataset::{Arrays, Dataset};
pub use order::Order;
pub use run::{Pipeline, Position};
pub(crate) use synod_core::random::counted::below;
pub use synod_core::random::counted::of_epoch as random;
pub use tune::TuningEvent;
