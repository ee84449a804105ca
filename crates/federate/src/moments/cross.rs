//! Products of columns, for covariances and principal components.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Moments;
use super::columns::{centred, check_columns};
use super::double::two_sum;
use super::exact::Exact;
use crate::{Error, Result};

/// Rows whose products are added up before they go to the long sums.
const BLOCK: usize = 128;

/// Moments and the sums of products of every two columns, each over the rows where neither is missing.
///
/// Merging is exact and in any order gives the same bits. Rows of one call are added in blocks with twice the precision of
/// `f64`, so dividing them otherwise may change the last bits of 106. A pair of columns takes 64 bytes, on the wire too.
///
/// ```
/// use synod_federate::moments::CrossMoments;
///
/// let mut all = CrossMoments::of(2, &[1.0, 2.0, 3.0, 6.0])?;
/// all.merge(&CrossMoments::of(2, &[2.0, 4.0, 9.0, f32::NAN])?)?;
/// assert_eq!(all.count(0, 1), 3);
/// assert_eq!(all.covariance(0, 1), Some(4.0 / 3.0));
/// # Ok::<(), synod_federate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct CrossMoments(Parts);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Parts {
    moments: Moments,
    /// Above the diagonal, row by row.
    products: Vec<Exact>,
    /// By column, of the rows where that is missing: what has to be left out of the other columns' sums.
    missing: BTreeMap<usize, Vec<Rest>>,
}

/// Count and sum of one column over the rows where another is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Rest {
    count: u64,
    sum: Exact,
}

impl CrossMoments {
    /// Of no rows, of so many columns.
    pub fn new(columns: usize) -> CrossMoments {
        CrossMoments(Parts {
            moments: Moments::new(columns),
            products: vec![Exact::default(); pairs(columns)],
            missing: BTreeMap::new(),
        })
    }

    /// Of rows, one after another.
    pub fn of(columns: usize, rows: &[f32]) -> Result<CrossMoments> {
        let mut moments = CrossMoments::new(columns);
        moments.add(rows)?;
        Ok(moments)
    }

    /// Adds rows, one after another; many at a time is faster. If one holds an infinite value, none is added.
    pub fn add(&mut self, rows: &[f32]) -> Result<()> {
        self.0.moments.add(rows)?;
        let columns = self.columns().max(1);
        for block in rows.chunks(columns * BLOCK) {
            add_products(&mut self.0.products, columns, block);
        }
        for row in rows
            .chunks_exact(columns)
            .filter(|row| row.iter().any(|v| v.is_nan()))
        {
            self.add_missing(row);
        }
        Ok(())
    }

    fn add_missing(&mut self, row: &[f32]) {
        for (absent, _) in row.iter().enumerate().filter(|(_, value)| value.is_nan()) {
            let rests = self
                .0
                .missing
                .entry(absent)
                .or_insert_with(|| vec![Rest::default(); row.len()]);
            for (rest, &value) in rests.iter_mut().zip(row).filter(|(_, value)| !value.is_nan()) {
                rest.count += 1;
                rest.sum.add(f64::from(value));
            }
        }
    }

    /// Adds the rows that `other` is of.
    pub fn merge(&mut self, other: &CrossMoments) -> Result<()> {
        check_columns(self.columns(), other.columns())?;
        self.0.moments.merge(&other.0.moments)?;
        for (product, other) in self.0.products.iter_mut().zip(&other.0.products) {
            product.merge(other);
        }
        for (&absent, others) in &other.0.missing {
            let rests = self
                .0
                .missing
                .entry(absent)
                .or_insert_with(|| vec![Rest::default(); others.len()]);
            for (rest, other) in rests.iter_mut().zip(others) {
                rest.count += other.count;
                rest.sum.merge(&other.sum);
            }
        }
        Ok(())
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.0.moments.columns()
    }

    /// The moments of each column by itself.
    pub fn moments(&self) -> &Moments {
        &self.0.moments
    }

    /// In how many rows neither column is missing.
    pub fn count(&self, one: usize, other: usize) -> u64 {
        let count = self.0.moments.count(one);
        match self.rest(one, other) {
            Some(rest) if one != other => count - rest.count,
            _ if other < self.columns() => count,
            _ => 0,
        }
    }

    /// The covariance of two columns over the rows where neither is missing, divided by the count of those; none if there are
    /// no such rows.
    pub fn covariance(&self, one: usize, other: usize) -> Option<f64> {
        if one == other {
            return self.0.moments.variance(one);
        }
        let count = self.count(one, other);
        if count == 0 {
            return None;
        }
        let sum = |of: usize, with: usize| {
            let sum = self.0.moments.sum(of);
            self.rest(of, with)
                .map_or(sum, |rest| sum.minus(&rest.sum))
                .to_double()
        };
        let products = self.0.products[pair(one.min(other), one.max(other), self.columns())];
        let centred = centred(products.to_double(), sum(one, other), sum(other, one), count);
        Some(centred / count as f64)
    }

    /// Every covariance, row by row; NaN where two columns were never there together.
    ///
    /// With values missing, pairs are over different rows, and the matrix may have negative eigenvalues.
    pub fn covariances(&self) -> Vec<f64> {
        let columns = self.columns();
        let mut all = vec![f64::NAN; columns * columns];
        for one in 0..columns {
            for other in one..columns {
                let value = self.covariance(one, other).unwrap_or(f64::NAN);
                all[one * columns + other] = value;
                all[other * columns + one] = value;
            }
        }
        all
    }

    fn rest(&self, of: usize, absent: usize) -> Option<&Rest> {
        self.0.missing.get(&absent)?.get(of)
    }
}

fn pairs(columns: usize) -> usize {
    columns * columns.saturating_sub(1) / 2
}

/// Where the product of two columns is, the first being the lower.
fn pair(one: usize, other: usize, columns: usize) -> usize {
    one * (2 * columns - one - 1) / 2 + (other - one - 1)
}

fn add_products(products: &mut [Exact], columns: usize, rows: &[f32]) {
    let present = |&value: &f32| if value.is_nan() { 0.0 } else { f64::from(value) };
    let rows: Vec<f64> = rows.iter().map(present).collect();
    let (mut high, mut low) = (vec![0.0; columns], vec![0.0; columns]);
    let mut products = products.iter_mut();
    for one in 0..columns {
        high.fill(0.0);
        low.fill(0.0);
        for row in rows.chunks_exact(columns) {
            let value = row[one];
            let sums = high[one + 1..].iter_mut().zip(&mut low[one + 1..]);
            for ((high, low), other) in sums.zip(&row[one + 1..]) {
                // The product of two `f32` values is exact in `f64`.
                let (sum, lost) = two_sum(*high, value * other);
                *high = sum;
                *low += lost;
            }
        }
        // In this order: a zip takes from its first part before it finds the second at its end.
        let sums = high[one + 1..].iter().zip(&low[one + 1..]);
        for ((&high, &low), product) in sums.zip(products.by_ref()) {
            product.add(high);
            product.add(low);
        }
    }
}

impl TryFrom<Parts> for CrossMoments {
    type Error = Error;

    fn try_from(parts: Parts) -> Result<CrossMoments> {
        let columns = parts.moments.columns();
        let most = |column| parts.moments.count(column) as f64 * f64::from(f32::MAX).powi(2);
        let any = (0..columns).map(most).fold(0.0, f64::max);
        let fits = |absent: &usize, rests: &Vec<Rest>| {
            let possible = |(column, rest): (usize, &Rest)| {
                rest.count <= parts.moments.count(column) && rest.sum.to_f64().abs() <= most(column)
            };
            *absent < columns && rests.len() == columns && rests.iter().enumerate().all(possible)
        };
        let good = parts.products.len() == pairs(columns)
            && parts.products.iter().all(|product| product.to_f64().abs() <= any)
            && parts.missing.iter().all(|(absent, rests)| fits(absent, rests));
        if !good {
            return Err(Error::Malformed(format!(
                "moments of {columns} columns do not fit together"
            )));
        }
        Ok(CrossMoments(parts))
    }
}

impl From<CrossMoments> for Parts {
    fn from(moments: CrossMoments) -> Parts {
        moments.0
    }
}
