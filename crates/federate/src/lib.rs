//! Federated learning: clients' work, selection, rounds, strategies, compression, partitions, simulation.
//!
//! Everything a server or a client decides is a pure function here; simulation and network differ in who moves the bytes.
#![forbid(unsafe_code)]

mod client;
pub mod compress;
mod config;
mod error;
pub mod partition;
pub mod round;
pub mod select;
pub mod simulate;
pub mod strategy;
mod sum;

pub use client::{ClientId, Examples, Plan, Task, Trained, Worker};
pub use config::FederationChoice;
pub use error::{Error, Result};
pub use sum::ExactSum;
pub use synod_core::Random;
