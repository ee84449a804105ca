//! What all nodes know together, gathered in rounds, and a node's detector that leans on it.

use serde::{Deserialize, Serialize};
use synod_core::Frame;
use synod_detect::detector::Prior;
use synod_detect::features::{Features, View};
use synod_detect::learning::{Draft, Fit, Found, Habits, Mark, Marks, healthy};
use synod_detect::{Moments, NodeModel, Recipe, Rows};

use crate::alike::gain;
use crate::error::{Error, Result};
use crate::scales::{Scales, shared};
use crate::sums::{Shape, Shapes, SpreadSums, place};

/// What the covariance of others is worth, as a share of the windows that one of them has.
const SHAPE_WORTH: f64 = 0.25;

/// Seconds after which the habits of others are settled: a week, since the days of a week are not alike.
const SETTLED: f64 = 7.0 * 86_400.0;

/// Seconds after which a node knows its own habits: from then on, what others allow would only hide a sensor that is stuck.
const KNOWN: f64 = 14.0 * 86_400.0;

/// How far above the usual the unit of scores is set, in deviations between nodes: what one node has not met yet, others have.
const UNMET: f64 = 0.5;

/// What all nodes know together: sums alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fleet {
    scales: Scales,
    shapes: Shapes,
    members: Vec<SpreadSums>,
    unit: SpreadSums,
}

/// What one node has told in every round so far, so that it can be taken back.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) scales: Scales,
    pub(super) members: Vec<Found>,
    pub(super) unit: Found,
}

/// A node's members, fitted with the fleet.
#[derive(Clone, Debug)]
pub(super) struct Learnt {
    pub(super) draft: Draft,
    /// How much better others let the node foretell its own windows, in log density per metric.
    pub(super) gain: f64,
}

/// Whether a recipe can be learnt from sums.
pub(super) fn check(recipe: &Recipe) -> Result<()> {
    match recipe.members.iter().all(|m| m.kind.leans()) {
        true => Ok(()),
        false => Err(Error::NotFromSums),
    }
}

impl Fleet {
    /// The first round: where a node's metrics lie and how far they vary.
    pub fn introduce(frame: &Frame, recipe: &Recipe) -> Result<Scales> {
        Scales::of(frame, &healthy(frame)?, &recipe.features)
    }

    /// Takes in a node's answer of the first round.
    pub fn add_scales(&mut self, scales: &Scales) {
        self.scales.add(scales);
    }

    /// The second round: how a node's metrics vary together, in scales that all nodes share.
    pub fn describe(&self, frame: &Frame, recipe: &Recipe) -> Result<Shape> {
        let node = Shared::of(self, frame, recipe)?;
        let moments = |view| Moments::of(&node.rows(view).filter(&node.healthy));
        let names: Vec<String> = node.features.names().map(str::to_owned).collect();
        let mut shape = Shape::new(names, &moments(View::Values), &moments(View::Changes));
        shape.longest = node.habits.longest().collect();
        Ok(shape)
    }

    /// Takes in a node's answer of the second round.
    pub fn add_shape(&mut self, shape: &Shape) {
        self.shapes.add(shape);
    }

    /// The fleet without one of its nodes, for a look from outside.
    pub(super) fn without(&self, told: &Told, shape: &Shape) -> Fleet {
        let mut others = self.clone();
        others.scales.remove(&told.scales);
        others.shapes.remove(shape);
        let members = others.members.iter_mut().zip(&told.members);
        members.for_each(|(sums, own)| sums.remove(own));
        others.unit.remove(&told.unit);
        others
    }

    /// Fits a node's members to its own windows and, as far as that is worth it, to how `others` vary.
    pub(super) fn learn(&self, frame: &Frame, recipe: &Recipe, known: Option<&Shape>) -> Result<Learnt> {
        let node = Shared::of(self, frame, recipe)?;
        let metrics: Vec<String> = node.features.names().map(str::to_owned).collect();
        // A node leans on others, not on itself: what it has told before is taken back.
        let mut others = None;
        if let Some(own) = known {
            let mut shapes = self.shapes.clone();
            shapes.remove(own);
            others = Some(shapes);
        }
        let shapes = others.as_ref().unwrap_or(&self.shapes);
        let others = [View::Values, View::Changes].map(|view| {
            let own = Moments::of(&node.rows(view).filter(&node.healthy)).covariance();
            shapes.covariance(&metrics, view, &own)
        });
        let settled = others[0].1 * frame.step() as f64 >= SETTLED;
        let priors = others.map(|(covariance, windows)| Prior {
            worth: SHAPE_WORTH * windows,
            covariance,
        });
        let gains = node.views.iter().zip(&priors);
        let gain = gains
            .map(|(rows, prior)| gain(rows, &node.healthy, prior))
            .sum::<f64>()
            / 2.0;
        let fit: &mut Fit<'_> = &mut |i, member, rows, keep| {
            let (prior, seed) = (&priors[place(member.view)], recipe.seed.wrapping_add(i as u64));
            member
                .kind
                .fit_leaning(rows, keep, Some(prior), recipe.unseen, seed)
        };
        let habits = match frame.rows() as f64 * frame.step() as f64 >= KNOWN {
            true => node.habits.clone(),
            false => node.habits.clone().at_least(shapes.longest(&metrics), settled),
        };
        let draft = Draft::fit(frame, recipe, node.features, habits, fit)?;
        Ok(Learnt { draft, gain })
    }

    /// Takes in the third round: what a node's members say of its windows.
    pub(super) fn add_members(&mut self, members: &[Found]) {
        self.members.resize(members.len(), SpreadSums::default());
        self.members
            .iter_mut()
            .zip(members)
            .for_each(|(sums, own)| sums.add(own));
    }

    /// Takes in the fourth round: what a node's scores are.
    pub(super) fn add_unit(&mut self, unit: &Found) {
        self.unit.add(unit);
    }

    /// By what a node's scores are measured.
    pub(super) fn marks(&self, learnt: &Learnt) -> Marks {
        let windows = learnt.draft.windows();
        let members: Option<Vec<Mark>> = self.members.iter().map(|s| s.mark(0.0, windows)).collect();
        Marks {
            members: members.unwrap_or_default(),
            unit: self.unit.mark(UNMET, windows),
        }
    }

    /// The detector of a node that was not among those who told: its own offsets and, as its history grows, its own ways.
    pub fn welcome(&self, frame: &Frame, recipe: &Recipe) -> Result<NodeModel> {
        check(recipe)?;
        let learnt = self.learn(frame, recipe, None)?;
        let marks = self.marks(&learnt);
        Ok(learnt.draft.finish(Some(&marks)))
    }
}

/// A node's windows as features that all nodes share.
struct Shared {
    features: Features,
    habits: Habits,
    healthy: Vec<bool>,
    views: [Rows; 2],
}

impl Shared {
    fn of(fleet: &Fleet, frame: &Frame, recipe: &Recipe) -> Result<Shared> {
        let healthy = healthy(frame)?;
        let features = shared(frame, &healthy, &fleet.scales, &recipe.features)?;
        let prepared = features.prepare(frame);
        let habits = Habits::learn(&prepared, &healthy, features.width());
        let views = [View::Values, View::Changes].map(|view| features.view(&prepared, view));
        Ok(Shared {
            features,
            habits,
            healthy,
            views,
        })
    }

    fn rows(&self, view: View) -> &Rows {
        &self.views[place(view)]
    }
}
