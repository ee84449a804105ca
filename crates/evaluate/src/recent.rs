//! Histories cut short, to see how much training data it takes.

use synod_core::Frame;
use synod_detect::{History, Keep, Result};

/// Another history with less to learn from.
pub struct Recent<'a> {
    /// The whole.
    pub history: &'a dyn History,
    /// How much of it.
    pub keep: Keep,
}

impl History for Recent<'_> {
    fn nodes(&self) -> usize {
        self.history.nodes()
    }

    fn node(&self, index: usize) -> Result<(Frame, Frame, Vec<String>)> {
        let (train, test, notes) = self.history.node(index)?;
        Ok((self.keep.of(&train), test, notes))
    }
}
