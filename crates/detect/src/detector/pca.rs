//! The distance of a row from the plane in which rows usually lie.

use serde::{Deserialize, Serialize};

use super::{Detector, Parts, last, room};
use crate::eigen::{self, Directions};
use crate::moments::Moments;
use crate::rows::Rows;

/// Principal components: exact from summed moments, so it can be fitted across nodes without their rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pca {
    mean: Vec<f32>,
    /// Unit vectors, one after the other.
    plane: Vec<f32>,
}

impl Pca {
    /// Fits to sums, with as many directions as it takes for a share of the variance.
    pub(crate) fn from_moments(
        moments: &Moments,
        share: f64,
        start: Option<&Directions>,
    ) -> (Pca, Directions) {
        let covariance = moments.covariance();
        let mean: Vec<f32> = moments.mean().iter().map(|m| *m as f32).collect();
        let n = mean.len();
        let trace: f64 = (0..n).map(|i| covariance[i * n + i]).sum();
        let largest = eigen::largest(&covariance, n, n, start);
        let mut sum = 0.0;
        let mut k = 0;
        while k < largest.values.len() && sum < share * trace {
            sum += largest.values[k];
            k += 1;
        }
        let fitted = Pca {
            mean,
            plane: largest.vectors[..k * n].to_vec(),
        };
        (fitted, largest)
    }

    /// The number of directions in the plane.
    pub fn directions(&self) -> usize {
        self.plane.len() / self.mean.len().max(1)
    }

    pub(super) fn suits(&self, width: usize) -> bool {
        self.mean.len() == width && self.plane.len().is_multiple_of(width.max(1))
    }

    fn project(&self, row: &[f32], expected: &mut [f32]) {
        let n = self.mean.len().max(1);
        expected.copy_from_slice(&self.mean);
        for axis in self.plane.chunks_exact(n) {
            let along: f32 = row
                .iter()
                .zip(&self.mean)
                .zip(axis)
                .map(|((x, m), a)| (x - m) * a)
                .sum();
            expected.iter_mut().zip(axis).for_each(|(e, a)| *e += along * a);
        }
    }
}

impl Detector for Pca {
    fn judge(&self, rows: &Rows, space: &mut Vec<f32>, sizes: &mut [f32]) {
        let n = self.mean.len();
        let expected = room(space, n);
        let rows = last(rows, sizes.len()).chunks_exact(n.max(1));
        for (row, size) in rows.zip(sizes) {
            self.project(row, expected);
            let squares = row.iter().zip(&*expected).map(|(x, e)| (x - e) * (x - e));
            *size = squares.sum::<f32>() / n.max(1) as f32;
        }
    }

    fn explain(&self, rows: &Rows) -> Parts {
        let row = last(rows, 1);
        let mut expected = vec![0.0; self.mean.len()];
        self.project(row, &mut expected);
        let shares = row.iter().zip(&expected).map(|(x, e)| (x - e) * (x - e));
        Parts {
            shares: shares.collect(),
            expected,
        }
    }
}
