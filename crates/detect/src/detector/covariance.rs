//! The distance of a row from the mean, in terms of how rows usually vary.

use serde::{Deserialize, Serialize};
use synod_kernels::{Activation, Dense, Simd};

use super::{Detector, Parts, last, room};
use crate::eigen::{self, Directions};
use crate::moments::Moments;
use crate::rows::Rows;

/// A direction with less than this share of what is added to every variance is not kept.
const DROWNED: f64 = 0.02;

/// A Gaussian with a shrunk covariance: exact along the largest directions, one variance for all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Covariance {
    mean: Vec<f32>,
    /// `[width, directions]`, so that a row times this gives its coordinates.
    axes: Vec<f32>,
    /// One over the variance along each direction, shrunk, less that of all others.
    precision: Vec<f32>,
    /// One over the variance along any other direction, shrunk.
    rest: f32,
}

impl Covariance {
    /// Fits to sums; the directions it finds help the next fit to similar sums.
    pub(crate) fn from_moments(
        moments: &Moments,
        ridge: f64,
        start: Option<&Directions>,
    ) -> (Covariance, Directions) {
        let covariance = moments.covariance();
        let mean: Vec<f32> = moments.mean().iter().map(|m| *m as f32).collect();
        let n = mean.len();
        let trace: f64 = (0..n).map(|i| covariance[i * n + i]).sum();
        let largest = eigen::largest(&covariance, n, n, start);
        let shrink = (ridge * trace / n.max(1) as f64).max(f64::MIN_POSITIVE);
        // Directions whose variance is drowned by what is added to all are like the rest.
        let k = largest
            .values
            .iter()
            .take_while(|v| **v > DROWNED * shrink)
            .count();
        let found: f64 = largest.values[..k].iter().sum();
        let others = (trace - found).max(0.0) / (n - k).max(1) as f64;
        let rest = 1.0 / (others + shrink);
        let precision = largest.values[..k]
            .iter()
            .map(|v| (1.0 / (v + shrink) - rest) as f32)
            .collect();
        let mut axes = vec![0.0; n * k];
        for (d, vector) in largest.vectors.chunks_exact(n.max(1)).take(k).enumerate() {
            vector.iter().enumerate().for_each(|(i, v)| axes[i * k + d] = *v);
        }
        let fitted = Covariance {
            mean,
            axes,
            precision,
            rest: rest as f32,
        };
        (fitted, largest)
    }

    /// How unlikely rows are, as the mean of minus the logarithm of their density per feature, less a constant.
    pub(crate) fn surprise(&self, rows: &Rows) -> f64 {
        let (n, k) = (self.mean.len().max(1) as f64, self.precision.len());
        let rest = f64::from(self.rest);
        let kept = self.precision.iter().map(|p| (f64::from(*p) + rest).ln());
        let volume = kept.sum::<f64>() + (n - k as f64) * rest.ln();
        let sizes = self.sizes(rows);
        let size = sizes.iter().map(|s| f64::from(*s)).sum::<f64>() / sizes.len().max(1) as f64;
        (size - volume / n) / 2.0
    }

    pub(super) fn width(&self) -> usize {
        self.mean.len()
    }

    pub(super) fn directions(&self) -> usize {
        self.precision.len()
    }

    /// A feature's part of every direction.
    pub(super) fn axis(&self, feature: usize) -> &[f32] {
        let k = self.precision.len();
        &self.axes[feature * k..(feature + 1) * k]
    }

    /// The precision of all other directions, and what each kept one has beyond it.
    pub(super) fn parts(&self) -> (f64, Vec<f64>) {
        let inner = self.precision.iter().map(|p| f64::from(*p)).collect();
        (f64::from(self.rest), inner)
    }

    /// One over the variance of a feature, given all others.
    pub(super) fn precision_of(&self, feature: usize) -> f32 {
        let along = self.axis(feature).iter().zip(&self.precision);
        (self.rest + along.map(|(a, p)| a * a * p).sum::<f32>()).max(f32::MIN_POSITIVE)
    }

    /// How strongly all features together pull each one of a row away from where it is. `along` has a place per direction.
    pub(super) fn pull(&self, row: &[f32], along: &mut [f32], out: &mut [f32]) {
        for ((o, x), m) in out.iter_mut().zip(row).zip(&self.mean) {
            *o = x - m;
        }
        self.coordinates(out, along);
        along.iter_mut().zip(&self.precision).for_each(|(a, p)| *a *= p);
        for (i, o) in out.iter_mut().enumerate() {
            *o = self.rest * *o + dot(self.axis(i), along);
        }
    }

    pub(super) fn suits(&self, width: usize) -> bool {
        self.mean.len() == width && self.axes.len() == width * self.precision.len()
    }

    /// The coordinates of centred rows along the directions.
    fn coordinates(&self, centred: &[f32], along: &mut [f32]) {
        let (inputs, outputs) = (self.mean.len(), self.precision.len());
        let layer = Dense {
            rows: centred.len() / inputs.max(1),
            inputs,
            outputs,
        };
        layer.forward(
            Simd::best(),
            centred,
            &self.axes,
            None,
            Activation::Identity,
            along,
        );
    }
}

/// Sums that do not wait for each other, so that the compiler can keep them in one register.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (heads, tails) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest = heads.remainder().iter().zip(tails.remainder());
    let rest: f32 = rest.map(|(x, y)| x * y).sum();
    for (x, y) in heads.zip(tails) {
        for i in 0..16 {
            sums[i] += x[i] * y[i];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// Rows that are handled together.
pub(crate) const BATCH: usize = 16;

impl Detector for Covariance {
    fn judge(&self, rows: &Rows, space: &mut Vec<f32>, sizes: &mut [f32]) {
        let (n, k) = (self.mean.len().max(1), self.precision.len());
        let (centred, along) = room(space, BATCH * (n + k)).split_at_mut(BATCH * n);
        let batches = last(rows, sizes.len()).chunks(BATCH * n);
        for (batch, sizes) in batches.zip(sizes.chunks_mut(BATCH)) {
            let (centred, along) = (&mut centred[..batch.len()], &mut along[..sizes.len() * k]);
            for (centred, row) in centred.chunks_exact_mut(n).zip(batch.chunks_exact(n)) {
                let pairs = centred.iter_mut().zip(row).zip(&self.mean);
                pairs.for_each(|((c, x), m)| *c = x - m);
            }
            self.coordinates(centred, along);
            for (i, (row, size)) in centred.chunks_exact(n).zip(sizes).enumerate() {
                let along = &along[i * k..(i + 1) * k];
                let whole = dot(row, row) * self.rest;
                let known: f32 = along.iter().zip(&self.precision).map(|(a, p)| a * a * p).sum();
                *size = ((whole + known) / n as f32).max(0.0);
            }
        }
    }

    /// A feature is expected where the others would have it: the mean of the Gaussian given all other features.
    fn explain(&self, rows: &Rows) -> Parts {
        let row = last(rows, 1);
        let (mut pull, mut along) = (vec![0.0; row.len()], vec![0.0; self.precision.len()]);
        self.pull(row, &mut along, &mut pull);
        let part = |(i, x): (usize, &f32)| {
            let own = self.precision_of(i);
            (x - pull[i] / own, (pull[i] * pull[i] / own).max(0.0))
        };
        let (expected, shares) = row.iter().enumerate().map(part).unzip();
        Parts { expected, shares }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_are_like_surprises_less_than_what_they_are_not_like() {
        let value = |i: usize| {
            let (t, f) = (i / 3, i % 3);
            let cause = ((t * 37 % 101) as f32 - 50.0) / 25.0;
            cause * (f + 1) as f32 + ((i * 53 % 97) as f32 - 48.0) / 100.0
        };
        let rows = Rows::new(3, (0..3000).map(value).collect());
        let flat = Rows::new(3, (0..3000).map(|i| value(i * 31 % 3000)).collect());
        let fit = |rows: &Rows| Covariance::from_moments(&Moments::of(rows), 0.01, None).0;
        assert!(fit(&rows).surprise(&rows) + 0.1 < fit(&flat).surprise(&rows));
    }

    #[test]
    fn the_surprise_is_that_of_a_gaussian() {
        // One feature of variance 1, to which a ridge of 1 adds as much: density of variance 2.
        let rows = Rows::new(1, [1.0, -1.0].repeat(50));
        let (gaussian, _) = Covariance::from_moments(&Moments::of(&rows), 1.0, None);
        let expected = 0.5 * (2f64.ln() + 1.0 / 2.0);
        assert!((gaussian.surprise(&rows) - expected).abs() < 1e-5);
    }
}
