//! From scores to alarms: a threshold that keeps to a budget of false alarms while data drift.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::budget::AlarmBudget;
use crate::smooth::{quantile, sorted_quantile};

/// What is said of one window.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The score at which an alarm would have begun.
    pub threshold: f32,
    /// Whether an alarm stands.
    pub alarm: bool,
}

/// Turns a node's scores, window after window, into alarms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibrator {
    rule: Rule,
    recent: VecDeque<f32>,
    seen: usize,
    standing: usize,
    middle: f32,
    distance: f32,
}

#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Rule {
    Fixed(f32),
    Adaptive { open: f32, least: f32, every: usize },
}

/// Scores that stand for how the node has been of late.
const RECENT: usize = 1440;

/// An alarm that has stood for this many windows is how the node is now.
const HABIT: usize = 1440;

/// The quantile whose distance from the median measures how scores spread.
const SPREAD: f64 = 0.8;

/// An alarm ends when the score has come this far back towards the middle.
const CLOSE: f32 = 0.6;

/// Seconds of quiet between two alarms that are not one.
pub(crate) const ONE_EVENT: i64 = 3600;

impl Calibrator {
    /// From the scores of training windows, as if they had not been seen, at a distance of `step` seconds.
    pub fn new(reference: &[f32], budget: AlarmBudget, step: i64) -> Calibrator {
        let from = reference.len().saturating_sub(RECENT);
        let recent: VecDeque<f32> = reference[from..].iter().copied().collect();
        let (middle, high) = (quantile(reference, 0.5), quantile(reference, SPREAD));
        let distance = (high - middle).max(1e-3);
        let rule = match budget {
            AlarmBudget::Percentile(p) => Rule::Fixed(quantile(reference, p / 100.0)),
            AlarmBudget::PerNodeMonth(count) => Rule::Adaptive {
                open: (opening(reference, count, step) - middle) / distance,
                least: 0.3 * distance,
                every: (3600 / step.max(1)).max(1) as usize,
            },
        };
        Calibrator {
            rule,
            recent,
            seen: 0,
            standing: 0,
            middle,
            distance,
        }
    }

    /// Judges the next window.
    pub fn push(&mut self, score: f32) -> Verdict {
        let Rule::Adaptive { open, least, every } = self.rule else {
            let Rule::Fixed(threshold) = self.rule else {
                unreachable!("there are two rules")
            };
            return Verdict {
                threshold,
                alarm: score > threshold,
            };
        };
        if self.seen.is_multiple_of(every) && !self.recent.is_empty() {
            let mut sorted: Vec<f32> = self.recent.iter().copied().collect();
            sorted.sort_unstable_by(f32::total_cmp);
            self.middle = sorted_quantile(&sorted, 0.5);
            self.distance = (sorted_quantile(&sorted, SPREAD) - self.middle).max(least);
        }
        self.seen += 1;
        let threshold = self.middle + open * self.distance;
        let close = self.middle + CLOSE * open * self.distance;
        let alarm = score >= threshold || (self.standing > 0 && score >= close);
        self.standing = if alarm { self.standing + 1 } else { 0 };
        // What is held to be unusual does not teach what is usual, unless it has become so.
        if !alarm || self.standing > HABIT {
            if self.recent.len() >= RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(score);
        }
        Verdict { threshold, alarm }
    }

    /// Judges windows in order.
    pub fn judge(&mut self, scores: &[f32]) -> Vec<Verdict> {
        scores.iter().map(|s| self.push(*s)).collect()
    }
}

/// The lowest score at which the training windows would have given no more alarms than the budget.
fn opening(reference: &[f32], per_month: f64, step: i64) -> f32 {
    let months = reference.len() as f64 * step as f64 / (30.0 * 86_400.0);
    let allowed = per_month * months;
    let gap = (ONE_EVENT / step.max(1)).max(1) as usize;
    let mut sorted = reference.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    let floor = sorted_quantile(&sorted, 0.8);
    let mut lowest = sorted.last().copied().unwrap_or(0.0);
    let mut candidates: Vec<f32> = sorted.into_iter().filter(|s| *s > floor).collect();
    candidates.reverse();
    let stride = (candidates.len() / 400).max(1);
    for candidate in candidates.into_iter().step_by(stride) {
        if events(reference, candidate, gap) as f64 > allowed {
            break;
        }
        lowest = candidate;
    }
    lowest
}

/// Runs of scores at or above a threshold, those closer than `gap` windows taken as one.
fn events(scores: &[f32], threshold: f32, gap: usize) -> usize {
    let mut last: Option<usize> = None;
    let mut count = 0;
    for (i, _) in scores.iter().enumerate().filter(|(_, s)| **s >= threshold) {
        if last.is_none_or(|l| i - l > gap) {
            count += 1;
        }
        last = Some(i);
    }
    count
}
