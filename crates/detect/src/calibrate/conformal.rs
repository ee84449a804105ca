//! Split-conformal alarms: the rank of a score among those of training windows that the detector had not seen.
//!
//! The p-value of a score s against n reference scores is (1 + #{r ≥ s}) / (n + 1). If healthy windows are exchangeable with
//! the reference, p ≤ α in at most a share α of them, whatever the distribution.
//!
//! A budget counts alarms, not windows. With B alarms allowed in a month of W windows, and runs of exceedances of L windows
//! on average (counted in the reference above its 98th percentile, runs less than an hour apart being one), α = B · L / W. A
//! level below 1 / (n + 1) could never be reached; α is at least that.

use serde::{Deserialize, Serialize};

use super::{Verdict, runs};
use crate::rolling::Rolling;
use crate::smooth::sorted_quantile;

/// The share of the reference above which runs are counted.
const RUNS_ABOVE: f64 = 0.98;

/// A level above this says nothing of what is unusual.
const HIGHEST_LEVEL: f64 = 0.5;

/// Scores of late that an adaptive reference holds at most.
const MOST: usize = 20_000;

/// The split-conformal p-value of a score: the share of windows like those of the reference that would score as high. None if
/// the reference is empty or the score NaN.
pub fn p_value(reference: &[f32], score: f32) -> Option<f64> {
    let known = reference.iter().filter(|r| !r.is_nan());
    let (count, higher) = known.fold((0usize, 0usize), |(n, h), r| {
        (n + 1, h + usize::from(*r >= score))
    });
    (count > 0 && !score.is_nan()).then(|| (1 + higher) as f64 / (count + 1) as f64)
}

/// The level of a budget, and the mean length of runs it was found with.
fn level(reference: &[f32], sorted: &[f32], budget: f64, step: i64) -> (f64, f64) {
    let length = runs::mean_length(reference, sorted_quantile(sorted, RUNS_ABOVE), runs::gap(step));
    let level = budget * length / runs::per_month(step);
    let least = 1.0 / (sorted.len() + 1) as f64;
    (level.min(HIGHEST_LEVEL).max(least), length)
}

/// The score that must be exceeded for p ≤ α: the largest but k, where k + 1 = ⌊α (n + 1)⌋. Nothing exceeds it if α cannot be
/// reached.
fn threshold(sorted: &[f32], level: f64) -> f32 {
    // A level of exactly k / (n + 1) may come out a little below k.
    let reachable = (level * (sorted.len() + 1) as f64 + 1e-9).floor();
    if sorted.is_empty() || reachable < 1.0 {
        return f32::INFINITY;
    }
    let above = (reachable as usize - 1).min(sorted.len() - 1);
    sorted[sorted.len() - 1 - above]
}

/// Alarms where the p-value is at most α.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conformal {
    level: f64,
    threshold: f32,
}

impl Conformal {
    pub(super) fn new(reference: &[f32], budget: f64, step: i64) -> Conformal {
        let scores = Rolling::of(reference);
        let (level, _) = level(reference, scores.sorted(), budget, step);
        Conformal {
            level,
            threshold: threshold(scores.sorted(), level),
        }
    }

    /// The α below which a p-value is an alarm.
    pub fn level(&self) -> f64 {
        self.level
    }

    pub(super) fn push(&mut self, score: f32) -> Verdict {
        Verdict {
            threshold: self.threshold,
            alarm: score > self.threshold,
        }
    }
}

/// Adaptive conformal inference: α moves so that in the long run windows are in alarm as often as the budget has it,
/// however the data drift.
///
/// After every window αₜ₊₁ = αₜ + γ (α − eₜ), where eₜ is 1 in an alarm and else 0, and γ = α / max(2L, D) with D the windows
/// of a day: an alarm may last a day before α is spent, and n windows have at most α n + max(2L, D) + 1 in alarm. αₜ stays
/// between −γ, where nothing is an alarm, and 2α. The reference rolls on with the scores that were no alarms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdaptiveConformal {
    wanted: f64,
    rate: f64,
    level: f64,
    reference: Rolling,
    most: usize,
}

impl AdaptiveConformal {
    pub(super) fn new(reference: &[f32], budget: f64, step: i64) -> AdaptiveConformal {
        let scores = Rolling::of(&reference[reference.len().saturating_sub(MOST)..]);
        let (wanted, length) = level(reference, scores.sorted(), budget, step);
        AdaptiveConformal {
            wanted,
            rate: wanted / (2.0 * length).max(86_400.0 / step.max(1) as f64),
            level: wanted,
            most: scores.len(),
            reference: scores,
        }
    }

    /// α as it is now.
    pub fn level(&self) -> f64 {
        self.level
    }

    pub(super) fn push(&mut self, score: f32) -> Verdict {
        let threshold = threshold(self.reference.sorted(), self.level);
        let alarm = score > threshold;
        if !score.is_nan() {
            let error = if alarm { 1.0 } else { 0.0 };
            let level = self.level + self.rate * (self.wanted - error);
            self.level = level.clamp(-self.rate, (2.0 * self.wanted).min(HIGHEST_LEVEL));
        }
        // What is held to be unusual does not teach what is usual.
        if !alarm && self.most > 0 {
            self.reference.push(score);
            if self.reference.len() > self.most {
                self.reference.pop();
            }
        }
        Verdict { threshold, alarm }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::noise;
    use super::*;

    #[test]
    fn a_p_value_is_the_rank_among_the_reference() {
        let reference = [3.0, 1.0, 2.0, f32::NAN, 4.0];
        let p = |score: f32| p_value(&reference, score);
        assert_eq!(
            [p(5.0), p(4.0), p(2.5), p(0.0)].map(Option::unwrap),
            [0.2, 0.4, 0.6, 1.0]
        );
        assert_eq!((p(f32::NAN), p_value(&[], 1.0)), (None, None));
    }

    #[test]
    fn among_exchangeable_scores_p_is_at_most_alpha_in_a_share_alpha() {
        // 40 references of 199 scores and 250 new scores each. For fixed α, the share of p ≤ α is α on average.
        let draws = noise(40 * 449, 9);
        for alpha in [0.01, 0.05, 0.2] {
            let share = |draws: &[f32]| {
                let (reference, new) = draws.split_at(199);
                let low = new
                    .iter()
                    .filter(|s| p_value(reference, **s) <= Some(alpha))
                    .count();
                low as f64 / new.len() as f64
            };
            let mean = draws.chunks(449).map(share).sum::<f64>() / 40.0;
            // Four standard errors: those of 10,000 draws and of 40 references.
            let wide = 4.0 * (alpha * (1.0 - alpha) * (1.0 / 10_000.0 + 1.0 / (40.0 * 200.0))).sqrt();
            assert!((mean - alpha).abs() < wide, "α {alpha}: {mean}");
        }
    }

    #[test]
    fn the_threshold_is_where_p_crosses_alpha() {
        let reference = noise(99, 4);
        let sorted = Rolling::of(&reference);
        for alpha in [0.01, 0.013, 0.02, 0.1, 0.37, 0.99] {
            let threshold = threshold(sorted.sorted(), alpha);
            for score in noise(500, 5).into_iter().chain(reference.iter().copied()) {
                let low = p_value(&reference, score) <= Some(alpha + 1e-12);
                assert_eq!(score > threshold, low, "α {alpha}, score {score}");
            }
        }
        assert_eq!(
            threshold(sorted.sorted(), 0.009),
            f32::INFINITY,
            "1 / 100 is the least p"
        );
    }

    #[test]
    fn the_level_is_budget_times_length_of_runs_over_windows() {
        // 2,880 windows, two in a hundred above the rest, in runs of 3.
        let mut scores = vec![0.0; 2880];
        (0..19).for_each(|i| scores[100 + i * 140..103 + i * 140].fill(1.0));
        let level = Conformal::new(&scores, 2.0, 900).level();
        assert!((level - 2.0 * 3.0 / 2880.0).abs() < 1e-9, "{level}");
        let few = Conformal::new(&scores[..200], 2.0, 900).level();
        assert!((few - 1.0 / 201.0).abs() < 1e-9, "no p is lower: {few}");
    }

    #[test]
    fn healthy_windows_keep_to_the_budget() {
        let mut rule = Conformal::new(&noise(20_000, 1), 20.0, 900);
        let months = 30;
        let alarms = noise(2880 * months, 2)
            .into_iter()
            .filter(|s| rule.push(*s).alarm);
        let per_month = alarms.count() as f64 / months as f64;
        assert!((10.0..40.0).contains(&per_month), "{per_month}");
    }

    #[test]
    fn under_drift_windows_in_alarm_stay_as_many_as_the_budget_has_it() {
        let drifting = |i: usize, s: f32| s + 3.0 * i as f32 / 60_000.0;
        let scores: Vec<f32> = noise(60_000, 3)
            .into_iter()
            .enumerate()
            .map(|(i, s)| drifting(i, s))
            .collect();
        let reference = noise(3000, 1);
        let mut adaptive = AdaptiveConformal::new(&reference, 20.0, 900);
        let wanted = adaptive.level();
        let share = |alarms: usize| alarms as f64 / scores.len() as f64;
        let found = share(scores.iter().filter(|s| adaptive.push(**s).alarm).count());
        let most = wanted + (96.0 + 1.0) / scores.len() as f64;
        assert!(found <= most, "{found} rather than {wanted}");
        let mut plain = Conformal::new(&reference, 20.0, 900);
        let found = share(scores.iter().filter(|s| plain.push(**s).alarm).count());
        assert!(found > 0.5, "without it the drift is one long alarm: {found}");
    }
}
