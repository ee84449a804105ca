//! What is unusual in telemetry, how sure we are, and which metrics say so.
#![forbid(unsafe_code)]

mod error;
pub mod evaluate;
pub mod report;

pub use error::{Error, Result};
