//! How simulated clients behave: fast and slow ones, those that vanish, crash or straggle.
//!
//! Everything is a pure function of the seed, the client and the round, so a simulation keeps nothing per client and a
//! resumed one goes on as if it had never stopped.
//!
//! ```
//! use synod_federate::ClientId;
//! use synod_federate::round::{Round, TimeSpan, trace::{Behaviour, Fate, Work}};
//!
//! let steady = Behaviour { samples_per_second: 100.0, download: 1e6, upload: 1e6, ..Behaviour::default() };
//! let work = Work { samples: 600, epochs: 5, bytes_down: 2_000_000, bytes_up: 500_000 };
//! assert_eq!(steady.fate(7, ClientId(3), Round(0), work), Fate::Reports { after: TimeSpan::seconds(32.5) });
//! ```

use serde::{Deserialize, Serialize};

use super::{Round, TimeSpan};
use crate::{ClientId, Error, Random, Result};

/// Names the streams of random numbers: what a client is, and what happens to it in a round.
const CLIENT: u64 = 0x7472_6163;
const ROUND: u64 = 0x6661_7465;

/// How a population of clients behaves. By default all are alike and nothing goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// The median client's speed of training.
    pub samples_per_second: f64,
    /// How unequal clients are in speed: the standard deviation of the speed's logarithm.
    pub speed_spread: f64,
    /// The median client's link towards it, in bytes a second.
    pub download: f64,
    /// The median client's link from it, in bytes a second.
    pub upload: f64,
    /// How unequal links are: the standard deviation of their speed's logarithm.
    pub link_spread: f64,
    /// The probability that a client that was given work is never heard of again.
    pub dropout: f64,
    /// The probability that a client crashes: half of those stop midway, half send garbage.
    pub crash: f64,
    /// The probability that a client straggles.
    pub straggle: f64,
    /// How many times slower a straggler is.
    pub slowdown: f64,
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour {
            samples_per_second: 10_000.0,
            speed_spread: 0.0,
            download: 1e7,
            upload: 1e7,
            link_spread: 0.0,
            dropout: 0.0,
            crash: 0.0,
            straggle: 0.0,
            slowdown: 10.0,
        }
    }
}

/// What a client is asked to do in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The samples that it has.
    pub samples: u64,
    /// How often it goes over them.
    pub epochs: u64,
    /// The size of the plan and the model.
    pub bytes_down: u64,
    /// The size of its update.
    pub bytes_up: u64,
}

/// What comes of it, and how long after the work was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// An update arrives.
    Reports {
        /// After how long.
        after: TimeSpan,
    },
    /// Nothing arrives.
    Drops {
        /// After how long the client is gone.
        after: TimeSpan,
        /// Whether the server sees the connection break, or learns nothing.
        noticed: bool,
    },
    /// Something arrives that is no update.
    SendsGarbage {
        /// After how long.
        after: TimeSpan,
    },
}

impl Fate {
    /// How long after the work was given something happens.
    pub fn after(&self) -> TimeSpan {
        match *self {
            Fate::Reports { after } | Fate::Drops { after, .. } | Fate::SendsGarbage { after } => after,
        }
    }
}

/// What a client can do, in all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capability {
    /// Its speed of training.
    pub samples_per_second: f64,
    /// Its link towards it, in bytes a second.
    pub download: f64,
    /// Its link from it, in bytes a second.
    pub upload: f64,
}

impl Behaviour {
    /// Fails if a number makes no sense, and says which.
    pub fn check(&self) -> Result<()> {
        let speeds = [
            ("samples_per_second", self.samples_per_second),
            ("download", self.download),
            ("upload", self.upload),
        ];
        if let Some((name, _)) = speeds
            .iter()
            .find(|(_, speed)| !(*speed > 0.0 && speed.is_finite()))
        {
            return Err(Error::Setting(format!("{name} must be above 0")));
        }
        let spreads = [
            ("speed_spread", self.speed_spread),
            ("link_spread", self.link_spread),
        ];
        if let Some((name, _)) = spreads.iter().find(|(_, spread)| !(0.0..=10.0).contains(spread)) {
            return Err(Error::Setting(format!("{name} must be from 0 to 10")));
        }
        let chances = [self.dropout, self.crash, self.straggle];
        if chances.iter().any(|chance| !(0.0..=1.0).contains(chance)) || self.dropout + self.crash > 1.0 {
            return Err(Error::Setting(
                "dropout, crash and straggle must be from 0 to 1, and dropout and crash at most 1 together"
                    .into(),
            ));
        }
        if !(self.slowdown >= 1.0 && self.slowdown.is_finite()) {
            return Err(Error::Setting("slowdown must be at least 1".into()));
        }
        Ok(())
    }

    /// What a client can do.
    pub(crate) fn capability(&self, seed: u64, client: ClientId) -> Capability {
        let mut random = Random::new(seed, &[CLIENT, client.0]);
        let mut around = |median: f64, spread: f64| median * (spread * random.normal()).exp();
        Capability {
            samples_per_second: around(self.samples_per_second, self.speed_spread),
            download: around(self.download, self.link_spread),
            upload: around(self.upload, self.link_spread),
        }
    }

    /// What comes of giving a client work in a round.
    pub fn fate(&self, seed: u64, client: ClientId, round: Round, work: Work) -> Fate {
        let mut random = Random::new(seed, &[ROUND, client.0, round.0]);
        let (fault, garbles, straggles, midway) = (
            random.uniform(),
            random.uniform() < 0.5,
            random.uniform() < self.straggle,
            random.uniform(),
        );
        let pace = if straggles { self.slowdown } else { 1.0 };
        let whole = TimeSpan::seconds(self.capability(seed, client).seconds(work) * pace);
        match fault {
            fault if fault < self.dropout => Fate::Drops {
                after: TimeSpan(0),
                noticed: false,
            },
            fault if fault >= self.dropout + self.crash => Fate::Reports { after: whole },
            _ if garbles => Fate::SendsGarbage { after: whole },
            _ => Fate::Drops {
                after: whole.times(midway),
                noticed: true,
            },
        }
    }
}

impl Capability {
    fn seconds(&self, work: Work) -> f64 {
        let passes = work.samples as f64 * work.epochs as f64;
        work.bytes_down as f64 / self.download
            + passes / self.samples_per_second
            + work.bytes_up as f64 / self.upload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work {
        samples: 1000,
        epochs: 2,
        bytes_down: 1000,
        bytes_up: 1000,
    };

    fn fates(behaviour: &Behaviour) -> Vec<Fate> {
        (0..20_000)
            .map(|client| behaviour.fate(1, ClientId(client), Round(client % 7), WORK))
            .collect()
    }

    fn share(fates: &[Fate], which: impl Fn(&Fate) -> bool) -> f64 {
        fates.iter().filter(|fate| which(fate)).count() as f64 / fates.len() as f64
    }

    #[test]
    fn faults_are_as_frequent_as_asked_for() {
        let faulty = Behaviour {
            dropout: 0.06,
            crash: 0.1,
            straggle: 0.2,
            slowdown: 5.0,
            ..Behaviour::default()
        };
        let fates = fates(&faulty);
        let usual = Behaviour::default().fate(1, ClientId(0), Round(0), WORK).after();
        let silent = share(&fates, |f| matches!(f, Fate::Drops { noticed: false, .. }));
        let midway = share(&fates, |f| matches!(f, Fate::Drops { noticed: true, .. }));
        let garbage = share(&fates, |f| matches!(f, Fate::SendsGarbage { .. }));
        let slow = share(
            &fates,
            |f| matches!(f, Fate::Reports { after } if *after >= usual.times(5.0)),
        );
        for (found, asked) in [
            (silent, 0.06),
            (midway, 0.05),
            (garbage, 0.05),
            (slow, 0.84 * 0.2),
        ] {
            assert!((found - asked).abs() < 0.01, "{found} {asked}");
        }
    }

    #[test]
    fn by_default_everyone_reports_at_the_same_time() {
        let fates = fates(&Behaviour::default());
        assert!(
            fates
                .iter()
                .all(|fate| *fate == Fate::Reports { after: TimeSpan(200) }),
            "{:?}",
            fates[0]
        );
    }

    #[test]
    fn speeds_are_lognormal_and_belong_to_the_client() {
        let uneven = Behaviour {
            speed_spread: 0.5,
            link_spread: 1.0,
            ..Behaviour::default()
        };
        let logs = |of: fn(&Capability) -> f64| {
            let logs: Vec<f64> = (0..20_000)
                .map(|c| of(&uneven.capability(2, ClientId(c))).ln())
                .collect();
            let mean = logs.iter().sum::<f64>() / 2e4;
            (
                mean,
                (logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 2e4).sqrt(),
            )
        };
        let (speed, spread) = logs(|c| c.samples_per_second);
        assert!(
            (speed - 1e4f64.ln()).abs() < 0.02 && (spread - 0.5).abs() < 0.01,
            "{speed} {spread}"
        );
        let (link, spread) = logs(|c| c.upload);
        assert!(
            (link - 1e7f64.ln()).abs() < 0.03 && (spread - 1.0).abs() < 0.02,
            "{link} {spread}"
        );
        let fate = |round| uneven.fate(2, ClientId(9), Round(round), WORK);
        assert_eq!(fate(0), fate(1));
    }

    #[test]
    fn a_crash_midway_comes_before_the_report_would_have() {
        let crashing = Behaviour {
            crash: 1.0,
            ..Behaviour::default()
        };
        let whole = TimeSpan(200);
        let after: Vec<TimeSpan> = fates(&crashing)
            .into_iter()
            .filter_map(|fate| match fate {
                Fate::Drops { after, .. } => Some(after),
                Fate::Reports { .. } | Fate::SendsGarbage { .. } => None,
            })
            .collect();
        assert!(after.iter().all(|&after| after <= whole) && after.iter().any(|&after| after < TimeSpan(20)));
    }

    #[test]
    fn senseless_behaviour_is_named() {
        let wrong = [
            ("upload", r#"{ "upload": 0 }"#),
            ("speed_spread", r#"{ "speed_spread": -1 }"#),
            ("dropout", r#"{ "dropout": 0.6, "crash": 0.6 }"#),
            ("slowdown", r#"{ "slowdown": 0.5 }"#),
        ];
        for (name, text) in wrong {
            let error = serde_json::from_str::<Behaviour>(text)
                .unwrap()
                .check()
                .unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        assert!(Behaviour::default().check().is_ok());
    }
}
