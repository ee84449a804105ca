//! A node's detector: fitted once, then asked about any window.

mod draft;
mod explain;
mod judge;

use serde::{Deserialize, Serialize};
use synod_telemetry::Frame;

use crate::detector::{Detector, Fitted};
use crate::error::Result;
use crate::features::{Features, View};
use crate::habits::Habits;
use crate::recipe::Recipe;
pub use draft::{Draft, Fit, Found, Mark, Marks, healthy};
pub use judge::Spread;
use judge::{Judge, SILENCE, hear};

/// Fewer windows than this teach nothing.
pub(crate) const FEWEST_WINDOWS: usize = 50;

/// How much a score grows while a metric has been silent, or has stood still, for much longer than ever in training.
/// Just above where an alarm begins, however quiet the rest of the node is.
const BROKEN: f32 = 2.0;

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
        Ok(NodeModel::draft(frame, recipe)?.finish(None))
    }

    /// Its members fitted and its scores not yet measured, so that others can have a word in that.
    pub fn draft(frame: &Frame, recipe: &Recipe) -> Result<Draft> {
        let healthy = healthy(frame)?;
        let features = Features::fit(frame, &recipe.features)?;
        let habits = Habits::learn(&features.prepare(frame), &healthy, features.width());
        let fit: &mut Fit<'_> = &mut |i, member, rows, keep| {
            let seed = recipe.seed.wrapping_add(i as u64);
            member.kind.fit(rows, keep, recipe.unseen, seed)
        };
        Draft::fit(frame, recipe, features, habits, fit)
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
        let heard = |silence: Option<&[f32]>| -> Vec<f32> {
            let scores = hear(&self.members, &members, silence).into_iter();
            scores.map(|s| self.unit.apply(s)).collect()
        };
        let measured = heard(None);
        let mut total = heard(self.silence.then_some(silence.as_slice()));
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
}
