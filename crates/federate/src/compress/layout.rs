//! Where the tensors of an update lie.

use std::ops::Range;

use super::SharedScale;
use crate::{Error, Result};

/// The tensors of a flat update, one after another. Client and server both know it; it does not travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateLayout {
    ends: Vec<usize>,
}

impl UpdateLayout {
    /// Tensors by their ranges, in order and without gaps, beginning at 0.
    pub fn new(tensors: &[Range<usize>]) -> Result<UpdateLayout> {
        let mut ends = Vec::with_capacity(tensors.len());
        let mut begin = 0;
        for range in tensors {
            if range.start != begin || range.end < begin {
                return Err(Error::Setting(format!(
                    "the tensors of an update lie one after another: one must begin at {begin}, not span {range:?}"
                )));
            }
            begin = range.end;
            ends.push(begin);
        }
        if u32::try_from(begin).is_err() {
            return Err(Error::Setting(format!(
                "an update of {begin} values is too long: at most {} fit in a message",
                u32::MAX
            )));
        }
        Ok(UpdateLayout { ends })
    }

    /// One tensor of so many values.
    pub fn single(len: u32) -> UpdateLayout {
        UpdateLayout {
            ends: vec![len as usize],
        }
    }

    /// Values of all tensors.
    pub fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The range of each tensor.
    pub fn tensors(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| start..end)
    }

    /// The ranges that share a scale; none is empty and none crosses from one tensor to another.
    pub(super) fn blocks(&self, scale: SharedScale) -> impl Iterator<Item = Range<usize>> {
        self.tensors().flat_map(move |tensor| {
            let block = match scale {
                SharedScale::Block(block) => block as usize,
                SharedScale::Tensor => tensor.len().max(1),
            };
            let end = tensor.end;
            tensor
                .step_by(block)
                .map(move |start| start..(start + block).min(end))
        })
    }
}
