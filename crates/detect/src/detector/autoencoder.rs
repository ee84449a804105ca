//! A network that reproduces what is usual, and fails at what is not.

use serde::{Deserialize, Serialize};
use synod_core::Random;
use synod_kernels::{Activation as Kernel, Dense, Simd};
use synod_nn::layers::Activation;
use synod_nn::{Data, Fit, Loss, Model, Optimizer, zoo};

use super::covariance::BATCH;
use super::{Detector, Parts, last, room};
use crate::error::Result;
use crate::rows::Rows;

/// How an autoencoder is built and trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Training {
    /// Widths of the layers between input and output; chosen by the number of features unless given.
    pub hidden: Option<Vec<usize>>,
    /// Whether the last layer ends in a sigmoid, for features between 0 and 1.
    pub sigmoid: bool,
    /// Passes over the rows, if these make enough steps.
    pub epochs: usize,
    /// Steps to take at least; small sets are passed over more often.
    pub least_steps: usize,
    /// Rows per step.
    pub batch: usize,
    /// The share of each row's features that is hidden from the network while it learns.
    pub hide: f32,
    /// The loss.
    pub loss: Measure,
    /// The optimiser.
    pub optimizer: Rule,
    /// The learning rate.
    pub rate: f32,
    /// Whether features that are hard to reproduce count less.
    pub weigh: bool,
}

/// What training minimises.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// The mean square.
    Mse,
    /// The root of the mean square.
    Rmse,
}

/// How training minimises it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Adam, whose rate falls to nothing along half a cosine.
    Adam,
    /// RMSprop at a constant rate.
    Rmsprop,
}

impl Default for Training {
    fn default() -> Training {
        Training {
            hidden: None,
            sigmoid: false,
            epochs: 10,
            least_steps: 3000,
            batch: 16,
            hide: 0.1,
            loss: Measure::Mse,
            optimizer: Rule::Adam,
            rate: 2e-3,
            weigh: true,
        }
    }
}

impl Training {
    /// The protocol of the Marconi100 paper: its network, loss, optimiser, rate and batch.
    pub fn paper() -> Training {
        Training {
            hidden: Some(vec![80, 60, 40, 20, 40, 60, 80, 100]),
            sigmoid: true,
            epochs: 10,
            least_steps: 0,
            batch: 10,
            hide: 0.0,
            loss: Measure::Rmse,
            optimizer: Rule::Rmsprop,
            rate: 1e-6,
            weigh: false,
        }
    }

    fn widths(&self, features: usize) -> Vec<usize> {
        let outer = features.clamp(32, 64);
        let inner = (features / 4).clamp(8, 16);
        let hidden = self.hidden.clone().unwrap_or_else(|| vec![outer, inner, outer]);
        [vec![features], hidden, vec![features]].concat()
    }

    /// The network before training.
    pub fn network(&self, features: usize, seed: u64) -> Result<Model> {
        let end = match self.sigmoid {
            true => Activation::Sigmoid,
            false => Activation::Identity,
        };
        Ok(zoo::autoencoder_ending_in(&self.widths(features), end, seed)?)
    }

    /// The optimiser at a rate that does not fall.
    pub fn constant(&self) -> Optimizer {
        match self.optimizer {
            Rule::Adam => Optimizer::adam(self.rate),
            Rule::Rmsprop => Optimizer::rmsprop(self.rate),
        }
    }

    /// What training minimises.
    pub fn loss(&self) -> Loss {
        match self.loss {
            Measure::Mse => Loss::Mse,
            Measure::Rmse => Loss::Rmse,
        }
    }

    /// Epochs that make enough steps.
    pub fn passes(&self, rows: usize) -> usize {
        let steps = rows.div_ceil(self.batch.max(1)).max(1);
        self.epochs
            .max(self.least_steps.div_ceil(steps))
            .min(200)
            .max(self.epochs)
    }
}

/// A trained network, as plain layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Autoencoder {
    widths: Vec<usize>,
    sigmoid: bool,
    /// Weights `[inputs, outputs]` and then biases, layer by layer.
    parameters: Vec<f32>,
    /// What each feature's squared error is multiplied by.
    weights: Vec<f32>,
    /// Optimiser steps it was trained for.
    steps: usize,
}

impl Autoencoder {
    /// Trains on rows.
    pub fn fit(rows: &Rows, training: &Training, seed: u64) -> Result<Autoencoder> {
        let n = rows.width();
        let mut model = training.network(n, seed)?;
        let epochs = training.passes(rows.len());
        let optimizer = match training.optimizer {
            Rule::Adam => training
                .constant()
                .with_schedule(synod_nn::Schedule::Cosine { epochs, floor: 0.0 }),
            Rule::Rmsprop => training.constant(),
        };
        let fit = Fit {
            epochs,
            batch: training.batch,
            seed,
            ..Fit::new(training.loss(), optimizer)
        };
        let inputs = hide(rows, training.hide, seed);
        let data = match &inputs {
            Some(inputs) => Data::new(inputs, n, rows.values(), n),
            None => Data::itself(rows.values(), n),
        };
        model.fit(&data, &fit, &mut [])?;
        let fitted = Autoencoder {
            widths: training.widths(n),
            sigmoid: training.sigmoid,
            parameters: model.parameters().to_vec(),
            weights: vec![1.0; n],
            steps: 0,
        };
        let steps = epochs * rows.len().div_ceil(training.batch.max(1));
        Ok(fitted.trained(training, rows, steps))
    }

    /// A network for some features of `all`, cut out of one for all of them: exactly what that makes of rows in which the
    /// others are 0, at the outputs that remain.
    pub fn cut(training: &Training, all: usize, parameters: &[f32], places: &[usize]) -> Autoencoder {
        let whole = training.widths(all);
        let (layers, mut at, mut kept) = (whole.len() - 1, 0, vec![]);
        for (i, pair) in whole.windows(2).enumerate() {
            let (inputs, outputs) = (pair[0], pair[1]);
            let every: Vec<usize> = (0..inputs.max(outputs)).collect();
            let rows = if i == 0 { places } else { &every[..inputs] };
            let columns = if i + 1 == layers {
                places
            } else {
                &every[..outputs]
            };
            // The biases follow the weights as one more row.
            for row in rows.iter().copied().chain([inputs]) {
                kept.extend(columns.iter().map(|c| parameters[at + row * outputs + c]));
            }
            at += (inputs + 1) * outputs;
        }
        let mut widths = whole;
        widths[0] = places.len();
        widths[layers] = places.len();
        Autoencoder {
            widths,
            sigmoid: training.sigmoid,
            parameters: kept,
            weights: vec![1.0; places.len()],
            steps: 0,
        }
    }

    /// The network with what its training says of features, by their errors on rows.
    pub fn trained(mut self, training: &Training, rows: &Rows, steps: usize) -> Autoencoder {
        self.steps = steps;
        if training.weigh {
            self.weigh(rows);
        }
        self
    }

    /// Optimiser steps it was trained for.
    pub fn steps(&self) -> usize {
        self.steps
    }

    pub(super) fn suits(&self, width: usize) -> bool {
        let parameters = |pair: &[usize]| pair[0].checked_mul(pair[1])?.checked_add(pair[1]);
        let sum = self
            .widths
            .windows(2)
            .map(parameters)
            .try_fold(0usize, |sum, p| sum.checked_add(p?));
        let ends = (self.widths.first(), self.widths.last()) == (Some(&width), Some(&width));
        ends && self.widths.len() > 1 && self.weights.len() == width && sum == Some(self.parameters.len())
    }

    /// Halves, on a logarithmic scale, the differences between features in how well they are reproduced.
    fn weigh(&mut self, rows: &Rows) {
        let n = self.weights.len();
        let mut squares = vec![0.0f64; n];
        self.each(rows.values(), &mut vec![], |row, output| {
            let errors = row.iter().zip(output).map(|(x, y)| f64::from(x - y).powi(2));
            squares.iter_mut().zip(errors).for_each(|(s, e)| *s += e);
        });
        self.weights = weights(&squares, rows.len());
    }

    /// Calls `f` with every one of some rows and what the network makes of it.
    fn each(&self, rows: &[f32], space: &mut Vec<f32>, mut f: impl FnMut(&[f32], &[f32])) {
        let (simd, n) = (Simd::best(), self.weights.len().max(1));
        let widest = self.widths.iter().copied().max().unwrap_or(0);
        let (mut from, mut to) = room(space, 2 * widest * BATCH).split_at_mut(widest * BATCH);
        let layers = self.widths.len() - 1;
        for chunk in rows.chunks(n * BATCH) {
            let count = chunk.len() / n;
            from[..chunk.len()].copy_from_slice(chunk);
            let mut at = 0;
            for (i, pair) in self.widths.windows(2).enumerate() {
                let (inputs, outputs) = (pair[0], pair[1]);
                let (w, b) = (at, at + inputs * outputs);
                at = b + outputs;
                let act = match (i + 1 == layers, self.sigmoid) {
                    (false, _) => Kernel::Relu,
                    (true, true) => Kernel::Sigmoid,
                    (true, false) => Kernel::Identity,
                };
                let layer = Dense {
                    rows: count,
                    inputs,
                    outputs,
                };
                let (weights, bias) = (&self.parameters[w..b], Some(&self.parameters[b..at]));
                let (x, y) = (&from[..count * inputs], &mut to[..count * outputs]);
                layer.forward(simd, x, weights, bias, act, y);
                std::mem::swap(&mut from, &mut to);
            }
            chunk
                .chunks_exact(n)
                .zip(from.chunks_exact(n))
                .for_each(|(row, output)| f(row, output));
        }
    }
}

/// Weights from the sums of squared errors over rows.
pub(super) fn weights(squares: &[f64], rows: usize) -> Vec<f32> {
    let deviation: Vec<f64> = squares
        .iter()
        .map(|s| (s / rows.max(1) as f64).sqrt() + 1e-3)
        .collect();
    let mut sorted = deviation.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(1.0);
    deviation.iter().map(|d| (1.0 / (d * middle)) as f32).collect()
}

/// The rows with some features set to 0, the centre; `None` if none are to be.
pub fn hide(rows: &Rows, share: f32, seed: u64) -> Option<Vec<f32>> {
    if share <= 0.0 {
        return None;
    }
    let mut random = Random::from_state(seed ^ 0x2545_f491_4f6c_dd1d);
    let mut next = || (random.bits() >> 40) as f32 / (1u64 << 24) as f32;
    Some(
        rows.values()
            .iter()
            .map(|x| if next() < share { 0.0 } else { *x })
            .collect(),
    )
}

impl Detector for Autoencoder {
    fn judge(&self, rows: &Rows, space: &mut Vec<f32>, sizes: &mut [f32]) {
        let n = self.weights.len().max(1) as f32;
        let rows = last(rows, sizes.len());
        let mut places = sizes.iter_mut();
        self.each(rows, space, |row, output| {
            let errors = row.iter().zip(output).zip(&self.weights);
            let sum = errors.map(|((x, y), w)| (x - y) * (x - y) * w).sum::<f32>();
            places.by_ref().take(1).for_each(|size| *size = sum / n);
        });
    }

    fn explain(&self, rows: &Rows) -> Parts {
        let mut parts = Parts {
            expected: vec![],
            shares: vec![],
        };
        self.each(last(rows, 1), &mut vec![], |row, output| {
            parts.expected = output.to_vec();
            let errors = row.iter().zip(output).zip(&self.weights);
            parts.shares = errors.map(|((x, y), w)| (x - y) * (x - y) * w).collect();
        });
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_cut_to_some_features_says_what_the_whole_says_of_rows_without_the_others() {
        for hidden in [vec![5, 3], vec![]] {
            let training = Training {
                hidden: Some(hidden),
                weigh: false,
                ..Training::default()
            };
            let model = training.network(4, 3).expect("a network");
            let every = [0, 1, 2, 3];
            let whole = Autoencoder::cut(&training, 4, model.parameters(), &every);
            assert_eq!(whole.parameters, model.parameters());
            let part = Autoencoder::cut(&training, 4, model.parameters(), &[2, 0]);
            assert!(part.suits(2));
            let explained =
                |network: &Autoencoder, row: &[f32]| network.explain(&Rows::new(row.len(), row.to_vec()));
            let expected = explained(&whole, &[0.7, 0.0, -0.4, 0.0]);
            let found = explained(&part, &[-0.4, 0.7]);
            for (a, b) in [expected.expected[2], expected.expected[0]]
                .iter()
                .zip(&found.expected)
            {
                assert!((a - b).abs() < 1e-6, "{a} {b}");
            }
        }
    }
}
