//! From scores to alarms: policies that keep to a budget of false alarms.

mod adaptive;
mod p_value;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use adaptive::Adaptive;
pub use p_value::p_value;

use crate::budget::AlarmBudget;
use crate::smooth::quantile;

/// Seconds of quiet between two alarms that are not one.
pub const ONE_EVENT: i64 = 3600;

/// What is said of one window.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The score at which an alarm would have begun.
    pub threshold: f32,
    /// Whether an alarm stands.
    pub alarm: bool,
    /// Whether the alarm that stands, or stood until this window, has become what is usual of the node.
    pub adopted: bool,
}

/// When alarms are raised: turns a node's scores, window after window, into verdicts. It looks only backwards and needs no labels.
/// A stored one is resumed where it was.
pub trait Policy: Serialize + DeserializeOwned {
    /// Judges the next window by its score; one that is NaN begins no alarm. `measured` is the score without what silence
    /// added: that a node once fell silent is no reason to listen to it less.
    fn push(&mut self, score: f32, measured: f32) -> Verdict;
}

/// The policies of a budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Calibrator {
    /// One threshold for ever.
    Fixed(f32),
    /// A threshold that follows the node.
    Adaptive(Adaptive),
}

impl Calibrator {
    /// From the scores of training windows, as if they had not been seen, at a distance of `step` seconds.
    pub fn new(reference: &[f32], budget: AlarmBudget, step: i64) -> Calibrator {
        match budget {
            AlarmBudget::Percentile(p) => Calibrator::Fixed(quantile(reference, p / 100.0)),
            AlarmBudget::PerNodeMonth(b) => Calibrator::Adaptive(Adaptive::new(reference, b, step)),
        }
    }
}

impl Policy for Calibrator {
    fn push(&mut self, score: f32, measured: f32) -> Verdict {
        match self {
            Calibrator::Fixed(threshold) => Verdict {
                threshold: *threshold,
                alarm: score > *threshold,
                adopted: false,
            },
            Calibrator::Adaptive(rule) => rule.push(score, measured),
        }
    }
}

/// Numbers between -0.5 and 0.5.
#[cfg(test)]
fn noise(count: usize, salt: u64) -> Vec<f32> {
    let mut random = synod_core::Random::from_state(salt);
    (0..count).map(|_| random.uniform() as f32 - 0.5).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGETS: [AlarmBudget; 3] = [
        AlarmBudget::PerNodeMonth(2.0),
        AlarmBudget::PerNodeMonth(0.1),
        AlarmBudget::Percentile(98.0),
    ];

    fn verdicts(calibrator: &mut Calibrator, scores: &[f32]) -> Vec<Verdict> {
        scores.iter().map(|s| calibrator.push(*s, *s)).collect()
    }

    #[test]
    fn nothing_looks_ahead() {
        let reference = noise(3000, 1);
        let mut one = noise(2000, 2);
        one[600..620].fill(4.0);
        let mut other = one.clone();
        other[1200..].fill(9.0);
        for budget in BUDGETS {
            let judge = |scores: &[f32]| verdicts(&mut Calibrator::new(&reference, budget, 900), scores);
            let (a, b) = (judge(&one), judge(&other));
            assert_eq!(a[..1200], b[..1200], "{budget}");
            assert_ne!(a[1200..], b[1200..], "{budget}");
        }
    }

    #[test]
    fn a_burst_is_found_and_noise_is_not() {
        let reference = noise(3000, 1);
        let mut scores = noise(1000, 2);
        scores[500..520].fill(4.0);
        for budget in BUDGETS {
            let found = verdicts(&mut Calibrator::new(&reference, budget, 900), &scores);
            assert!(found[500..520].iter().any(|v| v.alarm), "{budget}");
            let false_alarms = found[..500].iter().filter(|v| v.alarm).count();
            assert!(false_alarms <= 20, "{budget}: {false_alarms} of 500 windows");
        }
    }

    #[test]
    fn no_reference_however_poor_and_no_score_makes_it_panic() {
        let poor: [&[f32]; 7] = [
            &[],
            &[1.0],
            &[2.0; 300],
            &[f32::NAN; 40],
            &[f32::INFINITY, f32::NEG_INFINITY, 0.0, f32::NAN],
            &[f32::MAX, f32::MIN, f32::MAX],
            &[1.0, 2.0, 3.0],
        ];
        let scores = [
            0.0,
            f32::NAN,
            1e30,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
            5.0,
        ];
        for budget in BUDGETS {
            for reference in poor {
                for step in [i64::MIN, -1, 0, 1, 900, i64::MAX] {
                    let mut rule = Calibrator::new(reference, budget, step);
                    for _ in 0..300 {
                        assert_eq!(verdicts(&mut rule, &scores).len(), scores.len());
                    }
                }
            }
        }
    }

    #[test]
    fn a_score_that_is_nan_is_no_alarm_and_leaves_no_trace() {
        let reference = noise(3000, 1);
        let mut scores = noise(400, 3);
        scores[300..310].fill(4.0);
        for budget in BUDGETS {
            let mut with_nan = Calibrator::new(&reference, budget, 900);
            let nan = verdicts(&mut with_nan, &[f32::NAN; 2000]);
            assert!(nan.iter().all(|v| !v.alarm), "{budget}");
            let found = verdicts(&mut with_nan, &scores);
            assert!(found[300..310].iter().any(|v| v.alarm), "{budget}");
        }
    }

    #[test]
    fn a_smaller_budget_never_lowers_a_threshold() {
        let reference = noise(3000, 1);
        let threshold = |budget: f64| {
            let budget = AlarmBudget::PerNodeMonth(budget);
            Calibrator::new(&reference, budget, 900).push(0.0, 0.0).threshold
        };
        assert!(threshold(0.5) >= threshold(4.0));
        assert!(threshold(4.0) > threshold(30.0));
    }
}
