//! The section `[federation]` of a configuration of training.

use std::num::NonZeroUsize;

use serde::{Deserialize, Deserializer};
use synod_core::config::{Mistake, Section};

use crate::compress::Compression;
use crate::partition::Division;
use crate::round::trace::Behaviour;
use crate::simulate::{Attack, Epochs, Personal, SimulationSettings};
use crate::strategy::StrategyChoice;
use crate::{round, select};

/// Who learns together, and how.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FederationChoice {
    /// The registered clients.
    pub clients: NonZeroUsize,
    /// The most rounds.
    pub rounds: NonZeroUsize,
    /// How rows are divided among clients.
    #[serde(default)]
    pub partition: Division,
    #[serde(default = "tenth")]
    fraction: f64,
    epochs: Option<Epochs>,
    batch: Option<BatchSize>,
    steps: Option<usize>,
    /// What the server makes of updates.
    #[serde(default)]
    pub strategy: StrategyChoice,
    #[serde(default)]
    selection: select::SelectionSettings,
    #[serde(default)]
    compression: Compression,
    #[serde(default)]
    personal: Personal,
    /// The share of a client's rows that it does not train on and is judged by.
    #[serde(default)]
    pub holdout: f64,
    #[serde(default)]
    trusted: usize,
    #[serde(default)]
    behaviour: Behaviour,
    attack: Option<Attack>,
    #[serde(default)]
    round: round::RoundSettings,
    /// The test accuracy at which to stop.
    pub target: Option<f64>,
    /// Rounds between evaluations.
    #[serde(default = "one")]
    pub evaluate: NonZeroUsize,
    /// Threads; clients are shared among them.
    pub threads: Option<NonZeroUsize>,
}

fn tenth() -> f64 {
    0.1
}

fn one() -> NonZeroUsize {
    NonZeroUsize::MIN
}

/// Rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchSize {
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

impl Section for FederationChoice {
    const NAME: &'static str = "federation";
    type Written = FederationChoice;

    fn check(federation: FederationChoice) -> Result<FederationChoice, Mistake> {
        let settings = federation.settings(1, 1);
        settings.check().map_err(|e| Mistake::here(e.to_string()))?;
        Ok(federation)
    }
}

impl FederationChoice {
    /// What the simulation takes. Clients pass over their rows `epochs` times unless the section says otherwise.
    pub fn settings(&self, epochs: usize, seed: u64) -> SimulationSettings {
        SimulationSettings {
            seed,
            fraction: self.fraction,
            epochs: self.epochs.unwrap_or(Epochs::Fixed(epochs)),
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

    /// Rows of a client's step, `usual` unless the section says otherwise; none for all of them.
    pub fn batch(&self, usual: usize) -> Option<usize> {
        match self.batch {
            None => Some(usual),
            Some(BatchSize::Rows(rows)) => Some(rows.get()),
            Some(BatchSize::All) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_section_leaves_out_is_as_in_training() {
        let read = |written| FederationChoice::check(serde_json::from_value(written).expect("written so"));
        let usual = read(json!({ "clients": 10, "rounds": 3 })).expect("a federation");
        assert_eq!(
            usual.settings(4, 7),
            SimulationSettings {
                seed: 7,
                epochs: Epochs::Fixed(4),
                ..SimulationSettings::default()
            }
        );
        assert_eq!(usual.batch(20), Some(20));
        let other =
            read(json!({ "clients": 10, "rounds": 3, "batch": "all", "epochs": 2 })).expect("a federation");
        assert_eq!(
            (other.batch(20), other.settings(4, 7).epochs),
            (None, Epochs::Fixed(2))
        );
        assert!(read(json!({ "clients": 10, "rounds": 3, "fraction": 1.5 })).is_err());
    }
}
