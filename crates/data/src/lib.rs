//! Data on their way to training.
//!
//! | module | what it does |
//! |---|---|
//! | [`readers`] | streams rows from idx, npy, CSV and Parquet files |
//! | [`record`] | Synod's own file: rows read in place, zone maps, checksums, appends that survive a crash |
//! | [`pipeline`] | shuffles, shards, maps, batches and prefetches on threads, in the same order every time |
//! | [`augment`] | random changes of images and telemetry, a pure function of seed, epoch and row |
//!
//! A CSV file becomes a record file, and that feeds training:
//!
//! ```
//! use std::sync::Arc;
//! use synod_data::augment::{Augment, Series};
//! use synod_data::pipeline::Pipeline;
//! use synod_data::readers::{self, ReadOptions};
//! use synod_data::record::{Filter, Reader, Schema, Writer};
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let (csv, record) = (folder.path().join("node.csv"), folder.path().join("node.synod"));
//! let mut text = "time,power,temperature\n".to_owned();
//! text.extend((0..300).map(|i| format!("{},{},{}\n", i * 60, 200 + i % 50, 40 + i % 9)));
//! std::fs::write(&csv, text).expect("a file");
//!
//! let options = ReadOptions { time: Some("time".to_owned()), ..ReadOptions::default() };
//! let mut reader = readers::open(&csv, &options)?;
//! let mut writer = Writer::create(&record, &Schema::new(reader.names()))?;
//! readers::import(&mut *reader, &mut writer)?;
//! writer.finish()?;
//!
//! let rows = Arc::new(Reader::open(&record)?);
//! assert_eq!(rows.row(7)?, [207.0, 47.0]);
//! let hot = rows.scan(&Filter::all().time(..6000).column("temperature", 48.0..))?;
//! assert_eq!(hot.count(), 11);
//!
//! let noise = Augment::series(1, 2).with(0.5, Series::Jitter { sigma: 0.1 })?;
//! let mut pipeline = Pipeline::over(rows).batch(64).seed(1).epochs(2).map(move |row| noise.apply_to(row)).start()?;
//! for _epoch in 0..2 {
//!     while let Some(batch) = pipeline.next_batch()? {
//!         assert_eq!(batch.values().len(), batch.rows().len() * 2);
//!     }
//! }
//! # Ok::<(), synod_data::Error>(())
//! ```
//!
//! Nothing here panics on what a file holds, and every error names the file, the place and what to do.
#![forbid(unsafe_code)]

pub mod augment;
mod error;
pub mod pipeline;
pub mod readers;
pub mod record;

pub use error::{Error, Place, Result};
