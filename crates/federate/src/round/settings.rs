//! How rounds are held.

use serde::{Deserialize, Deserializer, Serialize};

use super::{Pace, TimeSpan};
use crate::{Error, Result};

/// How many updates a round takes, and how long it waits for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoundSettings {
    /// The updates that a round takes, and no more.
    pub goal: usize,
    /// The share of the goal with which a round still commits when its time is over.
    pub minimum_fraction: f64,
    /// The clients invited, as a multiple of the goal, so that some may fail.
    pub over_selection: f64,
    /// How long a selection waits for clients after the first.
    pub selection_timeout: TimeSpan,
    /// How long invited clients have to report.
    pub report_timeout: TimeSpan,
    /// How long a round waits for clients whose connection broke once nobody else is at work.
    pub grace: TimeSpan,
    /// The most clients that may wait for a selection, as a multiple of those invited.
    pub waiting_room: f64,
    /// When clients that are sent away come back.
    pub pace: Pace,
    /// Instead of rounds, work that never stops.
    pub asynchronous: Option<Asynchronous>,
}

/// Work without rounds: every client works from the newest model, and the model moves on after every so many updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Asynchronous {
    /// The updates that make a new version: 1 is FedAsync, more FedBuff.
    pub buffer: usize,
    /// The clients at work at a time.
    pub concurrency: usize,
    /// The most versions that may have come about since an update began.
    pub staleness: u64,
}

impl Default for RoundSettings {
    fn default() -> RoundSettings {
        RoundSettings {
            goal: 10,
            minimum_fraction: 0.8,
            over_selection: 1.3,
            selection_timeout: TimeSpan::seconds(60.0),
            report_timeout: TimeSpan::seconds(600.0),
            grace: TimeSpan::seconds(10.0),
            waiting_room: 2.0,
            pace: Pace::default(),
            asynchronous: None,
        }
    }
}

impl Default for Asynchronous {
    fn default() -> Asynchronous {
        Asynchronous {
            buffer: 10,
            concurrency: 100,
            staleness: 20,
        }
    }
}

impl RoundSettings {
    /// Fails if no round could ever commit, or a number makes no sense, and says which.
    pub fn check(&self) -> Result<()> {
        if self.goal == 0 {
            return setting("goal must be at least 1 update");
        }
        if !(self.minimum_fraction > 0.0 && self.minimum_fraction <= 1.0) {
            return setting("minimum_fraction must be above 0 and at most 1");
        }
        if !(1.0..=100.0).contains(&self.over_selection) {
            return setting("over_selection must be from 1 to 100");
        }
        if !(1.0..=100.0).contains(&self.waiting_room) {
            return setting("waiting_room must be from 1 to 100");
        }
        if self.selection_timeout.0 == 0 || self.report_timeout.0 == 0 {
            return setting("selection_timeout and report_timeout must be longer than 0");
        }
        if let Some(asynchronous) = &self.asynchronous
            && (asynchronous.buffer == 0 || asynchronous.concurrency == 0)
        {
            return setting("asynchronous.buffer and asynchronous.concurrency must be at least 1");
        }
        self.pace.check()
    }

    /// As [`check`](RoundSettings::check), and fails if so many clients are too few for a round to commit.
    pub(crate) fn check_for(&self, clients: u64) -> Result<()> {
        self.check()?;
        let needed = self.minimum();
        if needed as u64 > clients {
            return setting(format!(
                "a round needs {needed} updates and there are {clients} clients; lower the goal (or buffer), or minimum_fraction"
            ));
        }
        Ok(())
    }

    /// The clients that a round invites.
    pub(crate) fn invited(&self) -> usize {
        share(self.goal, self.over_selection).max(self.goal)
    }

    /// The fewest updates that commit.
    pub fn minimum(&self) -> usize {
        let full = self.asynchronous.as_ref().map_or(self.goal, |a| a.buffer);
        share(full, self.minimum_fraction).clamp(1, full.max(1))
    }

    /// The most clients that may wait.
    pub(super) fn room(&self) -> usize {
        let at_once = self
            .asynchronous
            .as_ref()
            .map_or(self.invited(), |a| a.concurrency);
        share(at_once, self.waiting_room).max(at_once)
    }

    /// Reads settings out of a stored state and checks them.
    pub(super) fn checked<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RoundSettings, D::Error> {
        let settings = RoundSettings::deserialize(deserializer)?;
        settings.check().map_err(serde::de::Error::custom)?;
        Ok(settings)
    }
}

/// The goal that a fraction of all clients makes: at least one client.
///
/// ```
/// assert_eq!(synod_federate::round::goal_of(0.1, 100), 10);
/// assert_eq!(synod_federate::round::goal_of(0.0, 100), 1);
/// ```
pub fn goal_of(fraction: f64, clients: u64) -> usize {
    ((clients as f64 * fraction).round() as usize).max(1)
}

/// So many times a count, rounded up, but not because of how fractions are written in binary.
fn share(count: usize, factor: f64) -> usize {
    (count as f64 * factor - 1e-9).ceil().max(0.0) as usize
}

pub(super) fn setting<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Setting(what.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_from_the_goal() {
        let counts = |goal, minimum_fraction, over_selection| {
            let settings = RoundSettings {
                goal,
                minimum_fraction,
                over_selection,
                ..RoundSettings::default()
            };
            (settings.minimum(), settings.invited())
        };
        assert_eq!(counts(10, 0.8, 1.3), (8, 13));
        assert_eq!(counts(1000, 0.8, 1.3), (800, 1300));
        assert_eq!(counts(30, 0.1, 1.1), (3, 33));
        assert_eq!(counts(1, 0.01, 1.0), (1, 1));
        assert_eq!(counts(7, 1.0, 1.3), (7, 10));
    }

    #[test]
    fn an_empty_configuration_is_the_default_and_a_wrong_one_is_named() {
        assert_eq!(
            serde_json::from_str::<RoundSettings>("{}").unwrap(),
            RoundSettings::default()
        );
        let text = r#"{ "goal": 5, "report_timeout": "2s500ms", "asynchronous": { "buffer": 3 } }"#;
        let settings: RoundSettings = serde_json::from_str(text).unwrap();
        assert_eq!(settings.report_timeout, TimeSpan(2500));
        assert_eq!(settings.asynchronous.unwrap().staleness, 20);
        assert!(serde_json::from_str::<RoundSettings>(r#"{ "gaol": 5 }"#).is_err());

        let wrong = [
            ("goal", r#"{ "goal": 0 }"#),
            ("minimum_fraction", r#"{ "minimum_fraction": 0 }"#),
            ("minimum_fraction", r#"{ "minimum_fraction": 1.1 }"#),
            ("over_selection", r#"{ "over_selection": 0.9 }"#),
            ("waiting_room", r#"{ "waiting_room": 1e9 }"#),
            ("report_timeout", r#"{ "report_timeout": "0s" }"#),
            ("asynchronous", r#"{ "asynchronous": { "buffer": 0 } }"#),
            ("period", r#"{ "pace": { "period": "0s" } }"#),
        ];
        for (name, text) in wrong {
            let error = serde_json::from_str::<RoundSettings>(text)
                .unwrap()
                .check()
                .unwrap_err();
            assert!(error.to_string().contains(name), "{name}: {error}");
        }
    }

    #[test]
    fn a_goal_beyond_the_population_is_a_mistake() {
        let settings = RoundSettings {
            goal: 100,
            ..RoundSettings::default()
        };
        assert!(settings.check_for(80).is_ok());
        let error = settings.check_for(79).unwrap_err().to_string();
        assert!(
            error.contains("80 updates") && error.contains("79 clients"),
            "{error}"
        );
    }
}
