//! Layers, losses, optimisers, and the model that is fitted, evaluated, used and stored.
//!
//! ```
//! use synod_nn::{Data, Fit, Loss, Optimizer, zoo};
//! // An autoencoder for 8 sensors, trained to reproduce 64 rows.
//! let rows: Vec<f32> = (0..64 * 8).map(|i| (i % 7) as f32 / 7.0).collect();
//! let mut model = zoo::autoencoder(&[8, 4, 8], 1)?;
//! let fit = Fit { epochs: 3, batch: 16, ..Fit::new(Loss::Rmse, Optimizer::rmsprop(1e-3)) };
//! let history = model.fit(&Data::itself(&rows, 8), &fit, &mut [])?;
//! assert!(history.epochs[2].loss < history.epochs[0].loss);
//! # Ok::<(), synod_nn::Error>(())
//! ```
#![forbid(unsafe_code)]

mod callbacks;
mod config;
mod data;
mod error;
mod feed;
mod fit;
mod init;
pub mod layers;
mod loss;
mod measure;
mod model;
mod optimizer;
mod parameters;
pub mod quantise;
mod random;
mod terms;
mod trainer;
pub mod zoo;

pub use callbacks::{Callback, Checkpoint, EarlyStopping, EpochReport, EventLog, Flow};
pub use config::{ModelChoice, TrainingChoice, WrittenTraining};
pub use data::Data;
pub use error::{Error, Result};
pub use feed::Feed;
pub use fit::{Epoch, Fit, TrainingHistory};
pub use init::Initializer;
pub use loss::Loss;
pub use measure::{Measured, Measurer};
pub use model::Model;
pub use optimizer::{Optimizer, Schedule};
pub use parameters::{Entry, Layout, Param, Scope, Setup, StateBuffer};
pub use random::Shuffle;
pub use synod_engine::ops::Rule;
pub use terms::Terms;
pub use trainer::Trainer;
