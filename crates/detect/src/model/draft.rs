//! A detector between the fit of its members and the measure of its scores.

use synod_core::{Frame, Truth};

use super::judge::{Judge, Spread, hear};
use super::{FEWEST_WINDOWS, NodeModel};
use crate::detector::{Detector, FittedOnTrial};
use crate::error::{Error, Result};
use crate::features::Features;
use crate::habits::Habits;
use crate::recipe::{Member, Recipe};
use crate::rows::Rows;
use crate::smooth::quantile;

/// Parts of the training time whose differences say how much another time might differ.
const QUARTERS: usize = 4;

/// How a member is fitted: its place in the recipe, itself, its rows, and which of them to learn from.
pub type Fit<'a> = dyn FnMut(usize, &Member, &Rows, &[bool]) -> Result<FittedOnTrial> + 'a;

/// Members that are fitted, and what they said of the training windows.
#[derive(Clone, Debug)]
pub struct Draft {
    node: NodeModel,
    typical: bool,
    healthy: Vec<bool>,
    silence: Vec<f32>,
    /// What each member said, and the first window that it had not seen.
    levels: Vec<(Vec<f32>, usize)>,
}

/// What a node found some quantity to be, and how sure it is of that.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Found {
    /// Where its middle and its 98th percentile lie.
    pub spread: Spread,
    /// The variance of its 98th percentile, if it had watched at another time.
    pub doubt: f64,
    /// Windows behind it.
    pub windows: f64,
}

impl Found {
    fn of(values: &[f32], spread: Spread) -> Found {
        let quarter = values.len().div_ceil(QUARTERS).max(1);
        let highs: Vec<f64> = values
            .chunks(quarter)
            .map(|q| f64::from(quantile(q, 0.98)))
            .collect();
        let count = highs.len().max(1) as f64;
        let mean = highs.iter().sum::<f64>() / count;
        let squares: f64 = highs.iter().map(|h| (h - mean).powi(2)).sum();
        Found {
            spread,
            doubt: squares / (count - 1.0).max(1.0) / count,
            windows: values.len() as f64,
        }
    }
}

/// What others found, and how much a node's own finding counts against it, from 0 to 1.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Mark {
    /// What others found.
    pub spread: Spread,
    /// How much the node's own finding counts.
    pub own: f32,
}

impl Mark {
    fn with(mark: Option<&Mark>, own: Spread) -> Spread {
        mark.map_or(own, |mark| own.towards(mark.spread, mark.own))
    }
}

/// What others found their members and their scores to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// One for every member, in the order of the recipe; none if others say nothing.
    pub members: Vec<Mark>,
    /// What measures the scores.
    pub unit: Option<Mark>,
}

impl Marks {
    fn member(marks: Option<&Marks>, index: usize, own: Spread) -> Spread {
        Mark::with(marks.and_then(|m| m.members.get(index)), own)
    }

    /// Others may only calm a node: one whose scores vary more than theirs knows best what is no alarm on it.
    fn unit(marks: Option<&Marks>, own: Spread) -> Spread {
        Mark::with(marks.and_then(|m| m.unit.as_ref()), own).at_least(own)
    }
}

/// Which training windows are not known to be anomalous; an error if they are too few to learn from.
pub fn healthy(frame: &Frame) -> Result<Vec<bool>> {
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
    pub fn fit(
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
            silence: (0..prepared.len())
                .map(|row| node.habits.silence(&prepared, row))
                .collect(),
            typical: recipe.typical,
            node,
            healthy,
            levels,
        })
    }

    /// What each member's levels are on healthy windows, unseen if possible.
    pub fn members(&self) -> Vec<Found> {
        let found = |(levels, from): &(Vec<f32>, usize)| {
            let from = if *from < levels.len() { *from } else { 0 };
            let pairs = levels[from..].iter().zip(&self.healthy[from..]);
            let levels: Vec<f32> = pairs.filter(|(_, h)| **h).map(|(l, _)| *l).collect();
            Found::of(&levels, Spread::of(&levels))
        };
        self.levels.iter().map(found).collect()
    }

    /// What the scores are, if members are measured by some marks.
    pub fn unit(&self, marks: Option<&Marks>) -> Found {
        let measured = self.scores(marks, None);
        Found::of(&measured, self.unit_of(&measured))
    }

    /// Healthy windows behind it.
    pub fn windows(&self) -> f64 {
        self.node.trained_on as f64
    }

    /// The detector, whose scores are measured by itself and, as far as they count, by others.
    pub fn finish(mut self, marks: Option<&Marks>) -> NodeModel {
        let silence = self.node.silence.then_some(self.silence.as_slice());
        let (mut reference, measured) = (self.scores(marks, silence), self.scores(marks, None));
        for (i, (judge, (levels, from))) in self.node.members.iter_mut().zip(&self.levels).enumerate() {
            judge.usual = Marks::member(marks, i, Spread::of(unseen(levels, *from)));
        }
        self.node.unit = Marks::unit(marks, self.unit_of(&measured));
        reference.iter_mut().for_each(|s| *s = self.node.unit.apply(*s));
        self.node.reference = reference;
        self.node
    }

    /// The unit of scores without silence: a site whose collectors failed for an afternoon of a short history would else
    /// measure everything by that.
    fn unit_of(&self, measured: &[f32]) -> Spread {
        match self.typical {
            true => Spread::typical(measured),
            false => Spread::default(),
        }
    }

    /// The scores of the healthy training windows, without a unit.
    fn scores(&self, marks: Option<&Marks>, silence: Option<&[f32]>) -> Vec<f32> {
        let member = |(i, (levels, from)): (usize, &(Vec<f32>, usize))| {
            let (before, after) = levels.split_at((*from).min(levels.len()));
            let usual = Marks::member(marks, i, Spread::of(unseen(levels, *from)));
            // What was trained on looks better than it would have, unseen; it is measured by its own kind.
            let own = Spread::of(if before.is_empty() { after } else { before });
            let seen = before.iter().map(|l| own.apply(*l));
            seen.chain(after.iter().map(|l| usual.apply(*l))).collect()
        };
        let scores: Vec<Vec<f32>> = self.levels.iter().enumerate().map(member).collect();
        let heard = hear(&self.node.members, &scores, silence).into_iter();
        let pairs = heard.zip(&self.healthy);
        pairs.filter(|(_, h)| **h).map(|(s, _)| s).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_calm_a_node_and_never_make_it_more_easily_alarmed() {
        let own = Spread::new(0.2, 1.0);
        let measured = |others: Spread| {
            let unit = Some(Mark {
                spread: others,
                own: 0.5,
            });
            Marks::unit(
                Some(&Marks {
                    members: vec![],
                    unit,
                }),
                own,
            )
        };
        assert_eq!(
            measured(Spread::new(0.0, 0.5)),
            own,
            "calmer others change nothing"
        );
        let wilder = measured(Spread::new(1.0, 4.0));
        assert!((wilder.middle - 0.6).abs() < 1e-6 && (wilder.distance - 2.0).abs() < 1e-6);
        assert_eq!(Marks::unit(None, own), own);
    }

    /// Four days of twelve metrics, with what some cause does to them.
    fn days(silent: std::ops::Range<usize>, seed: u64) -> Frame {
        let mut random = synod_core::Random::from_state(seed);
        let mut noise = move || random.uniform() as f32 - 0.5;
        let names = (0..12).map(|m| format!("m{m}")).collect();
        let mut values = vec![];
        for window in 0..400 {
            let cause = noise();
            values.extend((0..12).map(|m| match silent.contains(&window) {
                true => f32::NAN,
                false => cause * m as f32 + noise(),
            }));
        }
        let times = (0..400).map(|w| 900 * w).collect();
        Frame::new("n", 900, times, names, values).expect("a frame")
    }

    #[test]
    fn an_afternoon_without_collectors_does_not_make_a_node_deaf() {
        let high = |silent| {
            let model = NodeModel::fit(&days(silent, 1), &Recipe::standard(1)).expect("a model");
            quantile(&model.score(&days(0..0, 2)).total, 0.98)
        };
        let (with, without) = (high(200..216), high(0..0));
        assert!(with > 0.5 * without && with < 2.0 * without, "{with} {without}");
    }
}
