//! The same scaling on every client.

use serde::{Deserialize, Serialize};

use super::columns::check_rows;
use super::{ColumnMoments, Histograms};
use crate::Result;

/// A centre and a scale for each column: a value becomes its distance to the centre over the scale. NaN stays missing.
///
/// ```
/// use synod_sums::{ColumnMoments, ColumnScaling};
///
/// let mut rows = [0.0, 5.0, 4.0, 5.0];
/// ColumnScaling::standard(&ColumnMoments::of(2, &rows)?).apply(&mut rows)?;
/// assert_eq!(rows, [-1.0, 0.0, 1.0, 0.0]);
/// # Ok::<(), synod_sums::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnScaling(Vec<Column>);

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Column {
    centre: f64,
    scale: f64,
}

impl Column {
    /// A column that never changes, or has no values, is only moved.
    fn new(centre: Option<f64>, scale: Option<f64>) -> Column {
        Column {
            centre: centre.unwrap_or(0.0),
            scale: scale.filter(|&scale| scale > 0.0).unwrap_or(1.0),
        }
    }
}

impl ColumnScaling {
    /// To mean 0 and variance 1.
    pub fn standard(moments: &ColumnMoments) -> ColumnScaling {
        let column = |c| Column::new(moments.mean(c), moments.variance(c).map(f64::sqrt));
        ColumnScaling((0..moments.columns()).map(column).collect())
    }

    /// To the range from 0 to 1.
    pub fn min_max(moments: &ColumnMoments) -> ColumnScaling {
        let column = |c| {
            let (least, most) = (moments.min(c).map(f64::from), moments.max(c).map(f64::from));
            Column::new(least, most.zip(least).map(|(most, least)| most - least))
        };
        ColumnScaling((0..moments.columns()).map(column).collect())
    }

    /// To median 0 and an interquartile range of 1, as closely as the bins tell: refine them for 0.25, 0.5 and 0.75 first. A
    /// column whose quartiles lie in one bin is only moved, as is one that never changes.
    pub fn robust(histograms: &Histograms) -> ColumnScaling {
        let column = |c| Column::new(histograms.quantile(c, 0.5), histograms.between(c, 0.25, 0.75));
        ColumnScaling((0..histograms.columns()).map(column).collect())
    }

    /// The centre and the scale of each column.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (f64, f64)> {
        self.0.iter().map(|column| (column.centre, column.scale))
    }

    /// Scales rows, one after another.
    pub fn apply(&self, rows: &mut [f32]) -> Result<()> {
        self.each(rows, |value, column| (value - column.centre) / column.scale)
    }

    /// Takes scaled rows back to what they were.
    pub fn undo(&self, rows: &mut [f32]) -> Result<()> {
        self.each(rows, |value, column| value * column.scale + column.centre)
    }

    fn each(&self, rows: &mut [f32], change: impl Fn(f64, &Column) -> f64) -> Result<()> {
        check_rows(self.0.len(), rows)?;
        for row in rows.chunks_exact_mut(self.0.len().max(1)) {
            for (value, column) in row.iter_mut().zip(&self.0) {
                *value = change(f64::from(*value), column) as f32;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Edges;
    use super::*;

    #[test]
    fn a_column_that_mostly_stands_still_is_not_blown_up() {
        let mut rows = vec![0.0f32; 90];
        rows.extend([7.0; 10]);
        let mut edges = Edges::even(&ColumnMoments::of(1, &rows).expect("sums"), 8).expect("edges");
        for _pass in 0..4 {
            let mut counted = Histograms::new(edges.clone());
            counted.add(&rows).expect("counted");
            let scale = ColumnScaling::robust(&counted).columns().next();
            assert_eq!(scale.map(|(_, scale)| scale), Some(1.0));
            edges = counted.refine(&[0.25, 0.5, 0.75], 8, 0.0).expect("finer");
        }
    }
}
