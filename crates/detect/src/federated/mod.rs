//! Nodes that learn together and keep their windows to themselves: what leaves a node is sums.
//!
//! In four rounds nodes tell where their metrics lie, how these vary together, and what their scores are. Each node's
//! detector is then its own, leaning on the others where its own history is short of evidence; see [`Fleet`]. Beside it a
//! node keeps the detector it learnt alone, and listens to that until the other has proven better; see [`Choice`]. Networks
//! are trained by averaging instead, see [`Averaging`].

mod alike;
mod compare;
mod fleet;
mod network;
mod recent;
mod sums;
mod trust;

pub use compare::{Choice, Compared, ROUNDS, compare, newcomers};
pub use fleet::Fleet;
pub use network::Averaging;
pub use recent::{Keep, Recent};
pub use sums::{Shape, Shapes, SpreadSums};
pub(crate) use trust::{EARNED, FEWEST};
