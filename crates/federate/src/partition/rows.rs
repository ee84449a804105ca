//! What is known about rows before they are divided.

use crate::{Error, Result};

/// Rows by number, with the label or the group of each if there is one.
#[derive(Clone, Copy, Debug)]
pub struct RowsToDivide<'a> {
    count: usize,
    labels: Option<&'a [u32]>,
    groups: Option<&'a [u32]>,
}

impl<'a> RowsToDivide<'a> {
    /// So many rows, of which nothing is known.
    pub fn plain(count: usize) -> RowsToDivide<'a> {
        RowsToDivide {
            count,
            labels: None,
            groups: None,
        }
    }

    /// Rows with a label each.
    pub fn labelled(labels: &'a [u32]) -> RowsToDivide<'a> {
        RowsToDivide {
            labels: Some(labels),
            ..RowsToDivide::plain(labels.len())
        }
    }

    /// Rows with a group each, such as the node or the writer they come from.
    pub fn grouped(groups: &'a [u32]) -> RowsToDivide<'a> {
        RowsToDivide {
            groups: Some(groups),
            ..RowsToDivide::plain(groups.len())
        }
    }

    /// The same rows with a group each.
    pub fn with_groups(self, groups: &'a [u32]) -> RowsToDivide<'a> {
        RowsToDivide {
            groups: Some(groups),
            ..self
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn check(&self) -> Result<()> {
        if u32::try_from(self.count).is_err() {
            return Err(Error::Data(format!(
                "{} rows cannot be divided: at most {} can",
                self.count,
                u32::MAX
            )));
        }
        if self.groups.is_some_and(|groups| groups.len() != self.count) {
            return Err(Error::Data(format!(
                "there are {} rows and not as many groups",
                self.count
            )));
        }
        Ok(())
    }

    pub(super) fn groups(&self) -> Result<&'a [u32]> {
        self.groups.ok_or_else(|| {
            Error::Data("rows have no groups to divide them by: choose another partition than natural".into())
        })
    }

    /// Row numbers by label, labels and rows ascending.
    pub(super) fn by_label(&self) -> Result<Vec<Vec<u32>>> {
        let labels = self.labels.ok_or_else(|| {
            Error::Data(
                "rows have no labels to divide them by: choose a partition without labels, such as iid"
                    .into(),
            )
        })?;
        Ok(by(labels))
    }
}

/// Row numbers by the key of each row, keys and rows ascending.
pub(super) fn by(keys: &[u32]) -> Vec<Vec<u32>> {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by_key(|&row| keys[row as usize]);
    let same = |a: &u32, b: &u32| keys[*a as usize] == keys[*b as usize];
    order.chunk_by(same).map(<[u32]>::to_vec).collect()
}
