//! A node's detector: fitted once, then asked about any window.

mod draft;
mod judge;

use serde::{Deserialize, Serialize};
use synod_core::{Digest, Frame};

use crate::detector::{Detector, Fitted, Method};
use crate::error::{Error, Result};
use crate::features::Features;
use crate::habits::Habits;
use crate::recipe::Recipe;
use crate::scorer::{Memory, Scored, Work};
pub use draft::{Draft, Fit, Found, Mark, Marks, healthy};
pub use judge::Spread;
pub(crate) use judge::{Judge, Quiet, SILENCE, together};

/// Fewer windows than this teach nothing.
pub(crate) const FEWEST_WINDOWS: usize = 50;

/// How much a score grows while a metric has been silent, or has stood still, for much longer than ever in training.
/// Just above where an alarm begins, however quiet the rest of the node is.
pub(crate) const BROKEN: f32 = 2.0;

/// A fitted detector of one node, or of several that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeModel {
    step: i64,
    pub(crate) features: Features,
    pub(crate) members: Vec<Judge>,
    pub(crate) silence: bool,
    pub(crate) habits: Habits,
    pub(crate) unit: Spread,
    /// The scores of the training windows, as far as possible from detectors that had not seen them.
    reference: Vec<f32>,
    trained_on: usize,
}

/// What a model makes of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// One score per window: about 0 for the usual, 1 for what one training window in fifty reaches.
    pub total: Vec<f32>,
    /// The same without what silence added.
    pub measured: Vec<f32>,
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
        let mut scores = Scores::default();
        self.watch(frame, &mut |scored| {
            scores.total.push(scored.score);
            scores.measured.push(scored.measured);
        });
        scores
    }

    /// Scores every window of a frame and calls `each` with what can be said of it.
    pub fn watch(&self, frame: &Frame, each: &mut dyn FnMut(&Scored<'_>)) {
        let mut work = Work::default();
        Memory::begin(self).advance(
            self,
            &mut work,
            &self.features.places(frame.metrics()),
            frame,
            each,
        );
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

    /// A digest of all that it has learnt: detectors with the same one say the same of every window.
    pub fn digest(&self) -> Result<Digest> {
        let bytes = postcard::to_allocvec(self);
        bytes
            .map(|bytes| Digest::of(&bytes))
            .map_err(|e| Error::State(format!("cannot name its detector: {e}")))
    }

    /// How many windows before one its members look back on.
    pub(crate) fn look_back(&self) -> usize {
        let look_backs = self.members.iter().map(|judge| judge.fitted.look_back());
        look_backs.max().unwrap_or(0)
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

    /// Wakes members that are not Synod's own.
    pub(crate) fn revive(&mut self, methods: &[&dyn Method]) -> std::result::Result<(), String> {
        for judge in &mut self.members {
            if let Fitted::Outside(outside) = &mut judge.fitted {
                outside.revive(methods)?;
            }
        }
        Ok(())
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
