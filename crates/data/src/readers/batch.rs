//! Rows on their way from a file.

/// Rows of `f32`, one after the other, with their times and labels if the reader was asked for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Values per row.
    pub columns: usize,
    /// All values, row by row; missing ones are NaN.
    pub values: Vec<f32>,
    /// One time per row, or empty.
    pub times: Vec<i64>,
    /// One label per row, or empty.
    pub labels: Vec<f32>,
    rows: usize,
}

impl Batch {
    /// An empty batch; readers give it its width.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Row `i`, if there is one.
    pub fn row(&self, i: usize) -> Option<&[f32]> {
        if i >= self.rows {
            return None;
        }
        self.values.get(i * self.columns..(i + 1) * self.columns)
    }

    /// One column, from the first row to the last; empty if there is no such column.
    pub fn column(&self, c: usize) -> impl Iterator<Item = f32> + '_ {
        let step = self.columns.max(1);
        let start = if c < self.columns { c } else { self.values.len() };
        self.values
            .get(start..)
            .unwrap_or_default()
            .iter()
            .step_by(step)
            .copied()
    }

    /// Makes the batch empty and `columns` wide, and keeps its memory.
    pub(super) fn reset(&mut self, columns: usize) {
        self.columns = columns;
        self.rows = 0;
        self.values.clear();
        self.times.clear();
        self.labels.clear();
    }

    pub(super) fn set_rows(&mut self, rows: usize) {
        self.rows = rows;
    }
}
