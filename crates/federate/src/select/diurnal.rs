//! Clients that come and go with the hours of the day.

use serde::{Deserialize, Serialize};

use crate::round::{Time, TimeSpan};
use crate::{ClientId, Error, Random, Result};

/// Names the stream of random numbers.
const KEEN: u64 = 0x6b65_656e;

/// How many clients are there over the day: a cosine with one peak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Diurnal {
    /// How many times as many clients are there at the peak as at the lowest.
    pub swing: f64,
    /// The hour of the peak, from 0 to 24.
    pub peak: f64,
    /// The share of clients that are there at the peak.
    pub most: f64,
}

impl Default for Diurnal {
    /// Four times as many at two in the morning, when phones charge and jobs drain, as at two in the afternoon.
    fn default() -> Diurnal {
        Diurnal {
            swing: 4.0,
            peak: 2.0,
            most: 1.0,
        }
    }
}

impl Diurnal {
    pub(crate) fn check(&self) -> Result<()> {
        if !(self.swing >= 1.0 && self.swing.is_finite()) {
            return Err(Error::Setting("swing must be at least 1".into()));
        }
        if !(0.0..=24.0).contains(&self.peak) {
            return Err(Error::Setting("peak must be an hour from 0 to 24".into()));
        }
        if !(self.most > 0.0 && self.most <= 1.0) {
            return Err(Error::Setting("most must be above 0 and at most 1".into()));
        }
        Ok(())
    }

    /// The share of clients that are there at a time.
    pub fn level(&self, at: Time) -> f64 {
        let turn = (at.hour() - self.peak) / 24.0 * std::f64::consts::TAU;
        self.most * (1.0 + (self.swing - 1.0) * (1.0 + turn.cos()) / 2.0) / self.swing
    }

    /// How many clients are there at a time, in relation to the mean over the day.
    pub fn crowd(&self, at: Time) -> f64 {
        let mean = self.most * (self.swing + 1.0) / (2.0 * self.swing);
        self.level(at) / mean
    }

    /// Whether a client is there. Every day, counted from one low to the next, it has another keenness, and is there
    /// for as long as the level is above that: one stretch around the peak.
    pub fn available(&self, seed: u64, client: ClientId, at: Time) -> bool {
        let until_low = TimeSpan::seconds((36.0 - self.peak) * 3600.0);
        let day = (at + until_low).0 / TimeSpan::DAY.0;
        Random::new(seed, &[KEEN, client.0, day]).uniform() < self.level(at)
    }
}
