//! SCAFFOLD (Karimireddy et al., 2020): control variates take the clients' drift out of their steps.

use super::{ClientUpdate, Gathering, Server, Share, Strategy, Work, advance};
use crate::error::Result;

/// SCAFFOLD. The server's control variate is the first vector of its memory, absent before the first round.
#[derive(Clone, Copy, Debug)]
pub struct Scaffold {
    /// The server's learning rate.
    pub rate: f64,
}

impl Strategy for Scaffold {
    fn name(&self) -> &'static str {
        "scaffold"
    }

    fn work(&self) -> Work {
        Work {
            variates: true,
            plain_steps: true,
            ..Work::default()
        }
    }

    fn share(&self, _: &Server, update: &ClientUpdate) -> Result<Share> {
        let n = update.samples as f64;
        Ok(Share {
            variate: n,
            ..Share::weight(n)
        })
    }

    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        let sums = gathered.sums()?;
        let rate = self.rate;
        // With the rate of 1 the same bits as FedAvg's.
        match rate == 1.0 {
            true => advance(&mut server.weights, sums.mean()),
            false => advance(&mut server.weights, sums.mean().map(|d| d * rate)),
        }
        let part = sums.count as f64 / server.population.max(sums.count) as f64;
        let factor = if sums.weight > 0.0 {
            part / sums.weight
        } else {
            0.0
        };
        let (_, memory) = server.remember(1);
        advance(&mut memory[0], sums.variates().map(|v| v * factor));
        server.version += 1;
        Ok(())
    }
}
