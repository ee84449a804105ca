//! What a server makes of the updates of a round.
//!
//! A strategy is pure: it weighs updates, and makes the next model of what was gathered. Those that add updates up need
//! the memory of a few models, whatever the number of clients; robust ones that compare updates need all of them.
//!
//! ```
//! use synod_federate::strategy::{Gathering, Plain, Server, Strategy, ClientUpdate};
//! use synod_federate::ClientId;
//!
//! let mut server = Server::new(vec![1.0, 1.0], 2);
//! let mut gathering = Gathering::begin(&Plain, &server);
//! gathering.add(&Plain, &server, &ClientUpdate::new(ClientId(0), 30, vec![1.0, 0.0]))?;
//! gathering.add(&Plain, &server, &ClientUpdate::new(ClientId(1), 10, vec![0.0, 4.0]))?;
//! Plain.step(&mut server, &gathering)?;
//! assert_eq!(server.weights, [1.75, 2.0]);
//! # Ok::<(), synod_federate::Error>(())
//! ```

mod average;
mod choice;
mod fair;
mod gather;
mod optimise;
mod robust;
mod select_updates;
mod stale;
mod trust;
mod variates;

use serde::{Deserialize, Serialize};

pub use self::average::{Clipped, Nova, Plain, Proximal, SingleStep};
pub use self::choice::StrategyChoice;
pub use self::fair::Fair;
pub use self::gather::Gathering;
pub use self::optimise::{AdaptiveStep, MeanOfSquares, Momentum};
pub use self::robust::{GeometricMedian, Median, TrimmedMean};
pub use self::select_updates::{Bulyan, Krum};
pub use self::stale::{Buffered, Mixed};
pub use self::trust::Trust;
pub use self::variates::Scaffold;

use crate::client::ClientId;
use crate::error::{Error, Result};

/// What one client sends after its work.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientUpdate {
    /// Who did the work.
    pub client: ClientId,
    /// The rows it trained on.
    pub samples: u64,
    /// Its optimiser steps, as [`Nova`] counts them: with momentum a step is worth more.
    pub steps: f64,
    /// The loss of the model it was given, on its rows; asked for by [`Work::loss`].
    pub loss: f64,
    /// Versions of the model that were made since it began; 0 in rounds.
    pub staleness: u64,
    /// Its weights less those it was given.
    pub delta: Vec<f32>,
    /// The change of its control variate; asked for by [`Work::variates`].
    pub variate: Option<Vec<f32>>,
    /// The weights it was given less those of today; asked for by [`Work::origin`].
    pub origin: Option<Vec<f32>>,
}

impl ClientUpdate {
    /// An update of one step, from the model of today.
    pub fn new(client: ClientId, samples: u64, delta: Vec<f32>) -> ClientUpdate {
        ClientUpdate {
            client,
            samples,
            steps: 1.0,
            loss: 0.0,
            staleness: 0,
            delta,
            variate: None,
            origin: None,
        }
    }
}

/// What a strategy asks of clients beside training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// The strength of a pull towards the given weights; 0 for none.
    pub proximal: f32,
    /// Clients keep control variates and send their changes.
    pub variates: bool,
    /// Clients measure the loss of the model they are given.
    pub loss: bool,
    /// One step on all rows, whatever the plan says.
    pub single_step: bool,
    /// The server trains on rows of its own, as a reference for the clients' updates.
    pub reference: bool,
    /// Updates say how far the weights they began with are from those of today.
    pub origin: bool,
    /// Updates are sums of gradients times the learning rate, which the strategy divides by.
    pub plain_steps: bool,
}

/// The model of a federation and what its strategy remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Models made so far.
    pub version: u64,
    /// Parameters, then what is not trained.
    pub weights: Vec<f32>,
    /// The strategy's memory: momentum, means of squares, the control variate.
    pub memory: Vec<Vec<f32>>,
    /// The registered clients.
    pub population: u64,
    /// The update of the server's own training in this round, for strategies that ask for it.
    pub reference: Option<Vec<f32>>,
}

impl Server {
    /// The server of a new federation.
    pub fn new(weights: Vec<f32>, population: u64) -> Server {
        Server {
            version: 0,
            weights,
            memory: vec![],
            population,
            reference: None,
        }
    }

    /// The strategy's memory, `count` vectors like the weights, zero at first.
    fn remember(&mut self, count: usize) -> (&mut [f32], &mut [Vec<f32>]) {
        self.memory.resize_with(count, || vec![0.0; self.weights.len()]);
        (&mut self.weights, &mut self.memory)
    }
}

/// How much of an update goes into the sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The factor on its delta.
    pub delta: f64,
    /// The factor on its origin.
    pub origin: f64,
    /// The factor on the change of its control variate.
    pub variate: f64,
    /// What is summed beside: a total weight, and one number that the strategy needs.
    pub scalars: [f64; 2],
}

impl Share {
    /// A share whose factor is its weight.
    pub fn weight(weight: f64) -> Share {
        Share {
            delta: weight,
            origin: 0.0,
            variate: 0.0,
            scalars: [weight, 0.0],
        }
    }
}

/// What a strategy needs to have at the end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Sums over updates.
    Sums,
    /// Every update: memory grows with the clients of a round.
    Every,
}

/// How updates become the next model.
pub trait Strategy: Send + Sync {
    /// The name, as in a configuration.
    fn name(&self) -> &'static str;

    /// What clients do beside training.
    fn work(&self) -> Work {
        Work::default()
    }

    /// What must be gathered.
    fn need(&self) -> Need {
        Need::Sums
    }

    /// The updates without which it cannot make a step.
    fn fewest(&self) -> usize {
        1
    }

    /// What an update counts in the sums: its samples, unless the strategy says otherwise.
    fn share(&self, _server: &Server, update: &ClientUpdate) -> Result<Share> {
        Ok(Share::weight(update.samples as f64))
    }

    /// Makes the next model of a round's gathered updates: moved by their mean, unless the strategy says otherwise.
    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        advance(&mut server.weights, gathered.sums()?.mean());
        server.version += 1;
        Ok(())
    }

    /// Updates to gather before a step, where clients do not wait for each other.
    fn asynchronous(&self) -> Option<Asynchronous> {
        None
    }
}

/// How a federation runs in which clients do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asynchronous {
    /// Updates before a step.
    pub buffer: u32,
    /// Updates that are older than this many versions are refused.
    pub staleness: u64,
}

/// Moves weights by a mean update.
fn advance(weights: &mut [f32], mean: impl Iterator<Item = f64>) {
    weights
        .iter_mut()
        .zip(mean)
        .for_each(|(w, d)| *w = (f64::from(*w) + d) as f32);
}

/// The length of a vector.
fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

fn setting(holds: bool, problem: impl FnOnce() -> String) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Error::Setting(problem())),
    }
}

#[cfg(test)]
mod tests;
