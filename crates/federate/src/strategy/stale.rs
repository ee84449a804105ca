//! Where clients do not wait for each other: updates count less the older the model they began with.

use super::{Asynchronous, ClientUpdate, Gathering, Server, Share, Strategy, Work, advance};
use crate::error::Result;

/// FedBuff (Nguyen et al., 2022): a step after every few updates, whoever they come from.
#[derive(Clone, Copy, Debug)]
pub struct Buffered {
    /// Updates before a step.
    pub buffer: u32,
    /// The server's learning rate.
    pub rate: f64,
    /// Updates older than this many versions are refused.
    pub staleness: u64,
}

impl Strategy for Buffered {
    fn name(&self) -> &'static str {
        "fedbuff"
    }

    fn share(&self, _: &Server, update: &ClientUpdate) -> Result<Share> {
        Ok(Share {
            delta: 1.0 / (1.0 + update.staleness as f64).sqrt(),
            ..Share::weight(1.0)
        })
    }

    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        let sums = gathered.sums()?;
        advance(&mut server.weights, sums.mean().map(|d| d * self.rate));
        server.version += 1;
        Ok(())
    }

    fn asynchronous(&self) -> Option<Asynchronous> {
        Some(Asynchronous {
            buffer: self.buffer,
            staleness: self.staleness,
        })
    }
}

/// FedAsync (Xie et al., 2019): every update is mixed into the model at once.
#[derive(Clone, Copy, Debug)]
pub struct Mixed {
    /// The share of a fresh client's weights in the next model.
    pub mixing: f64,
    /// How fast that share falls with age: the power of one more than the staleness.
    pub power: f64,
    /// Updates older than this many versions are refused.
    pub staleness: u64,
}

impl Strategy for Mixed {
    fn name(&self) -> &'static str {
        "fedasync"
    }

    fn work(&self) -> Work {
        Work {
            origin: true,
            ..Work::default()
        }
    }

    fn share(&self, _: &Server, update: &ClientUpdate) -> Result<Share> {
        let share = self.mixing * (1.0 + update.staleness as f64).powf(-self.power);
        Ok(Share {
            delta: share,
            origin: share,
            ..Share::weight(1.0)
        })
    }

    fn asynchronous(&self) -> Option<Asynchronous> {
        Some(Asynchronous {
            buffer: 1,
            staleness: self.staleness,
        })
    }
}
