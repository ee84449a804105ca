//! The distance of a row from the nearest of a few typical rows.

use serde::{Deserialize, Serialize};

use super::random::Random;
use super::{Detector, Parts, bounded};
use crate::rows::Rows;

/// Rounds of assigning rows to centres and moving these, at most.
const ROUNDS: usize = 25;

/// Centres of rows that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KMeans {
    width: usize,
    /// One centre after the other.
    centres: Vec<f32>,
}

impl KMeans {
    /// Finds up to `count` centres. They start at rows far from each other, drawn by the rule of k-means++.
    pub fn fit(rows: &Rows, count: usize, seed: u64) -> KMeans {
        let mut fitted = KMeans {
            width: rows.width(),
            centres: spread(rows, count.max(1), seed),
        };
        let mut before = vec![];
        for _ in 0..ROUNDS {
            let nearest: Vec<usize> = rows.iter().map(|row| fitted.nearest(row).0).collect();
            if nearest == before {
                break;
            }
            fitted.move_to_means(rows, &nearest);
            before = nearest;
        }
        fitted
    }

    pub(super) fn suits(&self, width: usize) -> bool {
        self.width == width && !self.centres.is_empty() && self.centres.len().is_multiple_of(width.max(1))
    }

    /// A centre that no row is nearest to stays where it is.
    fn move_to_means(&mut self, rows: &Rows, nearest: &[usize]) {
        let n = self.width.max(1);
        let mut sums = vec![0.0f64; self.centres.len()];
        let mut counts = vec![0usize; self.centres.len() / n];
        for (row, &k) in rows.iter().zip(nearest) {
            counts[k] += 1;
            let sum = &mut sums[k * n..(k + 1) * n];
            sum.iter_mut().zip(row).for_each(|(s, x)| *s += f64::from(*x));
        }
        let centres = self.centres.chunks_exact_mut(n).zip(sums.chunks_exact(n));
        for ((centre, sum), &count) in centres.zip(&counts).filter(|(_, count)| **count > 0) {
            let means = sum.iter().map(|s| (s / count as f64) as f32);
            centre.iter_mut().zip(means).for_each(|(c, m)| *c = m);
        }
    }

    /// The nearest centre and the square of its distance.
    fn nearest(&self, row: &[f32]) -> (usize, f64) {
        let centres = self.centres.chunks_exact(self.width.max(1)).enumerate();
        centres
            .map(|(k, centre)| (k, squared_distance(row, centre)))
            .fold(
                (0, f64::INFINITY),
                |best, one| if one.1 < best.1 { one } else { best },
            )
    }
}

/// Rows to start from: the first is any, each of the others is drawn by its squared distance from those before it.
fn spread(rows: &Rows, count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let mut next = random.below(rows.len());
    let mut centres: Vec<f32> = vec![];
    let mut distances = vec![f64::INFINITY; rows.len()];
    for _ in 0..count {
        let Some(centre) = rows.iter().nth(next) else {
            break;
        };
        centres.extend(centre);
        for (distance, row) in distances.iter_mut().zip(rows.iter()) {
            *distance = distance.min(squared_distance(row, centre));
        }
        let mut left = random.uniform() * distances.iter().sum::<f64>();
        let drawn = distances.iter().position(|d| {
            left -= d;
            left < 0.0
        });
        // None is left when every row is a centre.
        match drawn {
            Some(row) => next = row,
            None => break,
        }
    }
    centres
}

fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    // Several sums, because one would have to wait for every addition before it.
    const LANES: usize = 8;
    let mut sums = [0.0f64; LANES];
    let (a_parts, b_parts) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a_parts.remainder().iter().zip(b_parts.remainder());
    let rest: f64 = rest.map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum();
    for (a, b) in a_parts.zip(b_parts) {
        for ((sum, x), y) in sums.iter_mut().zip(a).zip(b) {
            *sum += (f64::from(*x) - f64::from(*y)).powi(2);
        }
    }
    sums.iter().sum::<f64>() + rest
}

impl Detector for KMeans {
    fn sizes(&self, rows: &Rows) -> Vec<f32> {
        let size = |row: &[f32]| bounded(self.nearest(row).1 / self.width.max(1) as f64);
        rows.iter().map(size).collect()
    }

    /// A row is expected at its nearest centre.
    fn explain(&self, row: &[f32]) -> Parts {
        let n = self.width.max(1);
        let mut centres = self.centres.chunks_exact(n);
        let expected = centres.nth(self.nearest(row).0).unwrap_or_default();
        let square = |(x, e): (&f32, &f32)| bounded((f64::from(*x) - f64::from(*e)).powi(2) / n as f64);
        Parts {
            expected: expected.to_vec(),
            shares: row.iter().zip(expected).map(square).collect(),
        }
    }
}
