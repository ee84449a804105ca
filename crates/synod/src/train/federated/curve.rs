//! Accuracy over rounds, and when a target was reached.

use serde::{Deserialize, Serialize};

/// Round, accuracy and loss of every evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Curve(Vec<(u64, f64, f64)>);

impl Curve {
    pub(super) fn push(&mut self, round: u64, accuracy: f64, loss: f64) {
        self.0.push((round, accuracy, loss));
    }

    pub(super) fn best(&self) -> Option<f64> {
        self.0.iter().map(|(_, accuracy, _)| *accuracy).reduce(f64::max)
    }

    /// The rounds to an accuracy, as McMahan et al. count them: the curve is made monotone by taking the best so far, and
    /// the crossing lies on the line between the evaluations around it.
    pub(super) fn rounds_to(&self, target: f64) -> Option<f64> {
        let (mut before, mut best) = (0.0, None::<f64>);
        for (round, accuracy, _) in &self.0 {
            let round = *round as f64;
            if *accuracy >= target {
                return Some(match best {
                    Some(best) => before + (target - best) / (accuracy - best) * (round - before),
                    None => round,
                });
            }
            if best.is_none_or(|b| *accuracy > b) {
                best = Some(*accuracy);
            }
            before = round;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crossing_is_interpolated_on_the_best_so_far() {
        let mut curve = Curve::default();
        for (round, accuracy) in [(1, 0.5), (2, 0.9), (3, 0.8), (4, 1.0)] {
            curve.push(round, accuracy, 0.0);
        }
        let near =
            |target: f64, rounds: f64| curve.rounds_to(target).is_some_and(|r| (r - rounds).abs() < 1e-9);
        assert!(near(0.7, 1.5));
        assert!(near(0.95, 3.5), "from the best before, not the last");
        assert_eq!(curve.rounds_to(0.4), Some(1.0));
        assert_eq!((curve.best(), Curve::default().rounds_to(0.1)), (Some(1.0), None));
    }
}
