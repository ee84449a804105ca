//! The `[federation]` table of an experiment.

use std::num::NonZeroUsize;

use serde::{Deserialize, Deserializer};
use synod_federate::compress::Compression;
use synod_federate::partition::Division;
use synod_federate::round::trace::Behaviour;
use synod_federate::simulate::{Attack, Epochs, Personal, SimulationSettings};
use synod_federate::strategy::StrategyChoice;
use synod_federate::{round, select};

use crate::train::config::TrainConfig;

/// Who learns together, and how.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::train) struct FederationConfig {
    /// The registered clients.
    pub(super) clients: NonZeroUsize,
    pub(super) rounds: NonZeroUsize,
    #[serde(default)]
    pub(super) partition: Division,
    #[serde(default = "tenth")]
    pub(super) fraction: f64,
    /// Passes of a client over its rows; those of `[train]` unless given.
    pub(super) epochs: Option<Epochs>,
    /// Rows of a client's step, or "all"; those of `[train]` unless given.
    pub(super) batch: Option<BatchSize>,
    pub(super) steps: Option<usize>,
    #[serde(default)]
    pub(super) strategy: StrategyChoice,
    #[serde(default)]
    pub(super) selection: select::SelectionSettings,
    #[serde(default)]
    pub(super) compression: Compression,
    #[serde(default)]
    pub(super) personal: Personal,
    #[serde(default)]
    pub(super) holdout: f64,
    #[serde(default)]
    pub(super) trusted: usize,
    #[serde(default)]
    pub(super) behaviour: Behaviour,
    pub(super) attack: Option<Attack>,
    #[serde(default)]
    pub(super) round: round::RoundSettings,
    /// The test accuracy at which to stop.
    pub(super) target: Option<f64>,
    /// Rounds between evaluations.
    #[serde(default = "one")]
    pub(super) evaluate: NonZeroUsize,
    pub(super) threads: Option<NonZeroUsize>,
}

fn tenth() -> f64 {
    0.1
}

fn one() -> NonZeroUsize {
    NonZeroUsize::MIN
}

/// Rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchSize {
    Rows(NonZeroUsize),
    All,
}

impl<'de> Deserialize<'de> for BatchSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<BatchSize, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Rows(NonZeroUsize),
            Word(String),
        }
        match Written::deserialize(from) {
            Ok(Written::Rows(rows)) => Ok(BatchSize::Rows(rows)),
            Ok(Written::Word(word)) if word == "all" => Ok(BatchSize::All),
            _ => Err(serde::de::Error::custom(
                "a batch is a number of rows from 1 on, or \"all\"",
            )),
        }
    }
}

impl FederationConfig {
    /// What the simulation takes.
    pub(super) fn settings(&self, train: &TrainConfig, seed: u64) -> SimulationSettings {
        SimulationSettings {
            seed,
            fraction: self.fraction,
            epochs: self.epochs.unwrap_or(Epochs::Fixed(train.epochs.get())),
            steps: self.steps,
            strategy: self.strategy.clone(),
            selection: self.selection.clone(),
            compression: self.compression,
            personal: self.personal.clone(),
            holdout: self.holdout,
            trusted: self.trusted,
            behaviour: self.behaviour.clone(),
            attack: self.attack,
            round: self.round.clone(),
        }
    }

    pub(super) fn batch(&self, train: &TrainConfig) -> Option<usize> {
        match self.batch {
            None => Some(train.batch.get()),
            Some(BatchSize::Rows(rows)) => Some(rows.get()),
            Some(BatchSize::All) => None,
        }
    }
}
