//! Examples in memory.

use crate::error::{Error, Result};

/// Rows of inputs, and rows of targets or the inputs themselves.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    inputs: &'a [f32],
    width: usize,
    targets: Option<(&'a [f32], usize)>,
}

impl<'a> Data<'a> {
    /// Inputs that are their own targets, as for an autoencoder.
    pub fn itself(inputs: &'a [f32], width: usize) -> Data<'a> {
        Data {
            inputs,
            width,
            targets: None,
        }
    }

    /// Inputs of `width` and targets of `target_width` numbers a row.
    pub fn new(inputs: &'a [f32], width: usize, targets: &'a [f32], target_width: usize) -> Data<'a> {
        Data {
            inputs,
            width,
            targets: Some((targets, target_width)),
        }
    }

    /// The number of whole rows.
    pub fn rows(&self) -> usize {
        self.inputs.len() / self.width.max(1)
    }

    /// The inputs.
    pub fn inputs(&self) -> &'a [f32] {
        self.inputs
    }

    /// True if the inputs are the targets.
    pub(crate) fn is_itself(&self) -> bool {
        self.targets.is_none()
    }

    /// The same inputs with other targets of the same width.
    pub fn with_targets(self, targets: &'a [f32]) -> Data<'a> {
        let width = self.targets.map_or(1, |(_, width)| width);
        Data {
            targets: Some((targets, width)),
            ..self
        }
    }

    /// The targets and their numbers per row; none if the inputs are the targets.
    pub fn targets(&self) -> Option<(&'a [f32], usize)> {
        self.targets
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn check(&self, width: usize, target_width: usize) -> Result<()> {
        if self.width != width {
            return Err(Error::Data(format!(
                "rows have {} numbers, the model takes {width}",
                self.width
            )));
        }
        if self.inputs.is_empty() {
            return Err(Error::Data("there are no rows".into()));
        }
        if !self.inputs.len().is_multiple_of(self.width.max(1)) {
            let n = self.inputs.len();
            return Err(Error::Data(format!(
                "{n} numbers are not whole rows of {}",
                self.width
            )));
        }
        match self.targets {
            None if target_width != width => Err(Error::Data(format!(
                "inputs of {width} numbers cannot be targets of {target_width}"
            ))),
            Some((_, w)) if w != target_width => Err(Error::Data(format!(
                "targets have {w} numbers a row, the loss takes {target_width}"
            ))),
            Some((t, w)) if t.len() != self.rows() * w => Err(Error::Data(format!(
                "{} rows of inputs, but {} numbers of targets",
                self.rows(),
                t.len()
            ))),
            _ => Ok(()),
        }
    }
}
