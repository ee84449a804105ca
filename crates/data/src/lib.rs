//! Data.
#![forbid(unsafe_code)]

mod error;
pub mod readers;
pub mod record;

pub use error::{Error, Position, Result};
