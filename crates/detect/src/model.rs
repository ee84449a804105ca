//! A node's detector: fitted once, then asked about any window.

use serde::{Deserialize, Serialize};
use synod_telemetry::{Frame, Truth};

use crate::detector::{Detector, Fitted, Trial};
use crate::error::{Error, Result};
use crate::features::{Features, View};
use crate::habits::Habits;
use crate::recipe::{Member, Recipe};
use crate::smooth::{Average, quantile};

/// Fewer windows than this teach nothing.
pub(crate) const FEWEST_WINDOWS: usize = 50;

/// Sizes below this are all the same.
const NOTHING: f32 = 1e-6;

/// How much a score grows when all usual metrics are silent. Far above any threshold: a node that tells nothing of itself
/// is to be looked at.
const SILENCE: f32 = 20.0;

/// Windows that silence must last to count.
const LASTING: usize = 3;

/// How much a score grows while a metric has been silent, or has stood still, for much longer than ever in training.
/// Just above where an alarm begins, however quiet the rest of the node is.
const BROKEN: f32 = 2.0;

/// How sharply the most alarmed member is heard above the others.
const SHARPNESS: f32 = 0.5;

/// Stretches of training time in which the unit of scores is measured. The median over them is that of a typical stretch,
/// whatever a few odd ones hold.
const STRETCHES: usize = 16;

/// Windows before one that is explained.
const BEFORE: usize = 9;

/// A fitted detector of one node, or of several that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeModel {
    step: i64,
    features: Features,
    members: Vec<Judge>,
    silence: bool,
    habits: Habits,
    unit: Spread,
    /// The scores of the training windows, as far as possible from detectors that had not seen them.
    reference: Vec<f32>,
    trained_on: usize,
}

/// A fitted member, with what its sizes usually are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Judge {
    fitted: Fitted,
    view: View,
    smooth: usize,
    power: f32,
    weight: f32,
    usual: Spread,
}

/// The middle of a distribution and the distance to its 98th percentile.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Spread {
    middle: f32,
    distance: f32,
}

impl Spread {
    fn of(values: &[f32]) -> Spread {
        let middle = quantile(values, 0.5);
        Spread {
            middle,
            distance: (quantile(values, 0.98) - middle).max(0.05),
        }
    }

    fn apply(&self, value: f32) -> f32 {
        (value - self.middle) / self.distance
    }
}

/// What a model makes of a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// One score per window: about 0 for the usual, 1 for what one training window in fifty reaches.
    pub total: Vec<f32>,
    /// The same without what silence added.
    pub measured: Vec<f32>,
    /// The scores of each member, in the order of the recipe.
    pub members: Vec<Vec<f32>>,
    /// The share of the usual metrics that is missing.
    pub silence: Vec<f32>,
}

/// One metric's part in an alarm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contribution {
    /// The metric.
    pub metric: String,
    /// What was measured; none if it was silent.
    pub observed: Option<f32>,
    /// What would have been usual, given the other metrics.
    pub expected: f32,
    /// The metric's share of the score; all add up to 1.
    pub share: f32,
}

impl NodeModel {
    /// Learns from a node's training windows. Windows that are labelled anomalous are left out of the fit.
    pub fn fit(frame: &Frame, recipe: &Recipe) -> Result<NodeModel> {
        let healthy: Vec<bool> = frame.truth().iter().map(|t| *t != Truth::Anomalous).collect();
        let count = healthy.iter().filter(|h| **h).count();
        if count < FEWEST_WINDOWS {
            return Err(Error::Node {
                node: frame.node().to_owned(),
                problem: format!(
                    "{count} healthy training windows are too few to learn from; it takes at least {FEWEST_WINDOWS}"
                ),
            });
        }
        let features = Features::fit(frame, &recipe.features)?;
        let prepared = features.prepare(frame);
        let mut members = vec![];
        let mut training: Vec<Vec<f32>> = vec![];
        for (i, member) in recipe.members.iter().enumerate() {
            let rows = features.view(&prepared, member.view);
            let seed = recipe.seed.wrapping_add(i as u64);
            let mut keep = healthy.clone();
            let mut trial = member.kind.fit(&rows, &keep, recipe.unseen, seed)?;
            if recipe.refine > 0.0 {
                leave_out(&mut keep, &trial.sizes, recipe.refine);
                trial = member.kind.fit(&rows, &keep, recipe.unseen, seed)?;
            }
            if !recipe.unseen {
                trial.sizes = trial.fitted.sizes(&rows);
            }
            let (judge, scores) = Judge::new(member, trial);
            members.push(judge);
            training.push(scores);
        }
        let habits = Habits::learn(&prepared, &healthy, features.width());
        let mut model = NodeModel {
            step: frame.step(),
            features,
            members,
            silence: recipe.silence,
            habits,
            unit: Spread {
                middle: 0.0,
                distance: 1.0,
            },
            reference: vec![],
            trained_on: count,
        };
        let heard = model.hear(&training, &model.habits.silence(&prepared));
        let known = heard.iter().zip(&healthy).filter(|(_, h)| **h);
        model.reference = known.map(|(s, _)| *s).collect();
        if recipe.typical {
            model.unit = typical(&model.reference);
            model.reference.iter_mut().for_each(|s| *s = model.unit.apply(*s));
        }
        Ok(model)
    }

    /// Scores every window of a frame, each from itself and the windows before it.
    pub fn score(&self, frame: &Frame) -> Scores {
        let prepared = self.features.prepare(frame);
        let mut views: Vec<(View, crate::rows::Rows)> = vec![];
        let mut members = vec![];
        for judge in &self.members {
            if !views.iter().any(|(v, _)| *v == judge.view) {
                views.push((judge.view, self.features.view(&prepared, judge.view)));
            }
            let rows = views.iter().find(|(v, _)| *v == judge.view).map(|(_, r)| r);
            members.push(rows.map_or_else(Vec::new, |rows| judge.scores(&judge.fitted.sizes(rows))));
        }
        let silence = self.habits.silence(&prepared);
        let none = vec![0.0; silence.len()];
        let measured = self
            .hear(&members, &none)
            .iter()
            .map(|s| self.unit.apply(*s))
            .collect();
        let mut total: Vec<f32> = self
            .hear(&members, &silence)
            .iter()
            .map(|s| self.unit.apply(*s))
            .collect();
        if self.silence {
            let broken = self.habits.broken(&prepared);
            total
                .iter_mut()
                .zip(broken)
                .filter(|(_, b)| *b)
                .for_each(|(t, _)| *t = t.max(0.0) + BROKEN);
        }
        Scores {
            total,
            measured,
            members,
            silence,
        }
    }

    /// The scores of the training windows, as if they had not been seen.
    pub fn reference(&self) -> &[f32] {
        &self.reference
    }

    /// The usual distance between two windows, in seconds.
    pub fn step(&self) -> i64 {
        self.step
    }

    /// The features the model uses and the metrics it does not.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Healthy windows it was trained on.
    pub fn trained_on(&self) -> usize {
        self.trained_on
    }

    /// Optimiser steps of its networks.
    pub fn steps(&self) -> usize {
        let steps = |j: &Judge| match &j.fitted {
            Fitted::Autoencoder(network) => network.steps(),
            Fitted::LstmAutoencoder(network) => network.steps(),
            _ => 0,
        };
        self.members.iter().map(steps).sum()
    }

    /// The metrics that make a window unusual, the strongest first, by the members that found it so.
    pub fn explain(&self, frame: &Frame, row: usize) -> Vec<Contribution> {
        // Counters, changes, trends and rests need what was before.
        let before = BEFORE
            .max(self.habits.look_back())
            .saturating_add(self.features.look_back());
        let prepared = self
            .features
            .prepare(&frame.slice(row.saturating_sub(before)..row + 1));
        let last = prepared.len() - 1;
        let width = self.features.width();
        let mut shares = vec![0.0f32; width];
        let mut expected = vec![0.0f32; width];
        let mut heard = 0.0f32;
        for judge in &self.members {
            let rows = self.features.view(&prepared, judge.view);
            let parts = judge.fitted.explain_last(&rows);
            let whole: f32 = parts.shares.iter().sum();
            let weight = judge
                .scores(&judge.fitted.sizes(&rows))
                .last()
                .copied()
                .unwrap_or(0.0)
                .clamp(-4.0, 20.0)
                .exp();
            if whole > 0.0 {
                shares
                    .iter_mut()
                    .zip(&parts.shares)
                    .for_each(|(s, p)| *s += weight * p / whole);
                heard += weight;
            }
            if judge.view == View::Values {
                expected = parts.expected;
            }
        }
        let missing = self.habits.missing(&prepared, last);
        let silent = missing.iter().filter(|m| **m).count();
        if self.silence && silent > 0 {
            let usual = self.habits.usual().max(1);
            let weight = (SILENCE * silent as f32 / usual as f32).min(20.0).exp();
            heard += blame(&mut shares, &missing, weight);
        }
        if self.silence {
            heard += blame(&mut shares, &self.habits.broken_last(&prepared), BROKEN.exp());
        }
        let trend = |c: usize| {
            Some(prepared.trend(last, c))
                .filter(|t| t.is_finite())
                .unwrap_or(0.0)
        };
        let mut contributions: Vec<Contribution> = self
            .features
            .names()
            .enumerate()
            .map(|(c, name)| Contribution {
                metric: name.to_owned(),
                observed: Some(prepared.row(last)[c]).filter(|v| v.is_finite()),
                expected: self.features.in_units(c, expected[c]) + trend(c),
                share: shares[c] / heard.max(f32::MIN_POSITIVE),
            })
            .collect();
        contributions.sort_by(|a, b| b.share.total_cmp(&a.share));
        contributions
    }

    /// Whether the parts fit together, as they may not if they come from a file.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        let width = self.features.width();
        if self.members.is_empty() || !self.habits.suits(width) || self.step <= 0 || width == 0 {
            return Err("its parts are of different sizes".to_owned());
        }
        match self.members.iter().all(|j| j.fitted.suits(width) && j.smooth > 0) {
            true => Ok(()),
            false => Err(format!("a detector does not fit {width} features")),
        }
    }

    /// The weighted mean of the members' scores on an exponential scale, so that the most alarmed is heard, and silence.
    fn hear(&self, members: &[Vec<f32>], silence: &[f32]) -> Vec<f32> {
        let mut quiet = Average::new(self.members.iter().map(|m| m.smooth).max().unwrap_or(1));
        let weights: f32 = self.members.iter().map(|m| m.weight).sum();
        let one = |row: usize| {
            let most = members.iter().map(|m| m[row]).fold(f32::NEG_INFINITY, f32::max);
            let part = |(m, judge): (&Vec<f32>, &Judge)| judge.weight * (SHARPNESS * (m[row] - most)).exp();
            let sum: f32 = members.iter().zip(&self.members).map(part).sum();
            let total = most + (sum / weights).ln() / SHARPNESS;
            // A single window that was not recorded says nothing of the node.
            let lasting = silence[row.saturating_sub(LASTING - 1)..=row]
                .iter()
                .copied()
                .fold(1.0, f32::min);
            if self.silence {
                total + SILENCE * quiet.push(lasting)
            } else {
                total
            }
        };
        (0..silence.len()).map(one).collect()
    }
}

/// The middle of scores, and how far the 98th percentile of a typical stretch lies above it.
fn typical(scores: &[f32]) -> Spread {
    let middle = quantile(scores, 0.5);
    let stretch = scores.len().div_ceil(STRETCHES).max(1);
    let highs: Vec<f32> = scores.chunks(stretch).map(|s| quantile(s, 0.98)).collect();
    Spread {
        middle,
        distance: (quantile(&highs, 0.5) - middle).max(0.05),
    }
}

/// Divides a weight among some metrics; returns it, or nothing if there are none.
fn blame(shares: &mut [f32], metrics: &[bool], weight: f32) -> f32 {
    let count = metrics.iter().filter(|m| **m).count();
    let blamed = shares.iter_mut().zip(metrics).filter(|(_, m)| **m);
    blamed.for_each(|(share, _)| *share += weight / count as f32);
    if count > 0 { weight } else { 0.0 }
}

/// Drops the most unusual of what was kept.
fn leave_out(keep: &mut [bool], sizes: &[f32], share: f64) {
    let kept: Vec<f32> = sizes
        .iter()
        .zip(&*keep)
        .filter(|(_, k)| **k)
        .map(|(s, _)| *s)
        .collect();
    let limit = quantile(&kept, 1.0 - share);
    keep.iter_mut()
        .zip(sizes)
        .filter(|(_, s)| **s > limit)
        .for_each(|(k, _)| *k = false);
}

impl Judge {
    fn new(member: &Member, trial: Trial) -> (Judge, Vec<f32>) {
        let mut judge = Judge {
            fitted: trial.fitted,
            view: member.view,
            smooth: member.smooth,
            power: member.power,
            weight: member.weight,
            usual: Spread {
                middle: 0.0,
                distance: 1.0,
            },
        };
        let levels = judge.levels(&trial.sizes);
        let (seen, unseen) = levels.split_at(trial.unseen_from.min(levels.len()));
        judge.usual = Spread::of(if unseen.is_empty() { seen } else { unseen });
        // What was trained on looks better than it would have, unseen; it is measured by its own kind.
        let own = Spread::of(if seen.is_empty() { unseen } else { seen });
        let scores = seen
            .iter()
            .map(|l| own.apply(*l))
            .chain(unseen.iter().map(|l| judge.usual.apply(*l)));
        let scores = scores.collect();
        (judge, scores)
    }

    /// Smoothed sizes on a logarithmic scale.
    fn levels(&self, sizes: &[f32]) -> Vec<f32> {
        let mut average = Average::new(self.smooth);
        sizes
            .iter()
            .map(|s| (average.push(s.powf(self.power)) + NOTHING).ln())
            .collect()
    }

    fn scores(&self, sizes: &[f32]) -> Vec<f32> {
        self.levels(sizes)
            .into_iter()
            .map(|l| self.usual.apply(l))
            .collect()
    }
}
