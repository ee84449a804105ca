//! Counts between common edges, for quantiles.

use serde::{Deserialize, Serialize};

use super::ColumnMoments;
use super::columns::{check_columns, check_rows};
use crate::{Error, Result};

/// Where the bins of each column begin and end. A server makes them and every client counts by them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<f32>>", into = "Vec<Vec<f32>>")]
pub struct Edges(Vec<Vec<f32>>);

impl Edges {
    /// So many equal bins from the least to the largest value of each column. A column without values has none.
    pub fn even(moments: &ColumnMoments, bins: usize) -> Result<Edges> {
        if bins == 0 {
            return Err(Error::Setting("a histogram has at least 1 bin, not 0".into()));
        }
        let column = |column| match (moments.min(column), moments.max(column)) {
            (Some(least), Some(most)) => cut(least, most, bins),
            _ => Vec::new(),
        };
        Ok(Edges((0..moments.columns()).map(column).collect()))
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.0.len()
    }
}

impl TryFrom<Vec<Vec<f32>>> for Edges {
    type Error = Error;

    fn try_from(edges: Vec<Vec<f32>>) -> Result<Edges> {
        let good = |e: &Vec<f32>| e.len() != 1 && e.is_sorted() && e.iter().all(|edge| edge.is_finite());
        match edges.iter().position(|column| !good(column)) {
            None => Ok(Edges(edges)),
            Some(column) => Err(Error::Malformed(format!(
                "the edges of column {column} are not finite and ascending"
            ))),
        }
    }
}

impl From<Edges> for Vec<Vec<f32>> {
    fn from(edges: Edges) -> Vec<Vec<f32>> {
        edges.0
    }
}

/// Edges of equal bins, as near as `f32` allows; both ends are just what was given.
fn cut(least: f32, most: f32, bins: usize) -> Vec<f32> {
    let range = width(least, most);
    let edge = |bin: usize| (f64::from(least) + range * (bin as f64 / bins as f64)) as f32;
    let mut edges: Vec<f32> = (0..bins).map(edge).collect();
    edges.push(most);
    edges.dedup();
    if edges.len() == 1 {
        edges.push(most);
    }
    edges
}

/// Edges with as many values of `f32` from each to the next: however far the outer ones are apart, a few cuts of cuts come down
/// to single values.
fn cut_values(from: f32, to: f32, parts: usize) -> Vec<f32> {
    let (first, last) = (place(from), place(to));
    let edge = |part: usize| first + (last - first) * part as i64 / parts as i64;
    let mut edges: Vec<f32> = (0..=parts).map(|part| value(edge(part))).collect();
    edges.dedup();
    if edges.len() == 1 {
        edges.push(to);
    }
    edges
}

/// Where a value stands among all of `f32`, counted from zero.
fn place(value: f32) -> i64 {
    let magnitude = i64::from(value.abs().to_bits());
    if value < 0.0 { -magnitude } else { magnitude }
}

fn value(place: i64) -> f32 {
    let magnitude = f32::from_bits(place.unsigned_abs() as u32);
    if place < 0 { -magnitude } else { magnitude }
}

fn width(from: f32, to: f32) -> f64 {
    f64::from(to) - f64::from(from)
}

/// How many values of each column lie between the edges. NaN is missing.
///
/// ```
/// use synod_sums::{Edges, Histograms, ColumnMoments};
///
/// let clients = [[1.0, 2.0, 3.0], [4.0, 5.0, 1000.0]];
/// let mut moments = ColumnMoments::new(1);
/// for rows in &clients {
///     moments.merge(&ColumnMoments::of(1, rows)?)?;
/// }
/// let mut edges = Edges::even(&moments, 16)?;
/// let median = loop {
///     let mut all = Histograms::new(edges);
///     for rows in &clients {
///         let mut own = Histograms::new(all.edges().clone());
///         own.add(rows)?;
///         all.merge(&own)?;
///     }
///     match all.refine(&[0.5], 16, 1e-6) {
///         Some(finer) => edges = finer,
///         None => break all.quantile(0, 0.5),
///     }
/// };
/// assert!(median.is_some_and(|m| (m - 3.5).abs() < 1e-3));
/// # Ok::<(), synod_sums::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Histograms(Parts);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Parts {
    edges: Edges,
    counts: Vec<Vec<u64>>,
}

impl Histograms {
    /// Of no rows.
    pub fn new(edges: Edges) -> Histograms {
        let counts = edges
            .0
            .iter()
            .map(|e| vec![0; e.len().saturating_sub(1)])
            .collect();
        Histograms(Parts { edges, counts })
    }

    /// Adds rows, one after another. What lies outside the edges counts in the first or last bin.
    pub fn add(&mut self, rows: &[f32]) -> Result<()> {
        let columns = self.columns();
        check_rows(columns, rows)?;
        for row in rows.chunks_exact(columns.max(1)) {
            for ((counts, edges), &value) in self.0.counts.iter_mut().zip(&self.0.edges.0).zip(row) {
                if !value.is_nan() && !counts.is_empty() {
                    let above = edges.partition_point(|&edge| edge <= value);
                    counts[above.saturating_sub(1).min(edges.len() - 2)] += 1;
                }
            }
        }
        Ok(())
    }

    /// Adds the rows that `other` is of, counted by the same edges.
    pub fn merge(&mut self, other: &Histograms) -> Result<()> {
        check_columns(self.columns(), other.columns())?;
        if self.0.edges != other.0.edges {
            return Err(Error::Data(
                "histograms with different edges cannot be added: count again by the edges of this pass"
                    .into(),
            ));
        }
        let counts = self.0.counts.iter_mut().flatten();
        for (count, other) in counts.zip(other.0.counts.iter().flatten()) {
            *count = count.saturating_add(*other);
        }
        Ok(())
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.0.edges.columns()
    }

    /// The edges that rows are counted by.
    pub fn edges(&self) -> &Edges {
        &self.0.edges
    }

    /// How many values lie in each bin of a column.
    pub fn counts(&self, column: usize) -> &[u64] {
        self.0.counts.get(column).map_or(&[], Vec::as_slice)
    }

    /// A quantile of a column by linear interpolation between ranks, at most a bin off, and to the bit where a bin holds one
    /// value only; none if the column has no values.
    pub fn quantile(&self, column: usize, of: f64) -> Option<f64> {
        let [(first, share), (second, _)] = self.ranks(column, of)?;
        let (a, b) = (self.at_rank(column, first)?, self.at_rank(column, second)?);
        Some(a + (b - a) * share)
    }

    /// How far one quantile is above another; none if a single bin holds both, which then differ by less than bins can tell.
    pub(super) fn between(&self, column: usize, low: f64, high: f64) -> Option<f64> {
        let bin = |(rank, _)| self.bin_of(column, rank).map(|(bin, _)| bin);
        let [first, _] = self.ranks(column, low)?;
        let [_, last] = self.ranks(column, high)?;
        if bin(first)? == bin(last)? {
            return None;
        }
        Some(self.quantile(column, high)? - self.quantile(column, low)?)
    }

    /// Edges for another pass, finer by `bins` about the quantiles of each column that are not yet known to within `tolerance`
    /// times the column's range; none if all are. With a tolerance of 0 it goes on until bins about quantiles hold one value
    /// each, which with 64 bins is at most six passes.
    pub fn refine(&self, quantiles: &[f64], bins: usize, tolerance: f64) -> Option<Edges> {
        let mut finer = false;
        let edges = (0..self.columns()).map(|column| {
            let own = &self.0.edges.0[column];
            let (Some(&least), Some(&most)) = (own.first(), own.last()) else {
                return Vec::new();
            };
            let mut edges = vec![least, most];
            for bin in self.bins(column, quantiles) {
                let (from, to) = (own[bin], own[bin + 1]);
                let wide = width(from, to) > tolerance * width(least, most);
                let parts = cut_values(from, to, if wide { bins } else { 1 });
                finer |= parts.len() > 2;
                edges.extend(parts);
            }
            edges.sort_by(f32::total_cmp);
            edges.dedup();
            if edges.len() == 1 {
                edges.push(most);
            }
            edges
        });
        let edges = Edges(edges.collect());
        finer.then_some(edges)
    }

    /// The bins that hold the values between which quantiles lie.
    fn bins(&self, column: usize, quantiles: &[f64]) -> Vec<usize> {
        let ranks = quantiles
            .iter()
            .filter_map(|&of| self.ranks(column, of))
            .flatten();
        let mut bins: Vec<usize> = ranks
            .filter_map(|(rank, _)| Some(self.bin_of(column, rank)?.0))
            .collect();
        bins.sort_unstable();
        bins.dedup();
        bins
    }

    /// The two ranks between which a quantile lies, the first with the way to the second.
    fn ranks(&self, column: usize, of: f64) -> Option<[(u64, f64); 2]> {
        let last = self.total(column).checked_sub(1)?;
        let position = of.clamp(0.0, 1.0) * last as f64;
        let first = (position.floor() as u64).min(last);
        let share = position - first as f64;
        let second = if share > 0.0 { (first + 1).min(last) } else { first };
        Some([(first, share), (second, 0.0)])
    }

    fn total(&self, column: usize) -> u64 {
        self.counts(column)
            .iter()
            .fold(0, |sum: u64, &count| sum.saturating_add(count))
    }

    /// The bin of a rank, and the rank within it.
    fn bin_of(&self, column: usize, rank: u64) -> Option<(usize, u64)> {
        let mut within = rank;
        for (bin, &count) in self.counts(column).iter().enumerate() {
            if within < count {
                return Some((bin, within));
            }
            within -= count;
        }
        None
    }

    /// About the value of a rank: the ends are known, others are as if spread evenly in their bin.
    fn at_rank(&self, column: usize, rank: u64) -> Option<f64> {
        let edges = &self.0.edges.0[column];
        let (bin, within) = self.bin_of(column, rank)?;
        if rank == 0 {
            return Some(f64::from(edges[0]));
        }
        if rank + 1 == self.total(column) {
            return edges.last().map(|&most| f64::from(most));
        }
        let (from, to) = (edges[bin], edges[bin + 1]);
        if place(to) - place(from) <= 1 {
            // The last bin holds its upper edge too, and that is a value for sure.
            let last = bin + 2 == edges.len();
            return Some(f64::from(if last { to } else { from }));
        }
        let share = (within as f64 + 0.5) / self.counts(column)[bin] as f64;
        Some(f64::from(from) + width(from, to) * share)
    }
}

impl TryFrom<Parts> for Histograms {
    type Error = Error;

    fn try_from(parts: Parts) -> Result<Histograms> {
        let fits = |(edges, counts): (&Vec<f32>, &Vec<u64>)| counts.len() == edges.len().saturating_sub(1);
        let pairs = parts.edges.0.iter().zip(&parts.counts);
        match parts.counts.len() == parts.edges.columns() && pairs.into_iter().all(fits) {
            true => Ok(Histograms(parts)),
            false => Err(Error::Malformed(
                "histograms have not one count for each of their bins".into(),
            )),
        }
    }
}

impl From<Histograms> for Parts {
    fn from(histograms: Histograms) -> Parts {
        histograms.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_core::Random;

    #[test]
    fn a_few_passes_find_quantiles_to_the_bit() {
        let mut random = Random::new(7, &[]);
        let columns: [fn(&mut Random) -> f64; 5] = [
            |r| r.normal(),
            |r| 10f64.powf(70.0 * r.uniform() - 35.0) * (r.uniform() - 0.3),
            |r| f64::from(r.uniform() < 0.3),
            |r| -f64::from(r.uniform() < 0.3),
            |r| 1e6 * r.uniform().round() - 1e-40 * r.uniform(),
        ];
        for count in [1, 2, 5, 400, 1001] {
            for (number, column) in columns.iter().enumerate() {
                let mut values: Vec<f32> = (0..count).map(|_| column(&mut random) as f32).collect();
                let moments = ColumnMoments::of(1, &values).expect("sums");
                let mut counted = Histograms::new(Edges::even(&moments, 64).expect("edges"));
                counted.add(&values).expect("counted");
                let mut passes = 0;
                while let Some(finer) = counted.refine(&[0.25, 0.5, 0.75], 64, 0.0) {
                    counted = Histograms::new(finer);
                    counted.add(&values).expect("counted");
                    passes += 1;
                }
                assert!(passes <= 6, "{passes} passes");
                values.sort_by(f32::total_cmp);
                for of in [0.25, 0.5, 0.75] {
                    let position = of * (count - 1) as f64;
                    let (low, share) = (position.floor() as usize, position.fract());
                    let (a, b) = (values[low], values[(low + 1).min(count - 1)]);
                    let want = f64::from(a) + width(a, b) * share;
                    assert_eq!(
                        counted.quantile(0, of),
                        Some(want),
                        "column {number}, {of} of {count}"
                    );
                }
            }
        }
    }
}
