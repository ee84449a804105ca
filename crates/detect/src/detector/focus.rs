//! The few metrics that stand out most from what the others would have them be.

use serde::{Deserialize, Serialize};

use super::covariance::Covariance;
use super::{Detector, Parts, last, room};
use crate::eigen::Directions;
use crate::moments::Moments;
use crate::rows::Rows;

/// A feature's usual deviation is never taken to be smaller than this.
const LEAST: f64 = 0.02;

/// Each feature is foretold from all others; the size of a row is the mean square of its largest deviations, each in units of
/// what is usual for its feature. One broken sensor among hundreds is as large as if it were alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Focus {
    gaussian: Covariance,
    /// One over the variance of each feature, given all others.
    precision: Vec<f32>,
    /// The usual deviation of each feature from what was foretold.
    deviation: Vec<f32>,
    top: usize,
}

impl Focus {
    pub(crate) fn from_moments(
        moments: &Moments,
        ridge: f64,
        top: usize,
        start: Option<&Directions>,
    ) -> (Focus, Directions) {
        let (gaussian, start) = Covariance::from_moments(moments, ridge, start);
        let covariance = moments.covariance();
        let precision: Vec<f32> = (0..gaussian.width()).map(|i| gaussian.precision_of(i)).collect();
        let spread = |(i, variance): (usize, f64)| variance.max(0.0).sqrt() / f64::from(precision[i]) + LEAST;
        let deviation = pulls(&gaussian, &covariance).into_iter().enumerate().map(spread);
        let focus = Focus {
            deviation: deviation.map(|d| d as f32).collect(),
            precision,
            gaussian,
            top,
        };
        (focus, start)
    }

    pub(super) fn suits(&self, width: usize) -> bool {
        let lengths = [self.precision.len(), self.deviation.len()];
        self.gaussian.suits(width) && lengths == [width; 2] && self.top > 0
    }

    /// What each feature of a row is beyond what was foretold, in its usual deviations, squared.
    fn squares(&self, row: &[f32], along: &mut [f32], pull: &mut [f32]) {
        self.gaussian.pull(row, along, pull);
        for ((p, precision), deviation) in pull.iter_mut().zip(&self.precision).zip(&self.deviation) {
            *p = (*p / precision / deviation).powi(2);
        }
    }
}

/// The variance of every feature's pull, which is the diagonal of `P C P` for the precision `P` and the covariance `C`.
fn pulls(gaussian: &Covariance, covariance: &[f64]) -> Vec<f64> {
    let (n, k) = (gaussian.width(), gaussian.directions());
    let (rest, inner) = gaussian.parts();
    let axis = |i: usize, d: usize| f64::from(gaussian.axis(i)[d]);
    // `C A`, then `A^T C A`.
    let mut image = vec![0.0f64; n * k];
    for (row, covariances) in image
        .chunks_exact_mut(k.max(1))
        .zip(covariance.chunks_exact(n.max(1)))
    {
        for (j, c) in covariances.iter().enumerate() {
            let axes = row.iter_mut().zip(gaussian.axis(j));
            axes.for_each(|(sum, a)| *sum += c * f64::from(*a));
        }
    }
    let mut small = vec![0.0f64; k * k];
    for i in 0..n {
        for d in 0..k {
            let (part, row) = (axis(i, d), &image[i * k..][..k]);
            let sums = small[d * k..][..k].iter_mut().zip(row);
            sums.for_each(|(sum, b)| *sum += part * b);
        }
    }
    let one = |i: usize| {
        let scaled: Vec<f64> = (0..k).map(|d| axis(i, d) * inner[d]).collect();
        let mixed: f64 = scaled.iter().zip(&image[i * k..]).map(|(s, b)| s * b).sum();
        let form = |d: usize| scaled[d] * (0..k).map(|e| small[d * k + e] * scaled[e]).sum::<f64>();
        rest * rest * covariance[i * n + i] + 2.0 * rest * mixed + (0..k).map(form).sum::<f64>()
    };
    (0..n).map(one).collect()
}

impl Detector for Focus {
    fn judge(&self, rows: &Rows, space: &mut Vec<f32>, sizes: &mut [f32]) {
        let width = rows.width();
        let top = self.top.min(width).max(1);
        let directions = self.gaussian.directions();
        let (squares, space) = room(space, width + top + directions).split_at_mut(width);
        let (highest, along) = space.split_at_mut(top);
        let rows = last(rows, sizes.len()).chunks_exact(width.max(1));
        for (row, size) in rows.zip(sizes) {
            self.squares(row, along, squares);
            highest.fill(0.0);
            for &square in &*squares {
                // The least of the highest so far stands first.
                if square > highest[0] {
                    highest[0] = square;
                    let mut i = 0;
                    while i + 1 < top && highest[i] > highest[i + 1] {
                        highest.swap(i, i + 1);
                        i += 1;
                    }
                }
            }
            *size = highest.iter().sum::<f32>() / top as f32;
        }
    }

    fn explain(&self, rows: &Rows) -> Parts {
        let row = last(rows, 1);
        let (mut pull, mut along) = (vec![0.0; row.len()], vec![0.0; self.gaussian.directions()]);
        self.gaussian.pull(row, &mut along, &mut pull);
        let foretold = |((x, p), precision): ((&f32, &f32), &f32)| x - p / precision;
        let expected = row.iter().zip(&pull).zip(&self.precision).map(foretold).collect();
        self.squares(row, &mut along, &mut pull);
        let shares = pull;
        Parts { expected, shares }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hundred features that follow two causes, each with noise of its own.
    fn rows(count: usize, broken: Option<usize>) -> Rows {
        let mut random = synod_core::Random::from_state(9);
        let mut noise = || random.uniform() as f32 - 0.5;
        let mut values = vec![];
        for _ in 0..count {
            let causes = [2.0 * noise(), 2.0 * noise()];
            for i in 0..200 {
                let own = 0.2 + 0.1 * (i % 5) as f32;
                values.push(causes[i % 2] + own * noise() + if broken == Some(i) { 0.5 } else { 0.0 });
            }
        }
        Rows::new(200, values)
    }

    #[test]
    fn one_broken_sensor_among_two_hundred_stands_out_and_is_named() {
        let healthy = rows(2000, None);
        let (focus, _) = Focus::from_moments(&Moments::of(&healthy), 0.1, 3, None);
        let mut usual = focus.sizes(&healthy);
        usual.sort_by(f32::total_cmp);
        // Feature 20 has little noise of its own, so half a unit is plain to see.
        let odd = rows(20, Some(20));
        let sizes = focus.sizes(&odd);
        assert!(
            sizes.iter().all(|s| *s > usual[1999]),
            "{sizes:?} against {}",
            usual[1999]
        );
        let first = odd.slice(0..1);
        let parts = focus.explain(&first);
        let first = first.values();
        let most = (0..200).max_by(|a, b| parts.shares[*a].total_cmp(&parts.shares[*b]));
        assert_eq!(most, Some(20));
        assert!(
            (parts.expected[20] - (first[20] - 0.5)).abs() < 0.15,
            "{}",
            parts.expected[20]
        );
    }

    #[test]
    fn deviations_are_those_that_are_seen() {
        let healthy = rows(3000, None);
        let (focus, _) = Focus::from_moments(&Moments::of(&healthy), 0.1, 3, None);
        let mut sums = vec![0.0f64; 200];
        let mut squares = vec![0.0; 200];
        for row in healthy.iter() {
            focus.squares(row, &mut vec![0.0; focus.gaussian.directions()], &mut squares);
            sums.iter_mut()
                .zip(&squares)
                .for_each(|(s, q)| *s += f64::from(*q));
        }
        for (i, sum) in sums.iter().enumerate() {
            let mean = sum / 3000.0;
            assert!(
                mean < 1.05 && mean > 0.4,
                "feature {i}: {mean}, at most 1 for the floor of the deviation"
            );
        }
    }
}
