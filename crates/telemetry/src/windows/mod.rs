//! From irregular samples to aligned windows, in one pass.
//!
//! [`Windows`] holds the open windows of one node and gives each, once closed, to a function; [`Nodes`] does so for many
//! nodes and keeps the closed ones, in memory or in a scratch file, as frames.

mod nodes;
mod spill;
mod stats;
mod stream;

pub use nodes::{KeptStatistics, Nodes};
pub use stats::Stats;
pub use stream::{Counts, MetricId, WindowRow, WindowSettings, Windows};
