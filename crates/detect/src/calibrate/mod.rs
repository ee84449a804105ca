//! From scores to alarms: rules that keep to a budget of false alarms.

mod adaptive;
mod conformal;
mod moving;
mod persistence;
mod policy;
mod runs;
mod tail;
#[cfg(test)]
mod testing;

use serde::{Deserialize, Serialize};

pub use adaptive::Adaptive;
pub use conformal::{AdaptiveConformal, Conformal, p_value};
pub use moving::Moving;
pub use persistence::{Persistence, Persistent};
pub use policy::{AlarmPolicy, Rule};
pub use tail::{Pareto, Tail};

use crate::budget::AlarmBudget;
use crate::model::Scores;
use crate::smooth::quantile;

/// Seconds of quiet between two alarms that are not one.
pub(crate) const ONE_EVENT: i64 = 3600;

/// What is said of one window.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The score at which an alarm would have begun.
    pub threshold: f32,
    /// Whether an alarm stands.
    pub alarm: bool,
}

/// Turns a node's scores, window after window, into alarms. It looks only backwards and needs no labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Calibrator {
    /// One threshold for ever.
    Fixed(f32),
    /// A threshold that follows the node.
    Adaptive(Adaptive),
    /// The rank of a score among the training scores.
    Conformal(Conformal),
    /// The rank among the scores of late, by a level that makes up for past alarms.
    AdaptiveConformal(AdaptiveConformal),
    /// A threshold from the tail of the training scores.
    Tail(Tail),
    /// So many deviations above the moving mean.
    Moving(Moving),
    /// Another rule, heard when it says so in several windows.
    Persistent(Persistent),
}

impl Calibrator {
    /// The default rule, from the scores of training windows, as if they had not been seen, at a distance of `step`
    /// seconds.
    pub fn new(reference: &[f32], budget: AlarmBudget, step: i64) -> Calibrator {
        let policy = AlarmPolicy {
            budget,
            ..AlarmPolicy::default()
        };
        Calibrator::by(&policy, reference, step)
    }

    /// Any rule. A budget that is a percentile is a rule by itself. Without a reference only the adaptive rule and the
    /// percentile raise alarms.
    pub fn by(policy: &AlarmPolicy, reference: &[f32], step: i64) -> Calibrator {
        let step = step.max(1);
        let rule = match (policy.budget, policy.rule) {
            (AlarmBudget::Percentile(p), _) => Calibrator::Fixed(quantile(reference, p / 100.0)),
            (AlarmBudget::PerNodeMonth(b), Rule::Adaptive) => {
                Calibrator::Adaptive(Adaptive::new(reference, b, step))
            }
            (AlarmBudget::PerNodeMonth(b), Rule::Conformal) => {
                Calibrator::Conformal(Conformal::new(reference, b, step))
            }
            (AlarmBudget::PerNodeMonth(b), Rule::AdaptiveConformal) => {
                Calibrator::AdaptiveConformal(AdaptiveConformal::new(reference, b, step))
            }
            (AlarmBudget::PerNodeMonth(b), Rule::Tail) => Calibrator::Tail(Tail::new(reference, b, step)),
            (AlarmBudget::PerNodeMonth(b), Rule::Moving) => {
                Calibrator::Moving(Moving::new(reference, b, step))
            }
        };
        match policy.persistence {
            Some(persistence) => Calibrator::Persistent(Persistent::new(rule, persistence)),
            None => rule,
        }
    }

    /// Judges the next window by its score; one that is NaN begins no alarm. `measured` is the score without what silence
    /// added: that a node once fell silent is no reason for the adaptive rule to listen to it less.
    pub fn push(&mut self, score: f32, measured: f32) -> Verdict {
        match self {
            Calibrator::Fixed(threshold) => Verdict {
                threshold: *threshold,
                alarm: score > *threshold,
            },
            Calibrator::Adaptive(rule) => rule.push(score, measured),
            Calibrator::Conformal(rule) => rule.push(score),
            Calibrator::AdaptiveConformal(rule) => rule.push(score),
            Calibrator::Tail(rule) => rule.push(score),
            Calibrator::Moving(rule) => rule.push(score),
            Calibrator::Persistent(rule) => rule.push(score, measured),
        }
    }

    /// Judges windows in order.
    pub fn judge(&mut self, scores: &Scores) -> Vec<Verdict> {
        let pairs = scores.total.iter().zip(&scores.measured);
        pairs
            .map(|(score, measured)| self.push(*score, *measured))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{noise, policies, verdicts};
    use super::*;

    #[test]
    fn no_rule_looks_ahead() {
        let reference = noise(3000, 1);
        let mut one = noise(2000, 2);
        one[600..620].fill(4.0);
        let mut other = one.clone();
        other[1200..].fill(9.0);
        for policy in policies() {
            let judge = |scores: &[f32]| verdicts(&mut Calibrator::by(&policy, &reference, 900), scores);
            let (a, b) = (judge(&one), judge(&other));
            assert_eq!(a[..1200], b[..1200], "{policy}");
            assert_ne!(a[1200..], b[1200..], "{policy}");
        }
    }

    #[test]
    fn a_burst_is_found_by_every_rule_and_noise_is_not() {
        let reference = noise(3000, 1);
        let mut scores = noise(1000, 2);
        scores[500..520].fill(4.0);
        for policy in policies() {
            let found = verdicts(&mut Calibrator::by(&policy, &reference, 900), &scores);
            assert!(found[500..520].iter().any(|v| v.alarm), "{policy}");
            let false_alarms = found[..500].iter().filter(|v| v.alarm).count();
            assert!(false_alarms <= 20, "{policy}: {false_alarms} of 500 windows");
        }
    }

    #[test]
    fn no_reference_however_poor_and_no_score_makes_a_rule_panic() {
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
        for policy in policies() {
            for reference in poor {
                for step in [i64::MIN, -1, 0, 1, 900, i64::MAX] {
                    let mut rule = Calibrator::by(&policy, reference, step);
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
        for policy in policies() {
            let mut with_nan = Calibrator::by(&policy, &reference, 900);
            assert!(
                verdicts(&mut with_nan, &[f32::NAN; 2000])
                    .iter()
                    .all(|v| !v.alarm),
                "{policy}"
            );
            let found = verdicts(&mut with_nan, &scores);
            assert!(found[300..310].iter().any(|v| v.alarm), "{policy}");
        }
    }

    #[test]
    fn a_smaller_budget_never_lowers_a_threshold() {
        let reference = noise(3000, 1);
        for policy in policies() {
            let threshold = |budget: f64| {
                let policy = AlarmPolicy {
                    budget: AlarmBudget::PerNodeMonth(budget),
                    ..policy
                };
                Calibrator::by(&policy, &reference, 900).push(0.0, 0.0).threshold
            };
            assert!(threshold(0.5) >= threshold(4.0), "{policy}");
            assert!(threshold(4.0) > threshold(30.0), "{policy}");
        }
    }
}
