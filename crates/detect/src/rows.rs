//! Feature rows: what detectors see.

/// Rows of finite features, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    width: usize,
    values: Vec<f32>,
}

impl Rows {
    /// Rows of a width; an incomplete last row is dropped.
    pub fn new(width: usize, mut values: Vec<f32>) -> Rows {
        values.truncate(values.len() / width.max(1) * width.max(1));
        Rows { width, values }
    }

    /// Room for other rows in place of these.
    pub(crate) fn refill(&mut self, width: usize) -> &mut Vec<f32> {
        self.width = width;
        self.values.clear();
        &mut self.values
    }

    /// Features per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All features, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The rows from front to back.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.width.max(1))
    }

    /// The rows of a range, cut to those that exist.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Rows {
        let (from, to) = (range.start.min(self.len()), range.end.min(self.len()));
        Rows {
            width: self.width,
            values: self.values[from * self.width..to.max(from) * self.width].to_vec(),
        }
    }

    /// The rows for which `keep` holds, in order.
    pub fn filter(&self, keep: &[bool]) -> Rows {
        let kept = self.iter().zip(keep).filter(|(_, keep)| **keep);
        Rows {
            width: self.width,
            values: kept.flat_map(|(row, _)| row.iter().copied()).collect(),
        }
    }
}
