//! Weighted means of updates, and what is one but for the work or the weights.

use super::{ClientUpdate, Gathering, Server, Share, Strategy, Work, advance, norm, setting};
use crate::error::Result;

fn samples(update: &ClientUpdate) -> f64 {
    update.samples as f64
}

/// FedAvg (McMahan et al., 2017): the mean of updates, weighted by samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Strategy for Plain {
    fn name(&self) -> &'static str {
        "fedavg"
    }
}

/// FedSGD: every client takes one step on all its rows, which together is one step on the rows of all.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleStep;

impl Strategy for SingleStep {
    fn name(&self) -> &'static str {
        "fedsgd"
    }

    fn work(&self) -> Work {
        Work {
            single_step: true,
            ..Work::default()
        }
    }
}

/// FedProx (Li et al., 2020): clients are pulled back towards the weights they were given.
#[derive(Clone, Copy, Debug)]
pub struct Proximal {
    /// The strength μ of the pull.
    pub mu: f32,
}

impl Strategy for Proximal {
    fn name(&self) -> &'static str {
        "fedprox"
    }

    fn work(&self) -> Work {
        Work {
            proximal: self.mu,
            ..Work::default()
        }
    }
}

/// FedNova (Wang et al., 2020): updates are divided by the steps behind them, so that who works more does not pull more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nova;

impl Strategy for Nova {
    fn name(&self) -> &'static str {
        "fednova"
    }

    fn share(&self, _: &Server, update: &ClientUpdate) -> Result<Share> {
        let (n, steps) = (samples(update), update.steps);
        setting(steps > 0.0, || {
            format!("the update of {} has no steps behind it", update.client)
        })?;
        Ok(Share {
            delta: n / steps,
            scalars: [n, n * steps],
            ..Share::weight(n)
        })
    }

    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        let sums = gathered.sums()?;
        let steps = if sums.weight > 0.0 {
            sums.number / sums.weight
        } else {
            0.0
        };
        advance(&mut server.weights, sums.mean().map(|d| d * steps));
        server.version += 1;
        Ok(())
    }
}

/// FedAvg of updates no longer than a bound: nobody moves the model further than that.
#[derive(Clone, Copy, Debug)]
pub struct Clipped {
    /// The bound on an update's length.
    pub norm: f64,
}

impl Strategy for Clipped {
    fn name(&self) -> &'static str {
        "norm-clipping"
    }

    fn share(&self, _: &Server, update: &ClientUpdate) -> Result<Share> {
        let (n, length) = (samples(update), norm(&update.delta));
        Ok(Share {
            delta: if length > self.norm {
                n * self.norm / length
            } else {
                n
            },
            ..Share::weight(n)
        })
    }
}
