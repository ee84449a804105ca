//! Telemetry of compute nodes: from whatever a site records to aligned windows with labels.
//!
//! A [`Frame`] is one node's windows in time order; everything that detects anomalies reads frames. A missing value is NaN,
//! in every crate: it cannot be mistaken for a measurement, and whoever forgets it sees NaN instead of a wrong number.
#![forbid(unsafe_code)]

mod align;
pub mod config;
mod error;
pub mod labels;
pub mod metric;
mod pattern;
pub mod sources;
pub mod windows;

pub use error::{Error, Result};
pub use pattern::{load_glob, matches, natural_order};
pub use synod_core::time::milliseconds as parse_time;
pub use synod_core::{Dropped, Frame, Truth};
