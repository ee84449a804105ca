//! Times and durations as people and programs write them.

mod duration;
mod timestamp;
mod written;

pub use duration::Duration;
pub use timestamp::{Calendar, Timestamp};
pub use written::milliseconds;
