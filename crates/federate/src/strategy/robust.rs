//! Middles of updates instead of means: a few wild updates do not move them.

use super::{ClientUpdate, Gathering, Need, Server, Strategy, advance, norm, setting};
use crate::error::Result;

/// Combines every coordinate's values, given in the order of clients, into one.
pub(super) fn by_coordinate(
    updates: &[&ClientUpdate],
    mut combine: impl FnMut(&mut [f32]) -> f64,
) -> Vec<f64> {
    let len = updates.first().map_or(0, |u| u.delta.len());
    let mut values = vec![0.0f32; updates.len()];
    let coordinate = |i: usize| {
        values.iter_mut().zip(updates).for_each(|(v, u)| *v = u.delta[i]);
        combine(&mut values)
    };
    (0..len).map(coordinate).collect()
}

/// The middle value, or the mean of the two in the middle.
pub(super) fn median(values: &mut [f32]) -> f64 {
    let middle = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f32::total_cmp);
    let upper = f64::from(*upper);
    match odd {
        true => upper,
        false => 0.5 * (upper + f64::from(below.iter().copied().fold(f32::NEG_INFINITY, f32::max))),
    }
}

fn finish(server: &mut Server, mean: Vec<f64>) -> Result<()> {
    advance(&mut server.weights, mean.into_iter());
    server.version += 1;
    Ok(())
}

/// The median of every coordinate (Yin et al., 2018). Samples do not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Median;

impl Strategy for Median {
    fn name(&self) -> &'static str {
        "median"
    }

    fn need(&self) -> Need {
        Need::Every
    }

    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        let updates = gathered.every()?;
        finish(server, by_coordinate(&updates, median))
    }
}

/// The mean of every coordinate without its lowest and highest values (Yin et al., 2018). Samples do not count.
#[derive(Clone, Copy, Debug)]
pub struct TrimmedMean {
    /// The share of values to leave out at each end.
    pub cut: f64,
}

impl Strategy for TrimmedMean {
    fn name(&self) -> &'static str {
        "trimmed-mean"
    }

    fn need(&self) -> Need {
        Need::Every
    }

    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        setting((0.0..0.5).contains(&self.cut), || {
            format!("a cut of {} leaves nothing", self.cut)
        })?;
        let updates = gathered.every()?;
        let cut = (self.cut * updates.len() as f64) as usize;
        let mean = by_coordinate(&updates, |values| {
            values.sort_unstable_by(f32::total_cmp);
            let kept = &values[cut..values.len() - cut];
            kept.iter().map(|&v| f64::from(v)).sum::<f64>() / kept.len() as f64
        });
        finish(server, mean)
    }
}

/// The point whose distances to all updates, weighted by samples, add up to least (Pillutla et al., 2022).
#[derive(Clone, Copy, Debug)]
pub struct GeometricMedian {
    /// Steps towards it.
    pub steps: u32,
    /// Distances below this count as this.
    pub smallest: f64,
}

impl Strategy for GeometricMedian {
    fn name(&self) -> &'static str {
        "geometric-median"
    }

    fn need(&self) -> Need {
        Need::Every
    }

    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        let updates = gathered.every()?;
        let samples: Vec<f64> = updates.iter().map(|u| u.samples.max(1) as f64).collect();
        let mut point = weighted(&updates, &samples);
        for _ in 0..self.steps {
            let weights: Vec<f64> = updates
                .iter()
                .zip(&samples)
                .map(|(u, n)| n / distance(&u.delta, &point).max(self.smallest))
                .collect();
            let next = weighted(&updates, &weights);
            let moved: Vec<f32> = next.iter().zip(&point).map(|(a, b)| (a - b) as f32).collect();
            let still = norm(&moved) <= 1e-9 * (1.0 + next.iter().map(|x| x * x).sum::<f64>().sqrt());
            point = next;
            if still {
                break;
            }
        }
        finish(server, point)
    }
}

fn weighted(updates: &[&ClientUpdate], weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let mut mean = vec![0.0; updates.first().map_or(0, |u| u.delta.len())];
    for (update, weight) in updates.iter().zip(weights) {
        let share = weight / total;
        mean.iter_mut()
            .zip(&update.delta)
            .for_each(|(m, d)| *m += share * f64::from(*d));
    }
    mean
}

fn distance(delta: &[f32], point: &[f64]) -> f64 {
    let squares = delta.iter().zip(point).map(|(d, p)| (f64::from(*d) - p).powi(2));
    squares.sum::<f64>().sqrt()
}
