//! Count, mean, spread and range of columns.

use serde::{Deserialize, Serialize};

use super::double::Double;
use super::exact::Exact;
use crate::{Error, Result};

/// More rows than anyone has: below it no sum can overflow.
const MOST: u64 = 1 << 62;

/// What is needed of some rows to scale their columns: counts, sums, sums of squares and ranges. NaN is missing.
///
/// Sums are held without rounding, so merging is exact: however rows are divided among clients and in whatever order those are
/// merged, the bits are those of all rows together.
///
/// ```
/// use synod_sums::ColumnMoments;
///
/// let mut all = ColumnMoments::of(2, &[1.0, f32::NAN, 3.0, 5.0])?;
/// all.merge(&ColumnMoments::of(2, &[8.0, 7.0])?)?;
/// assert_eq!(all.mean(0), Some(4.0));
/// assert_eq!((all.count(1), all.mean(1)), (2, Some(6.0)));
/// assert_eq!(all.centred_squares(0), Some(26.0));
/// # Ok::<(), synod_sums::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Column>", into = "Vec<Column>")]
pub struct ColumnMoments(Vec<Column>);

/// The sums of one column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Column {
    count: u64,
    sum: Exact,
    squares: Exact,
    range: Option<(f32, f32)>,
}

impl Column {
    fn add(&mut self, value: f32) {
        let wide = f64::from(value);
        self.count += 1;
        self.sum.add(wide);
        self.squares.add(wide * wide);
        self.widen(value, value);
    }

    fn widen(&mut self, least: f32, most: f32) {
        // Zero has two signs; which of them is the least must not depend on who comes first.
        let (least, most) = (least + 0.0, most + 0.0);
        self.range = Some(match self.range {
            None => (least, most),
            Some((a, b)) => (a.min(least), b.max(most)),
        });
    }

    /// Whether such sums can come from so many values at all.
    fn check(&self) -> bool {
        let Some((least, most)) = self.range else {
            return *self == Column::default();
        };
        let (least, most, count) = (f64::from(least), f64::from(most), self.count as f64);
        let (sum, squares) = (self.sum.to_f64(), self.squares.to_f64());
        let largest = least.abs().max(most.abs());
        let slack = 1.0 + 1e-12;
        least <= most
            && largest <= f64::from(f32::MAX)
            && (1..MOST).contains(&self.count)
            && sum.abs() <= count * largest * slack
            && squares >= 0.0
            && squares <= count * largest * largest * slack
    }
}

impl ColumnMoments {
    /// Of no rows, of so many columns.
    pub fn new(columns: usize) -> ColumnMoments {
        ColumnMoments(vec![Column::default(); columns])
    }

    /// Of rows, one after another.
    pub fn of(columns: usize, rows: &[f32]) -> Result<ColumnMoments> {
        let mut moments = ColumnMoments::new(columns);
        moments.add(rows)?;
        Ok(moments)
    }

    /// Adds rows, one after another; if one holds an infinite value, none.
    pub fn add(&mut self, rows: &[f32]) -> Result<()> {
        check_rows(self.columns(), rows)?;
        for row in rows.chunks_exact(self.columns().max(1)) {
            for (column, &value) in self.0.iter_mut().zip(row) {
                if !value.is_nan() {
                    column.add(value);
                }
            }
        }
        Ok(())
    }

    /// Adds the rows that `other` is of.
    pub fn merge(&mut self, other: &ColumnMoments) -> Result<()> {
        check_columns(self.columns(), other.columns())?;
        if self
            .0
            .iter()
            .zip(&other.0)
            .any(|(a, b)| a.count + b.count >= MOST)
        {
            return Err(Error::Malformed(format!(
                "moments of more than {MOST} rows cannot be"
            )));
        }
        for (column, other) in self.0.iter_mut().zip(&other.0) {
            column.count += other.count;
            column.sum.merge(&other.sum);
            column.squares.merge(&other.squares);
            if let Some((least, most)) = other.range {
                column.widen(least, most);
            }
        }
        Ok(())
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.0.len()
    }

    /// How many values of a column are there.
    pub fn count(&self, column: usize) -> u64 {
        self.0.get(column).map_or(0, |c| c.count)
    }

    /// The mean of a column, if it has a value.
    pub fn mean(&self, column: usize) -> Option<f64> {
        let column = self.0.get(column).filter(|c| c.count > 0)?;
        Some(column.sum.to_double().over(column.count as f64).to_f64())
    }

    /// The sum of squares of what differs from the mean, if the column has a value.
    pub fn centred_squares(&self, column: usize) -> Option<f64> {
        let column = self.0.get(column).filter(|c| c.count > 0)?;
        let sum = column.sum.to_double();
        let centred = centred(column.squares.to_double(), sum, sum, column.count);
        Some(centred.max(0.0))
    }

    /// The mean of those squares: they are divided by the count, not by one less.
    pub fn variance(&self, column: usize) -> Option<f64> {
        Some(self.centred_squares(column)? / self.count(column) as f64)
    }

    /// The least value of a column, if it has one.
    pub fn min(&self, column: usize) -> Option<f32> {
        Some(self.0.get(column)?.range?.0)
    }

    /// The largest value of a column, if it has one.
    pub fn max(&self, column: usize) -> Option<f32> {
        Some(self.0.get(column)?.range?.1)
    }

    pub(super) fn sum(&self, column: usize) -> Exact {
        self.0[column].sum
    }
}

impl TryFrom<Vec<Column>> for ColumnMoments {
    type Error = Error;

    fn try_from(columns: Vec<Column>) -> Result<ColumnMoments> {
        match columns.iter().position(|column| !column.check()) {
            None => Ok(ColumnMoments(columns)),
            Some(column) => Err(Error::Malformed(format!(
                "the moments of column {column} cannot be those of any values"
            ))),
        }
    }
}

impl From<ColumnMoments> for Vec<Column> {
    fn from(moments: ColumnMoments) -> Vec<Column> {
        moments.0
    }
}

/// A sum of products less the product of the sums over the count.
pub(super) fn centred(products: Double, one: Double, other: Double, count: u64) -> f64 {
    (products - (one * other).over(count as f64)).to_f64()
}

pub(super) fn check_rows(columns: usize, rows: &[f32]) -> Result<()> {
    if !rows.len().is_multiple_of(columns.max(1)) || (columns == 0 && !rows.is_empty()) {
        return Err(Error::Data(format!(
            "{} values are not whole rows of {columns} columns",
            rows.len()
        )));
    }
    match rows.iter().position(|value| value.is_infinite()) {
        None => Ok(()),
        Some(place) => Err(Error::Data(format!(
            "row {}, column {} is infinite: mark it as missing (NaN) or leave the row out",
            place / columns,
            place % columns
        ))),
    }
}

pub(super) fn check_columns(own: usize, other: usize) -> Result<()> {
    match own == other {
        true => Ok(()),
        false => Err(Error::Data(format!(
            "sums over {other} columns cannot be added to sums over {own}: align the columns first"
        ))),
    }
}
