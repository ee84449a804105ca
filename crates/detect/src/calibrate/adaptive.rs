//! A threshold that keeps to a budget of false alarms while data drift.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{ONE_EVENT, Verdict};
use crate::smooth::quantile_of;

/// How far above the usual level an alarm begins, in units of a typical day's 98th percentile, at two alarms per
/// node-month; and how much further for each factor e fewer.
const OPEN: f32 = 1.9;
const PER_FACTOR: f64 = 0.5;

/// An alarm ends when the score has come back to this share of the way.
const CLOSE: f32 = 0.6;

/// Windows that stand for how the node has been of late.
const RECENT: usize = 2880;

/// An alarm that has stood for this many windows is how the node is now: the reference begins anew with it.
const HABIT: usize = 960;

/// Windows between two looks at the reference.
const EVERY: usize = 60;

/// How far the threshold rises towards the highest alarm of late.
const TOWARDS: f32 = 0.5;

/// The most alarms that chance gives where the budget allows one, but for one time in a hundred.
const BY_CHANCE: usize = 4;

/// A score above 1 by this much is not reached on a typical day of training.
const EVERY_DAY: f32 = 1.25;

/// The state of a threshold that follows the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adaptive {
    open: f32,
    /// Windows in which the budget allows one alarm, and windows between alarms that are not one.
    spacing: usize,
    gap: usize,
    recent: VecDeque<f32>,
    level: f32,
    now: usize,
    began: Option<usize>,
    /// Scores since the alarm that stands began.
    since: Vec<f32>,
    last: Option<usize>,
    /// When alarms of late began, and how high the measured score rose.
    alarms: VecDeque<(usize, f32)>,
    #[serde(skip)]
    sorted: Room,
}

/// Room to put numbers in order, which remembers nothing.
#[derive(Clone, Debug, Default)]
struct Room(Vec<f32>);

impl PartialEq for Room {
    fn eq(&self, _: &Room) -> bool {
        true
    }
}

impl Adaptive {
    /// From training scores at a distance of `step` seconds, for a number of alarms in 30 days.
    pub(super) fn new(reference: &[f32], per_month: f64, step: i64) -> Adaptive {
        let step = step.max(1);
        let from = reference.len().saturating_sub(RECENT);
        Adaptive {
            open: OPEN + (PER_FACTOR * (2.0 / per_month).ln()) as f32,
            spacing: (30.0 * 86_400.0 / per_month / step as f64) as usize,
            gap: (ONE_EVENT / step).max(1) as usize,
            recent: reference[from..].iter().copied().collect(),
            level: 0.0,
            now: 0,
            began: None,
            since: vec![],
            last: None,
            alarms: VecDeque::new(),
            sorted: Room::default(),
        }
    }

    pub(super) fn push(&mut self, score: f32, measured: f32) -> Verdict {
        let now = self.now;
        self.now += 1;
        let adopted = self.began.is_some_and(|began| now - began >= HABIT);
        if self.began.is_some_and(|began| now - began == HABIT) {
            // What has lasted so long is no incident but a new regime: the past says nothing of it.
            self.recent.clear();
            self.recent.extend(self.since.drain(..));
            self.look();
        }
        if now.is_multiple_of(EVERY) {
            self.look();
        }
        self.forget(now);
        let threshold = self.threshold();
        match self.began {
            None if score >= threshold => self.begin(now, measured),
            Some(_) if score < above(self.level, CLOSE * self.open) => self.began = None,
            _ => {}
        }
        if let Some(began) = self.began {
            self.last = Some(now);
            if let Some((_, peak)) = self.alarms.back_mut() {
                *peak = peak.max(measured);
            }
            if now - began < HABIT && !score.is_nan() {
                self.since.push(score);
            }
        }
        // What is held to be unusual does not teach what is usual.
        if self.began.is_none_or(|began| now - began >= HABIT) && !score.is_nan() {
            self.recent.push_back(score);
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
        }
        Verdict {
            threshold,
            alarm: self.began.is_some(),
            adopted,
        }
    }

    fn begin(&mut self, now: usize, measured: f32) {
        self.began = Some(now);
        self.since.clear();
        if self.last.is_none_or(|last| now - last > self.gap) {
            self.alarms.push_back((now, measured));
        }
    }

    fn look(&mut self) {
        self.sorted.0.clear();
        self.sorted.0.extend(&self.recent);
        self.level = quantile_of(&mut self.sorted.0, 0.5);
    }

    fn forget(&mut self, now: usize) {
        while self
            .alarms
            .front()
            .is_some_and(|(began, ..)| now - began > self.spacing)
        {
            self.alarms.pop_front();
        }
    }

    /// After an alarm the next must rise nearer to it, for as long as the budget allows but one: a node that is noisy by
    /// nature does not spend the whole night's patience. And what it has reached in that time more often than by chance is
    /// its way, and no news.
    fn threshold(&self) -> f32 {
        // However quiet the node has become, what training windows reach every day is no alarm.
        let threshold = above(self.level, self.open).max(EVERY_DAY);
        // The highest peaks, the highest first.
        let mut peaks = [None; BY_CHANCE];
        for (_, peak) in &self.alarms {
            let lower = |other: &Option<f32>| other.is_none_or(|other| peak.total_cmp(&other).is_gt());
            if let Some(place) = peaks.iter().position(lower) {
                peaks[place..].rotate_right(1);
                peaks[place] = Some(*peak);
            }
        }
        let highest = peaks[0].map_or(threshold, |peak: f32| peak.max(threshold));
        let known = peaks[BY_CHANCE - 1].map_or(threshold, f32::next_up);
        (threshold + TOWARDS * (highest - threshold)).max(known)
    }
}

/// A score that stands out from a level as `open` stands out from 0. Scores are logarithms of energies: when drift adds
/// energy of its own, the same incident stands out by less.
fn above(level: f32, open: f32) -> f32 {
    match level > 0.0 {
        true => (level.exp() - 1.0 + open.exp()).ln(),
        false => level + open,
    }
}

#[cfg(test)]
mod tests {
    use super::super::noise;
    use super::super::{Calibrator, Policy};
    use super::*;
    use crate::budget::AlarmBudget;
    use synod_evaluate::beyond_chance;

    /// A score to which a lasting cause adds energy.
    fn raised(score: f32, by: f32) -> f32 {
        (score.exp() + by.exp() - 1.0).ln()
    }

    fn calibrator() -> Calibrator {
        Calibrator::new(&noise(3000, 1), AlarmBudget::default(), 900)
    }

    fn verdicts(mut calibrator: Calibrator, scores: &[f32]) -> Vec<Verdict> {
        scores.iter().map(|s| calibrator.push(*s, *s)).collect()
    }

    fn alarms(scores: &[f32]) -> Vec<bool> {
        verdicts(calibrator(), scores).iter().map(|v| v.alarm).collect()
    }

    #[test]
    fn a_burst_is_one_alarm_that_ends_below_where_it_began() {
        let mut scores = noise(200, 2);
        scores[100..110].fill(3.0);
        scores[110..115].fill(1.3);
        let alarms = alarms(&scores);
        let windows: Vec<usize> = (0..200).filter(|i| alarms[*i]).collect();
        assert_eq!(windows, (100..115).collect::<Vec<_>>());
    }

    #[test]
    fn a_lasting_fault_stays_an_alarm_for_days_and_then_becomes_how_the_node_is() {
        let mut scores = noise(3000, 3);
        scores[500..].iter_mut().for_each(|s| *s = raised(*s, 3.0));
        let alarms = alarms(&scores);
        assert!(
            alarms[500..500 + HABIT].iter().all(|a| *a),
            "ten days of 15-minute windows"
        );
        assert!(!alarms[500 + HABIT + EVERY..].contains(&true), "then it is known");
    }

    #[test]
    fn slow_drift_raises_no_alarm() {
        let mut scores = noise(30_000, 4);
        scores
            .iter_mut()
            .enumerate()
            .for_each(|(i, s)| *s = raised(*s, 3.0 * i as f32 / 30_000.0));
        assert!(!alarms(&scores).contains(&true));
    }

    #[test]
    fn a_noisy_node_does_not_spend_the_budget_many_times_over() {
        let mut scores = noise(2880, 5);
        scores.iter_mut().step_by(48).for_each(|s| *s = 2.0);
        let begun = |scores: &[f32]| {
            let alarms = alarms(scores);
            alarms.windows(2).filter(|a| !a[0] && a[1]).count()
        };
        let mut higher = scores.clone();
        higher[10] = 4.0;
        assert!(
            begun(&higher) < 40 && begun(&higher) < begun(&scores),
            "a high alarm quietens the smaller ones after it: {} of {}",
            begun(&higher),
            begun(&scores)
        );
    }

    #[test]
    fn what_a_node_has_reached_as_often_as_chance_allows_is_no_news_until_the_budget_allows_another() {
        assert!(!beyond_chance(BY_CHANCE, 1.0) && beyond_chance(BY_CHANCE + 1, 1.0));
        let mut scores = noise(2880, 8);
        scores.iter_mut().skip(20).step_by(96).for_each(|s| *s = 2.5);
        scores[1000] = 3.5;
        let alarms = alarms(&scores);
        let spacing = 15 * 96;
        let begun: Vec<usize> = (1..2880).filter(|i| alarms[*i] && !alarms[i - 1]).collect();
        let repeated = begun.iter().filter(|i| **i < spacing && **i != 1000).count();
        assert_eq!(repeated, BY_CHANCE, "the same every day: {begun:?}");
        assert!(begun.contains(&1000), "a higher one is heard: {begun:?}");
        assert!(
            begun.iter().any(|i| *i > 1000 + spacing),
            "then it is forgotten: {begun:?}"
        );
    }

    #[test]
    fn a_smaller_budget_means_a_higher_threshold() {
        let at = |b: f64| {
            Calibrator::new(&noise(3000, 1), AlarmBudget::PerNodeMonth(b), 900)
                .push(0.0, 0.0)
                .threshold
        };
        assert!(at(0.5) > at(2.0) && at(2.0) > at(8.0));
    }

    #[test]
    fn the_future_makes_no_difference_to_the_past() {
        let (mut one, two) = (noise(1000, 6), noise(1000, 7));
        one[600..].copy_from_slice(&two[600..]);
        one[300] = 5.0;
        let mut other = one.clone();
        other[700..].fill(9.0);
        assert_eq!(
            verdicts(calibrator(), &one)[..700],
            verdicts(calibrator(), &other)[..700]
        );
    }
}
