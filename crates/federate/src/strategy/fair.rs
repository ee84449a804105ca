//! q-FedAvg (Li et al., 2020): clients with a higher loss count more.

use super::{ClientUpdate, Server, Share, Strategy, Work, norm};
use crate::error::Result;

/// Keeps a loss of zero from becoming infinite under a negative power.
const TINY: f64 = 1e-10;

/// q-FedAvg; with `q` of 0 all clients count alike.
#[derive(Clone, Copy, Debug)]
pub struct Fair {
    /// How much the loss counts.
    pub q: f64,
    /// The clients' learning rate, whose inverse bounds the curvature.
    pub rate: f64,
}

impl Strategy for Fair {
    fn name(&self) -> &'static str {
        "q-fedavg"
    }

    fn work(&self) -> Work {
        Work {
            loss: true,
            plain_steps: true,
            ..Work::default()
        }
    }

    fn share(&self, _: &Server, update: &ClientUpdate) -> Result<Share> {
        let (curvature, loss) = (1.0 / self.rate, update.loss + TINY);
        let gradient = curvature * norm(&update.delta);
        let delta = curvature * loss.powf(self.q);
        let bound = self.q * loss.powf(self.q - 1.0) * gradient.powi(2) + delta;
        Ok(Share {
            delta,
            ..Share::weight(bound)
        })
    }
}
