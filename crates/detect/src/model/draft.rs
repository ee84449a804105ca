//! A detector between the fit of its members and the measure of its scores.

use synod_telemetry::{Frame, Truth};

use super::judge::{Judge, Spread, hear};
use super::{FEWEST_WINDOWS, NodeModel};
use crate::calibrate::{AlarmPolicy, Calibrator};
use crate::detector::{Detector, Trial};
use crate::error::{Error, Result};
use crate::features::Features;
use crate::habits::Habits;
use crate::recipe::{Member, Recipe};
use crate::rows::Rows;
use crate::smooth::quantile;

/// The share of the training time, the last part of it, in which alarms are rehearsed.
const REHEARSAL: f64 = 0.25;

/// How a member is fitted: its place in the recipe, itself, its rows, and which of them to learn from.
pub(crate) type Fit<'a> = dyn FnMut(usize, &Member, &Rows, &[bool]) -> Result<Trial> + 'a;

/// Members that are fitted, and what they said of the training windows.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    node: NodeModel,
    typical: bool,
    healthy: Vec<bool>,
    silence: Vec<f32>,
    /// What each member said, and the first window that it had not seen.
    levels: Vec<(Vec<f32>, usize)>,
}

/// What others found their scores to be, and how much a node's own finding counts against it, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Marks {
    pub(crate) members: Vec<Spread>,
    pub(crate) unit: Option<Spread>,
    pub(crate) own: f32,
}

impl Marks {
    fn member(marks: Option<&Marks>, index: usize, own: Spread) -> Spread {
        let other = marks.and_then(|m| Some((m.members.get(index)?, m.own)));
        other.map_or(own, |(other, weight)| own.towards(*other, weight))
    }

    fn unit(marks: Option<&Marks>, own: Spread) -> Spread {
        let other = marks.and_then(|m| Some((m.unit?, m.own)));
        other.map_or(own, |(other, weight)| own.towards(other, weight))
    }
}

/// Which training windows are not known to be anomalous; an error if they are too few to learn from.
pub(crate) fn healthy(frame: &Frame) -> Result<Vec<bool>> {
    let healthy: Vec<bool> = frame.truth().iter().map(|t| *t != Truth::Anomalous).collect();
    let count = healthy.iter().filter(|h| **h).count();
    match count >= FEWEST_WINDOWS {
        true => Ok(healthy),
        false => Err(Error::Node {
            node: frame.node().to_owned(),
            problem: format!(
                "{count} healthy training windows are too few to learn from; it takes at least {FEWEST_WINDOWS}"
            ),
        }),
    }
}

impl Draft {
    /// Fits every member to its view of a frame.
    pub(crate) fn fit(
        frame: &Frame,
        recipe: &Recipe,
        features: Features,
        habits: Habits,
        fit: &mut Fit<'_>,
    ) -> Result<Draft> {
        let healthy = healthy(frame)?;
        let prepared = features.prepare(frame);
        let (mut members, mut levels) = (vec![], vec![]);
        for (i, member) in recipe.members.iter().enumerate() {
            let rows = features.view(&prepared, member.view);
            let mut keep = healthy.clone();
            let mut trial = fit(i, member, &rows, &keep)?;
            if recipe.refine > 0.0 {
                leave_out(&mut keep, &trial.sizes, recipe.refine);
                trial = fit(i, member, &rows, &keep)?;
            }
            if !recipe.unseen {
                trial.sizes = trial.fitted.sizes(&rows);
            }
            let judge = Judge::new(member, trial.fitted);
            levels.push((judge.levels(&trial.sizes), trial.unseen_from));
            members.push(judge);
        }
        let node = NodeModel {
            step: frame.step(),
            members,
            silence: recipe.silence,
            unit: Spread::default(),
            reference: vec![],
            trained_on: healthy.iter().filter(|h| **h).count(),
            features,
            habits,
        };
        Ok(Draft {
            silence: node.habits.silence(&prepared),
            typical: recipe.typical,
            node,
            healthy,
            levels,
        })
    }

    /// What each member's levels usually are on unseen windows.
    pub(crate) fn members(&self) -> Vec<Spread> {
        let spread = |(levels, from): &(Vec<f32>, usize)| Spread::of(unseen(levels, *from));
        self.levels.iter().map(spread).collect()
    }

    /// What the scores usually are, if members are measured by some marks.
    pub(crate) fn unit(&self, marks: Option<&Marks>) -> Spread {
        self.unit_of(&self.reference(marks, self.healthy.len()))
    }

    /// The detector, whose scores are measured by itself and, as far as they count, by others.
    pub(crate) fn finish(mut self, marks: Option<&Marks>) -> NodeModel {
        let mut reference = self.reference(marks, self.healthy.len());
        let own = self.members();
        for (i, (judge, own)) in self.node.members.iter_mut().zip(own).enumerate() {
            judge.usual = Marks::member(marks, i, own);
        }
        self.node.unit = Marks::unit(marks, self.unit_of(&reference));
        reference.iter_mut().for_each(|s| *s = self.node.unit.apply(*s));
        self.node.reference = reference;
        self.node
    }

    /// The share of the last healthy training windows that would have been in alarm, had scores been measured by the
    /// windows before them.
    pub(crate) fn rehearse(&self, marks: Option<&Marks>, alarm: &AlarmPolicy) -> f64 {
        let cut = (self.healthy.len() as f64 * (1.0 - REHEARSAL)) as usize;
        let scores = self.heard(marks, cut);
        let known = |range: std::ops::Range<usize>| {
            let pairs = scores[range.clone()].iter().zip(&self.healthy[range]);
            pairs.filter(|(_, h)| **h).map(|(s, _)| *s).collect::<Vec<f32>>()
        };
        let before = known(0..cut);
        let unit = Marks::unit(marks, self.unit_of(&before));
        let before: Vec<f32> = before.iter().map(|s| unit.apply(*s)).collect();
        let mut rule = Calibrator::by(alarm, &before, self.node.step);
        let after = known(cut..self.healthy.len());
        let alarms = after.iter().filter(|s| {
            let score = unit.apply(**s);
            rule.push(score, score).alarm
        });
        alarms.count() as f64 / after.len().max(1) as f64
    }

    fn unit_of(&self, reference: &[f32]) -> Spread {
        match self.typical {
            true => Spread::typical(reference),
            false => Spread::default(),
        }
    }

    /// The scores of the healthy training windows, without a unit.
    fn reference(&self, marks: Option<&Marks>, until: usize) -> Vec<f32> {
        let pairs = self.heard(marks, until).into_iter().zip(&self.healthy);
        pairs.filter(|(_, h)| **h).map(|(s, _)| s).collect()
    }

    /// The scores of all training windows, by what members said of those until some window.
    fn heard(&self, marks: Option<&Marks>, until: usize) -> Vec<f32> {
        let member = |(i, (levels, from)): (usize, &(Vec<f32>, usize))| {
            let (known, from) = (&levels[..until], (*from).min(until));
            let (before, after) = known.split_at(from);
            let usual = Marks::member(marks, i, Spread::of(unseen(known, from)));
            // What was trained on looks better than it would have, unseen; it is measured by its own kind.
            let own = Spread::of(if before.is_empty() { after } else { before });
            let score = |(row, l): (usize, &f32)| {
                if row < from {
                    own.apply(*l)
                } else {
                    usual.apply(*l)
                }
            };
            levels.iter().enumerate().map(score).collect()
        };
        let scores: Vec<Vec<f32>> = self.levels.iter().enumerate().map(member).collect();
        let silence = self.node.silence.then_some(self.silence.as_slice());
        hear(&self.node.members, &scores, silence)
    }
}

fn unseen(levels: &[f32], from: usize) -> &[f32] {
    let (seen, unseen) = levels.split_at(from.min(levels.len()));
    if unseen.is_empty() { seen } else { unseen }
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
