//! Who is invited to a round: a pure function of the seed, the round and the time.
//!
//! ```
//! use synod_federate::round::{Round, Time};
//! use synod_federate::select::{Selection, SelectionSettings};
//!
//! // A thousand of a million clients, without touching the others.
//! let settings = SelectionSettings { by: Selection::Availability, ..SelectionSettings::default() };
//! let clients = settings.pick(&1_000_000, 7, Round(3), Time(0), 1000);
//! assert_eq!(clients.len(), 1000);
//! ```

mod diurnal;
mod draw;
mod weighted;

use serde::{Deserialize, Serialize};

pub use diurnal::Diurnal;

use crate::round::{Round, Time};
use crate::{ClientId, Error, Result};
use draw::Draw;

/// By what clients are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// All are equally likely.
    #[default]
    Random,
    /// In proportion to the samples that they have.
    DataSize,
    /// In proportion to their last known loss, within bounds.
    Loss,
    /// All that are there at this time of the day are equally likely.
    Availability,
}

/// How clients are chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SelectionSettings {
    /// By what.
    pub by: Selection,
    /// By loss, the least weight that a client has, as a share of the typical (geometric mean) loss. The most is the
    /// inverse, so that no client can invite itself with a huge loss.
    pub loss_floor: f64,
    /// By availability, when clients are there.
    pub day: Diurnal,
}

impl Default for SelectionSettings {
    fn default() -> SelectionSettings {
        SelectionSettings {
            by: Selection::default(),
            loss_floor: 0.1,
            day: Diurnal::default(),
        }
    }
}

/// The clients there are, numbered from 0, and what is known of them.
pub trait Population {
    /// How many there are.
    fn clients(&self) -> u64;

    /// How many samples a client has.
    fn samples(&self, _client: ClientId) -> u64 {
        1
    }

    /// A client's last known loss, if any.
    fn loss(&self, _client: ClientId) -> Option<f64> {
        None
    }

    /// Whether a client may be chosen now. One that is at work may not.
    fn free(&self, _client: ClientId) -> bool {
        true
    }
}

/// So many clients that are all alike.
impl Population for u64 {
    fn clients(&self) -> u64 {
        *self
    }
}

impl SelectionSettings {
    /// Fails if a number makes no sense, and says which.
    pub fn check(&self) -> Result<()> {
        if !(self.loss_floor > 0.0 && self.loss_floor <= 1.0) {
            return Err(Error::Setting("loss_floor must be above 0 and at most 1".into()));
        }
        self.day.check()
    }

    /// Chooses so many different clients, or all that may be chosen if they are fewer; ordered by client.
    ///
    /// Random choice takes time and memory in proportion to `count`, and by availability to `count` over the share of
    /// clients that are there. By data size and loss every client is looked at, in memory in proportion to `count`.
    pub fn pick(
        &self,
        population: &dyn Population,
        seed: u64,
        round: Round,
        at: Time,
        count: usize,
    ) -> Vec<ClientId> {
        let free = |client: &ClientId| population.free(*client);
        let draw = Draw::new(population.clients(), seed, round).filter(free);
        let mut clients: Vec<ClientId> = match self.by {
            Selection::Random => draw.take(count).collect(),
            Selection::Availability => draw
                .filter(|&c| self.day.available(seed, c, at))
                .take(count)
                .collect(),
            Selection::DataSize => weighted::pick(population, seed, round, count, |client| {
                population.samples(client) as f64
            }),
            Selection::Loss => {
                let typical = weighted::typical_loss(population);
                let (least, most) = (typical * self.loss_floor, typical / self.loss_floor);
                let weight = |client| {
                    population
                        .loss(client)
                        .filter(|loss| loss.is_finite())
                        .unwrap_or(typical)
                };
                weighted::pick(population, seed, round, count, |client| {
                    weight(client).max(least).min(most)
                })
            }
        };
        clients.sort_unstable();
        clients
    }
}

#[cfg(test)]
mod tests;
