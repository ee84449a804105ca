//! Products of columns, for covariances and principal components.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ColumnMoments;
use super::columns::{centred, check_columns};
use super::double::two_sum;
use super::exact::{Exact, UNIT};
use crate::{Error, Result};

/// Rows whose products are added up before they go to the long sums.
const BLOCK: usize = 128;

/// Moments and the sums of products of every two columns, each over the rows where neither is missing.
///
/// Sums are held without rounding: however rows are divided among clients and in whatever order those are merged, the bits are
/// those of all rows together. A pair of columns takes 64 bytes, on the wire too.
///
/// ```
/// use synod_sums::CrossMoments;
///
/// let mut all = CrossMoments::of(2, &[1.0, 2.0, 3.0, 6.0])?;
/// all.merge(&CrossMoments::of(2, &[2.0, 4.0, 9.0, f32::NAN])?)?;
/// assert_eq!(all.count(0, 1), 3);
/// assert_eq!(all.covariance(0, 1), Some(4.0 / 3.0));
/// # Ok::<(), synod_sums::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct CrossMoments(Parts);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Parts {
    moments: ColumnMoments,
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
            moments: ColumnMoments::new(columns),
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
    pub fn moments(&self) -> &ColumnMoments {
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

/// The bits that the values of a column are made of, as powers of two.
#[derive(Clone, Copy)]
struct Bits {
    lowest: i32,
    highest: i32,
}

impl Bits {
    /// Those of a finite `f32` value that is not zero.
    fn of(value: f64) -> Bits {
        let bits = value.to_bits();
        let highest = (bits >> 52 & 0x7ff) as i32 - 1023;
        let trailing = (bits & ((1 << 52) - 1) | 1 << 52).trailing_zeros() as i32;
        Bits {
            lowest: highest - 52 + trailing,
            highest,
        }
    }

    fn and(self, other: Bits) -> Bits {
        Bits {
            lowest: self.lowest.min(other.lowest),
            highest: self.highest.max(other.highest),
        }
    }

    /// Whether a block's products with another column add up in two `f64` without rounding.
    fn fit(self, other: Bits) -> bool {
        let wide = (self.highest - self.lowest) + (other.highest - other.lowest);
        // The sum of 128 products needs 9 bits more; the first number takes 53 of all, and the second, in which 128 of its
        // roundings are added up, 46 more for sure.
        wide <= 90 && self.lowest + other.lowest >= UNIT
    }
}

/// Of every column of some rows; none where all are zero.
fn bits(rows: &[f64], columns: usize) -> Vec<Option<Bits>> {
    let mut all = vec![None; columns];
    for row in rows.chunks_exact(columns) {
        for (bits, &value) in all.iter_mut().zip(row).filter(|(_, value)| **value != 0.0) {
            let own = Bits::of(value);
            *bits = Some(bits.map_or(own, |bits: Bits| bits.and(own)));
        }
    }
    all
}

fn add_products(products: &mut [Exact], columns: usize, rows: &[f32]) {
    let present = |&value: &f32| if value.is_nan() { 0.0 } else { f64::from(value) };
    let rows: Vec<f64> = rows.iter().map(present).collect();
    let bits = bits(&rows, columns);
    let (mut high, mut low) = (vec![0.0; columns], vec![0.0; columns]);
    let mut rest = products;
    for (one, own) in bits.iter().enumerate() {
        let (own_products, later) = rest.split_at_mut(columns - one - 1);
        rest = later;
        let Some(own) = own else { continue };
        let (high, low) = (&mut high[one + 1..], &mut low[one + 1..]);
        sum_products(&rows, columns, one, high, low);
        for (place, product) in own_products.iter_mut().enumerate() {
            let other = one + 1 + place;
            match bits[other] {
                None => {}
                Some(bits) if own.fit(bits) => {
                    product.add(high[place]);
                    product.add(low[place]);
                }
                // The product of two `f32` values is exact in `f64`.
                Some(_) => rows
                    .chunks_exact(columns)
                    .for_each(|row| product.add(row[one] * row[other])),
            }
        }
    }
}

/// Sums of products of one column with those after it, and what their rounding lost.
fn sum_products(rows: &[f64], columns: usize, one: usize, high: &mut [f64], low: &mut [f64]) {
    high.fill(0.0);
    low.fill(0.0);
    for row in rows.chunks_exact(columns).filter(|row| row[one] != 0.0) {
        let sums = high.iter_mut().zip(low.iter_mut());
        for ((high, low), other) in sums.zip(&row[one + 1..]) {
            let (sum, lost) = two_sum(*high, row[one] * other);
            *high = sum;
            *low += lost;
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

#[cfg(test)]
mod tests {
    use super::*;
    use synod_core::Random;

    /// Columns from coarse to so wide in range that two `f64` cannot hold their sums, and to so small that digits are cut off.
    fn rows(count: usize, seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed, &[8]);
        let mut row = || {
            let wide = 10f64.powf(60.0 * random.uniform() - 30.0);
            let sizes = [1.0, wide, 1e-30, 0.0, 1e30];
            sizes.map(|size| {
                if random.uniform() < 0.2 {
                    f32::NAN
                } else {
                    (size * random.normal()) as f32
                }
            })
        };
        (0..count).flat_map(|_| row()).collect()
    }

    #[test]
    fn neither_order_nor_division_changes_a_bit() {
        let all = rows(700, 1);
        let whole = CrossMoments::of(5, &all).expect("sums");
        for own in [1, 3, 127, 128, 129, 500] {
            let mut clients: Vec<&[f32]> = all.chunks(5 * own).collect();
            Random::new(own as u64, &[]).shuffle(&mut clients);
            let mut merged = CrossMoments::new(5);
            for client in clients {
                let told = CrossMoments::of(5, client).expect("sums");
                merged.merge(&told).expect("merged");
            }
            assert_eq!(merged, whole, "clients of {own} rows");
        }
    }

    #[test]
    fn blocks_add_up_to_the_sums_of_single_products() {
        let all = rows(300, 2);
        let whole = CrossMoments::of(5, &all).expect("sums");
        for (one, other) in (0..5).flat_map(|one| (one + 1..5).map(move |other| (one, other))) {
            let mut sum = Exact::default();
            for row in all.chunks(5) {
                let product = f64::from(row[one]) * f64::from(row[other]);
                sum.add(if product.is_nan() { 0.0 } else { product });
            }
            assert_eq!(whole.0.products[pair(one, other, 5)], sum, "{one} and {other}");
        }
    }
}
