//! How nodes learn their detectors together and keep their windows to themselves: what leaves a node is sums.
//!
//! In four rounds nodes tell where their metrics lie, how these vary together, and what their scores are. Each node's
//! detector is then its own, leaning on the others where its own history is short of evidence; see [`Fleet`]. Networks
//! are trained by averaging instead, see [`Averaging`].
#![forbid(unsafe_code)]

mod alike;
mod config;
mod error;
mod fleet;
mod gather;
mod network;
mod scales;
mod sums;

pub use config::{Way, WaysOfLearning, WrittenWays};
pub use error::{Error, Result};
pub use fleet::Fleet;
pub use gather::{Choice, Newcomers, ROUNDS, Together};
pub use network::{Averaged, Averaging};
pub use scales::Scales;
pub use sums::{Shape, Shapes, SpreadSums};
