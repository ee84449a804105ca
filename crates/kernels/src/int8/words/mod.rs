//! Bytes as words of 16 bits, multiplied in pairs.

use std::ops::Range;

mod filter;
mod sweep;
mod tile;

pub(super) use filter::Layout;
pub(super) use sweep::Plan;

/// Channels handled together, padded to whole pairs.
fn pairs(channels: &Range<usize>) -> usize {
    channels.len().div_ceil(2)
}
