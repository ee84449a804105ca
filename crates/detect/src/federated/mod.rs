//! Nodes that learn together and keep their windows to themselves: what leaves a node is sums.
//!
//! In four rounds nodes tell where their metrics lie, how these vary together, and what their scores are. Each node's
//! detector is then its own, leaning on the others where its own history is short of evidence; see [`Fleet`]. Networks
//! are trained by averaging instead, see [`Averaging`].

mod alike;
mod fleet;
mod gather;
mod network;
mod recent;
mod sums;

pub use fleet::Fleet;
pub use gather::{Choice, Newcomers, ROUNDS, Together};
pub use network::{Averaged, Averaging};
pub use recent::Recent;
pub use sums::{Shape, Shapes, SpreadSums};
