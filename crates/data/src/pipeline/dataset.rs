//! Rows that can be reached in any order.

use crate::{
    error::{Error, Result},
    record,
};

/// A table of rows of `f32` with random access, shared by all workers.
pub trait Dataset: Send + Sync {
    /// Number of rows.
    fn rows(&self) -> u64;

    /// Values per row.
    fn columns(&self) -> usize;

    /// Copies a row's values; `to` is as long as a row.
    fn copy_row(&self, row: u64, to: &mut [f32]) -> Result<()>;

    /// A row's label, if it has one.
    fn label(&self, row: u64) -> Result<Option<f32>>;
}

impl Dataset for record::Reader {
    fn rows(&self) -> u64 {
        record::Reader::rows(self) as u64
    }

    fn columns(&self) -> usize {
        record::Reader::columns(self)
    }

    #[inline]
    fn copy_row(&self, row: u64, to: &mut [f32]) -> Result<()> {
        to.copy_from_slice(self.row(row as usize)?);
        Ok(())
    }

    fn label(&self, row: u64) -> Result<Option<f32>> {
        if self.schema().label == record::LabelKind::None {
            return Ok(None);
        }
        let label = record::Reader::label(self, row as usize)?;
        Ok(label.map(|label| label.value() as f32))
    }
}

/// Rows in memory.
pub struct Arrays {
    values: Vec<f32>,
    columns: usize,
    labels: Option<Vec<f32>>,
}

impl Arrays {
    /// Rows of `columns` values each, one after the other.
    pub fn new(values: Vec<f32>, columns: usize) -> Result<Arrays> {
        if columns == 0 || !values.len().is_multiple_of(columns) {
            return Err(Error::Setting(format!(
                "{} values do not make rows of {columns}",
                values.len()
            )));
        }
        Ok(Arrays {
            values,
            columns,
            labels: None,
        })
    }

    /// The same with one label per row.
    pub fn with_labels(mut self, labels: Vec<f32>) -> Result<Arrays> {
        let rows = self.values.len() / self.columns;
        if labels.len() != rows {
            return Err(Error::Setting(format!("{} labels for {rows} rows", labels.len())));
        }
        self.labels = Some(labels);
        Ok(self)
    }
}

impl Dataset for Arrays {
    fn rows(&self) -> u64 {
        (self.values.len() / self.columns) as u64
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn copy_row(&self, row: u64, to: &mut [f32]) -> Result<()> {
        let start = row as usize * self.columns;
        let from = self.values.get(start..start + self.columns);
        to.copy_from_slice(from.ok_or_else(|| Error::Setting(format!("there is no row {row}")))?);
        Ok(())
    }

    fn label(&self, row: u64) -> Result<Option<f32>> {
        Ok(self
            .labels
            .as_ref()
            .and_then(|labels| labels.get(row as usize))
            .copied())
    }
}
