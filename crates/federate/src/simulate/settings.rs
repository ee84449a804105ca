//! What a federation is like, as a configuration says it.

use serde::{Deserialize, Serialize};

use super::{Attack, Personal};
use crate::compress::Compression;
use crate::error::{Error, Result};
use crate::round;
use crate::round::trace::Behaviour;
use crate::select;
use crate::strategy::StrategyChoice;

/// How often a client passes over its rows in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Epochs {
    /// So often.
    Fixed(usize),
    /// Each time another number, as when machines have more or less time.
    Between {
        /// At least.
        least: usize,
        /// At most.
        most: usize,
    },
}

impl Epochs {
    pub(super) fn range(self) -> (usize, usize) {
        match self {
            Epochs::Fixed(n) => (n, n),
            Epochs::Between { least, most } => (least, most.max(least)),
        }
    }
}

/// A simulated federation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimulationSettings {
    /// The seed of everything random.
    pub seed: u64,
    /// The share of clients in a round; 0 for one client.
    pub fraction: f64,
    /// Passes of a client over its rows in a round.
    pub epochs: Epochs,
    /// At most so many steps of a client in a round.
    pub steps: Option<usize>,
    /// What the server makes of updates.
    pub strategy: StrategyChoice,
    /// Who takes part.
    pub selection: select::SelectionSettings,
    /// How updates travel.
    pub compression: Compression,
    /// What clients keep to themselves.
    pub personal: Personal,
    /// The share of a client's rows that it does not train on and is judged by.
    pub holdout: f64,
    /// Rows that the server trains on itself, for strategies that compare updates with its own.
    pub trusted: usize,
    /// How clients and links behave.
    pub behaviour: Behaviour,
    /// Clients that mean harm.
    pub attack: Option<Attack>,
    /// How rounds are held; the goal comes from `fraction`.
    pub round: round::RoundSettings,
}

impl Default for SimulationSettings {
    fn default() -> SimulationSettings {
        SimulationSettings {
            seed: 1,
            fraction: 0.1,
            epochs: Epochs::Fixed(1),
            steps: None,
            strategy: StrategyChoice::default(),
            selection: select::SelectionSettings::default(),
            compression: Compression::default(),
            personal: Personal::default(),
            holdout: 0.0,
            trusted: 0,
            behaviour: Behaviour::default(),
            attack: None,
            round: round::RoundSettings::default(),
        }
    }
}

impl SimulationSettings {
    pub(crate) fn check(&self) -> Result<()> {
        let shares = [("fraction", self.fraction, 1.0), ("holdout", self.holdout, 0.9)];
        for (name, value, most) in shares {
            if !(0.0..=most).contains(&value) {
                return Err(Error::Setting(format!(
                    "`{name}` must be in 0..{most}, not {value}"
                )));
            }
        }
        if self.epochs.range().1 == 0 {
            return Err(Error::Setting("`epochs` must be 1 or more".into()));
        }
        self.compression.check()
    }
}
