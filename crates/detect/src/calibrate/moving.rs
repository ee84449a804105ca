//! A moving mean and so many deviations.
//!
//! An alarm is a score above m + δ d, where m is the exponential moving mean of the scores before and d the root of the
//! moving mean of their squared distances from it. δ is what the budget allows in the reference: the distances (s − m) / d of
//! its windows are treated as [`Tail`] treats scores. A score above the threshold moves mean and deviation as if it were at
//! the threshold, so a burst hardly does and what lasts longer than the mean's memory, a day, is how the node is now.

use serde::{Deserialize, Serialize};

use super::{Tail, Verdict};
use crate::smooth::quantile;

/// Seconds that the mean remembers, and the fewest windows.
const MEMORY: i64 = 86_400;
const FEWEST: usize = 16;

/// The least deviation, in those of the whole reference: a quiet day does not make the next whisper an alarm.
const LEAST: f64 = 0.25;

/// Alarms above the moving mean by so many moving deviations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moving {
    delta: f64,
    share: f64,
    mean: f64,
    square: f64,
    least: f64,
}

impl Moving {
    pub(super) fn new(reference: &[f32], budget: f64, step: i64) -> Moving {
        let known: Vec<f32> = reference.iter().copied().filter(|s| s.is_finite()).collect();
        let windows = ((MEMORY / step.max(1)) as usize).max(FEWEST);
        let middle = f64::from(quantile(&known, 0.5));
        let square = |s: &f32| (f64::from(*s) - middle).powi(2);
        let spread = known.iter().map(square).sum::<f64>() / known.len().max(1) as f64;
        let mut moving = Moving {
            delta: f64::INFINITY,
            share: 2.0 / (windows as f64 + 1.0),
            mean: middle,
            square: spread,
            least: (LEAST * spread.sqrt()).max(1e-6),
        };
        let mut distance = |score: &f32| {
            let distance = (f64::from(*score) - moving.mean) / moving.deviation();
            moving.learn(f64::from(*score));
            distance as f32
        };
        let distances: Vec<f32> = known.iter().map(&mut distance).collect();
        moving.delta = f64::from(Tail::new(&distances, budget, step).threshold());
        moving
    }

    fn deviation(&self) -> f64 {
        self.square.sqrt().max(self.least)
    }

    fn learn(&mut self, score: f64) {
        let distance = score - self.mean;
        self.mean += self.share * distance;
        self.square += self.share * (distance * distance - self.square);
    }

    pub(super) fn push(&mut self, score: f32) -> Verdict {
        let threshold = (self.mean + self.delta * self.deviation()) as f32;
        let alarm = score > threshold;
        if score.is_finite() {
            self.learn(f64::from(score.min(threshold)));
        }
        Verdict { threshold, alarm }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::noise;
    use super::*;

    #[test]
    fn the_threshold_is_the_mean_and_delta_deviations() {
        let mut moving = Moving {
            delta: 3.0,
            share: 0.5,
            mean: 1.0,
            square: 4.0,
            least: 0.1,
        };
        assert_eq!(
            moving.push(3.0),
            Verdict {
                threshold: 7.0,
                alarm: false
            }
        );
        // Halfway to 3, and halfway from 4 to the square of 2.
        assert_eq!((moving.mean, moving.square), (2.0, 4.0));
        assert!(moving.push(100.0).alarm);
        // As if it were 8, the threshold.
        assert_eq!((moving.mean, moving.square), (5.0, 20.0));
    }

    #[test]
    fn a_level_that_rises_slowly_is_followed_and_a_step_is_not() {
        let reference = noise(3000, 1);
        let rising: Vec<f32> = (0..)
            .zip(noise(3000, 2))
            .map(|(i, s)| s + i as f32 / 2000.0)
            .collect();
        let mut moving = Moving::new(&reference, 2.0, 900);
        let mut fixed = Tail::new(&reference, 2.0, 900);
        let followed = rising.iter().filter(|s| moving.push(**s).alarm).count();
        let exceeded = rising.iter().filter(|s| fixed.push(**s).alarm).count();
        assert!(followed < 150 && exceeded > 1500, "{followed}, {exceeded}");
        let mut moving = Moving::new(&reference, 2.0, 900);
        let step = noise(24, 2).into_iter().filter(|s| moving.push(s + 3.0).alarm);
        assert_eq!(step.count(), 24, "six hours");
    }

    #[test]
    fn what_lasts_for_days_is_how_the_node_is() {
        let mut rule = Moving::new(&noise(3000, 1), 2.0, 900);
        let after: Vec<f32> = noise(3000, 2).into_iter().map(|s| s + 3.0).collect();
        let alarms: Vec<bool> = after.iter().map(|s| rule.push(*s).alarm).collect();
        let late = alarms[480..].iter().filter(|a| **a).count();
        assert!(late < 20, "{late} of {} after five days", alarms.len() - 480);
    }
}
