//! The mean update as a gradient that an optimiser of the server follows (Reddi et al., 2021; Hsu et al., 2019).

use super::{Gathering, Server, Strategy};
use crate::error::Result;

/// FedAvgM: the server has momentum.
#[derive(Clone, Copy, Debug)]
pub struct Momentum {
    /// The server's learning rate.
    pub rate: f64,
    /// What remains of the last step's velocity.
    pub momentum: f64,
}

impl Strategy for Momentum {
    fn name(&self) -> &'static str {
        "fedavgm"
    }

    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        let sums = gathered.sums()?;
        let (weights, memory) = server.remember(1);
        for ((w, v), d) in weights.iter_mut().zip(&mut memory[0]).zip(sums.mean()) {
            let velocity = self.momentum * f64::from(*v) + d;
            *v = velocity as f32;
            *w = (f64::from(*w) + self.rate * velocity) as f32;
        }
        server.version += 1;
        Ok(())
    }
}

/// How an adaptive server follows the mean of squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeanOfSquares {
    /// Their sum.
    Adagrad,
    /// A mean that forgets, corrected for its beginning.
    Adam,
    /// A mean that moves towards each square by at most a part of it.
    Yogi,
}

/// FedAdagrad, FedAdam and FedYogi: every weight has a step of its own.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveStep {
    /// Which.
    pub kind: MeanOfSquares,
    /// The server's learning rate.
    pub rate: f64,
    /// What remains of the mean.
    pub beta1: f64,
    /// What remains of the mean of squares.
    pub beta2: f64,
    /// Added to the root, so that small updates stay small.
    pub tau: f64,
}

impl AdaptiveStep {
    /// The square's new mean.
    fn square(&self, v: f64, d: f64) -> f64 {
        let s = d * d;
        match self.kind {
            MeanOfSquares::Adagrad => v + s,
            MeanOfSquares::Adam => self.beta2 * v + (1.0 - self.beta2) * s,
            MeanOfSquares::Yogi if v == s => v,
            MeanOfSquares::Yogi => v - (1.0 - self.beta2) * s * (v - s).signum(),
        }
    }

    fn rate(&self, version: u64) -> f64 {
        match self.kind {
            // Versions count from 0 here, and the correction begins as if one step had been taken.
            MeanOfSquares::Adam => {
                let t = version as f64 + 2.0;
                self.rate * (1.0 - self.beta2.powf(t)).sqrt() / (1.0 - self.beta1.powf(t))
            }
            _ => self.rate,
        }
    }
}

impl Strategy for AdaptiveStep {
    fn name(&self) -> &'static str {
        match self.kind {
            MeanOfSquares::Adagrad => "fedadagrad",
            MeanOfSquares::Adam => "fedadam",
            MeanOfSquares::Yogi => "fedyogi",
        }
    }

    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        let sums = gathered.sums()?;
        let rate = self.rate(server.version);
        let beta1 = if self.kind == MeanOfSquares::Adagrad {
            0.0
        } else {
            self.beta1
        };
        let (weights, memory) = server.remember(2);
        let [means, squares] = memory else { return Ok(()) };
        let state = weights.iter_mut().zip(means).zip(squares);
        for (((w, m), v), d) in state.zip(sums.mean()) {
            let mean = beta1 * f64::from(*m) + (1.0 - beta1) * d;
            let square = self.square(f64::from(*v), d);
            (*m, *v) = (mean as f32, square as f32);
            *w = (f64::from(*w) + rate * mean / (square.sqrt() + self.tau)) as f32;
        }
        server.version += 1;
        Ok(())
    }
}
