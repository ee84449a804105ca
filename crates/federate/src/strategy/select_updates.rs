//! Krum, Multi-Krum (Blanchard et al., 2017) and Bulyan (El Mhamdi et al., 2018): updates that lie close to others.

use super::robust::{by_coordinate, median};
use super::{ClientUpdate, Gathering, Need, Server, Strategy, advance, setting};
use crate::error::Result;

/// The mean, weighted by samples, of the updates that are closest to their neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Krum {
    /// How many clients may be malicious.
    pub malicious: usize,
    /// How many updates to keep: 1 for Krum, more for Multi-Krum.
    pub keep: usize,
}

impl Strategy for Krum {
    fn name(&self) -> &'static str {
        if self.keep == 1 { "krum" } else { "multi-krum" }
    }

    fn need(&self) -> Need {
        Need::Every
    }

    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        let chosen = closest(gathered.every()?, self.malicious, self.keep);
        let total: f64 = chosen.iter().map(|u| u.samples as f64).sum();
        let mut mean = vec![0.0; server.weights.len()];
        for update in &chosen {
            let share = update.samples as f64 / total.max(f64::MIN_POSITIVE);
            mean.iter_mut()
                .zip(&update.delta)
                .for_each(|(m, d)| *m += share * f64::from(*d));
        }
        advance(&mut server.weights, mean.into_iter());
        server.version += 1;
        Ok(())
    }
}

/// Multi-Krum's choice, then in every coordinate the mean of the values closest to their median.
#[derive(Clone, Copy, Debug)]
pub struct Bulyan {
    /// How many clients may be malicious.
    pub malicious: usize,
}

impl Strategy for Bulyan {
    fn name(&self) -> &'static str {
        "bulyan"
    }

    fn need(&self) -> Need {
        Need::Every
    }

    fn fewest(&self) -> usize {
        4 * self.malicious + 3
    }

    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        let updates = gathered.every()?;
        let (count, least) = (updates.len(), self.fewest());
        setting(count >= least, || {
            format!(
                "bulyan against {} malicious clients needs {least} updates, not {count}",
                self.malicious
            )
        })?;
        let chosen = closest(updates, self.malicious, count - 2 * self.malicious);
        let kept = chosen.len() - 2 * self.malicious;
        let mean = by_coordinate(&chosen, |values| {
            let middle = median(values) as f32;
            values.sort_by(|a, b| {
                (a - middle)
                    .abs()
                    .total_cmp(&(b - middle).abs())
                    .then(a.total_cmp(b))
            });
            values[..kept].iter().map(|&v| f64::from(v)).sum::<f64>() / kept as f64
        });
        advance(&mut server.weights, mean.into_iter());
        server.version += 1;
        Ok(())
    }
}

/// The `keep` updates with the least sum of squared distances to their nearest neighbours; of equals the first clients'.
fn closest(updates: Vec<&ClientUpdate>, malicious: usize, keep: usize) -> Vec<&ClientUpdate> {
    let n = updates.len();
    let mut squares = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..i {
            let d = square_distance(&updates[i].delta, &updates[j].delta);
            (squares[i * n + j], squares[j * n + i]) = (d, d);
        }
    }
    let neighbours = n.saturating_sub(malicious + 2).max(1);
    let score = |i: usize| -> f64 {
        let mut others: Vec<f64> = (0..n).filter(|&j| j != i).map(|j| squares[i * n + j]).collect();
        others.sort_by(f64::total_cmp);
        others.iter().take(neighbours).sum()
    };
    let mut ranked: Vec<(f64, &ClientUpdate)> = updates
        .into_iter()
        .enumerate()
        .map(|(i, u)| (score(i), u))
        .collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.client.cmp(&b.1.client)));
    ranked.into_iter().take(keep.max(1)).map(|(_, u)| u).collect()
}

fn square_distance(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2))
        .sum()
}
