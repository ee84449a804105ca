//! A network that reproduces how the last windows usually follow each other.

use serde::{Deserialize, Serialize};
use synod_kernels::{Activation, Dense, Simd};
use synod_nn::{Data, Fit, Loss, Optimizer, Schedule, zoo};

use super::autoencoder::weights;
use super::{Detector, Parts, bounded, room};
use crate::error::{Error, Result};
use crate::rows::Rows;

/// How an autoencoder of sequences is built and trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sequences {
    /// Rows per sequence: the one that is judged, and those before it.
    pub length: usize,
    /// Numbers in the state between reading and writing; chosen by the number of features unless given.
    pub hidden: Option<usize>,
    /// Passes over the sequences, if these make enough steps.
    pub epochs: usize,
    /// Steps to take at least; small sets are passed over more often.
    pub least_steps: usize,
    /// Sequences to train on at most; of more, some are taken at even distances.
    pub most: usize,
    /// Sequences per step.
    pub batch: usize,
    /// The learning rate, which falls to nothing along half a cosine.
    pub rate: f32,
}

impl Default for Sequences {
    fn default() -> Sequences {
        Sequences {
            length: 10,
            hidden: None,
            epochs: 5,
            least_steps: 1500,
            most: 8000,
            batch: 32,
            rate: 3e-3,
        }
    }
}

impl Sequences {
    fn passes(&self, sequences: usize) -> usize {
        let steps = sequences.div_ceil(self.batch.max(1)).max(1);
        self.epochs.max(self.least_steps.div_ceil(steps).min(200))
    }
}

/// What the network sees of a feature is kept within this, on either side of 0.
const FARTHEST: f32 = 100.0;

/// A longer sequence is a mistake.
const LONGEST: usize = 1000;

/// Sequences that are handled together.
const TOGETHER: usize = 64;

/// A trained network, as plain layers: an LSTM that reads a sequence, one that writes it, and a dense layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lstm {
    width: usize,
    length: usize,
    hidden: usize,
    /// For each LSTM its weights from the input, from the state, and its biases; then the dense layer's weights and biases.
    parameters: Vec<f32>,
    /// What each feature's squared error is multiplied by.
    weights: Vec<f32>,
    /// Optimiser steps it was trained for.
    steps: usize,
}

/// Where an LSTM's parameters lie.
struct Cell<'a> {
    inputs: usize,
    hidden: usize,
    from_input: &'a [f32],
    from_state: &'a [f32],
    bias: &'a [f32],
}

impl Lstm {
    /// Trains on the sequences that end in rows to `keep`, and hold no others if there are such.
    pub fn fit(rows: &Rows, keep: &[bool], settings: &Sequences, seed: u64) -> Result<Lstm> {
        let (n, length) = (rows.width(), settings.length.clamp(1, LONGEST));
        let hidden = settings.hidden.unwrap_or(n.clamp(16, 64));
        let ends = ends(keep, rows.len(), length, settings.most);
        if ends.is_empty() {
            return Err(Error::Setting(
                "there is no healthy window to train on; take a longer or another time for training".into(),
            ));
        }
        let sequences: Vec<f32> = ends
            .iter()
            .flat_map(|end| places(*end, length))
            .flat_map(|row| rows.values()[row * n..(row + 1) * n].iter().copied().map(seen))
            .collect();
        let epochs = settings.passes(ends.len());
        let mut model = zoo::lstm_autoencoder(length, n, hidden, seed)?;
        let schedule = Schedule::Cosine { epochs, floor: 0.0 };
        let fit = Fit {
            epochs,
            batch: settings.batch,
            seed,
            ..Fit::new(Loss::Mse, Optimizer::adam(settings.rate).with_schedule(schedule))
        };
        model.fit(&Data::itself(&sequences, length * n), &fit, &mut [])?;
        let mut fitted = Lstm {
            width: n,
            length,
            hidden,
            parameters: model.parameters().to_vec(),
            weights: vec![1.0; n],
            steps: epochs * ends.len().div_ceil(settings.batch.max(1)),
        };
        fitted.weigh(rows, keep);
        Ok(fitted)
    }

    /// Optimiser steps it was trained for.
    pub fn steps(&self) -> usize {
        self.steps
    }

    pub(super) fn suits(&self, width: usize) -> bool {
        let n = self.hidden;
        let cell = |inputs: usize| {
            inputs
                .checked_add(n)?
                .checked_add(1)?
                .checked_mul(n.checked_mul(4)?)
        };
        let dense = || n.checked_add(1)?.checked_mul(width);
        let sum = || cell(width)?.checked_add(cell(n)?)?.checked_add(dense()?);
        self.width == width
            && self.weights.len() == width
            && (1..=LONGEST).contains(&self.length)
            && n > 0
            && sum() == Some(self.parameters.len())
    }

    /// From the same sequences as it is trained on: others may end in a healthy row and still hold unhealthy ones.
    fn weigh(&mut self, rows: &Rows, keep: &[bool]) {
        let clean = ends(keep, rows.len(), self.length, usize::MAX);
        let (mut squares, mut end) = (vec![0.0f64; self.width], 0);
        self.each(rows, rows.len(), &mut vec![], |row, output| {
            if clean.binary_search(&end).is_ok() {
                let errors = row
                    .iter()
                    .zip(output)
                    .map(|(x, y)| f64::from(seen(*x) - y).powi(2));
                squares.iter_mut().zip(errors).for_each(|(s, e)| *s += e);
            }
            end += 1;
        });
        self.weights = weights(&squares, clean.len());
    }

    fn layers(&self) -> (Cell<'_>, Cell<'_>, &[f32], &[f32]) {
        let (reader, rest) = Cell::split(&self.parameters, self.width, self.hidden);
        let (writer, rest) = Cell::split(rest, self.hidden, self.hidden);
        let (weight, bias) = rest.split_at(self.hidden * self.width);
        (reader, writer, weight, bias)
    }

    /// Calls `f` with each of the last rows and what the network makes of it, from the rows before.
    fn each(&self, rows: &Rows, judged: usize, space: &mut Vec<f32>, mut f: impl FnMut(&[f32], &[f32])) {
        let (n, h) = (self.width.max(1), self.hidden);
        let (gates, together) = (4 * h, TOGETHER.min(judged));
        if together == 0 || rows.is_empty() {
            return;
        }
        let (reader, writer, weight, bias) = self.layers();
        let sizes = [rows.len() * n, rows.len() * gates, together * gates, together * n];
        let (clipped, space) =
            room(space, sizes.iter().sum::<usize>() + together * (gates + 2 * h)).split_at_mut(sizes[0]);
        let (read, space) = space.split_at_mut(sizes[1]);
        let (given, space) = space.split_at_mut(sizes[2]);
        let (outputs, space) = space.split_at_mut(sizes[3]);
        let pairs = clipped.iter_mut().zip(rows.values());
        pairs.for_each(|(clipped, value)| *clipped = seen(*value));
        reader.outputs_of(clipped, rows.len(), read);
        let first = rows.len() - judged.min(rows.len());
        for from in (first..rows.len()).step_by(TOGETHER) {
            let count = TOGETHER.min(rows.len() - from);
            let read_at = |sequence: usize, time: usize| {
                let place = (from + sequence).saturating_sub(self.length - 1 - time);
                &read[place * gates..(place + 1) * gates]
            };
            let state = reader.run(count, self.length, space, read_at);
            writer.outputs_of(state, count, given);
            let given_at = |sequence: usize, _: usize| &given[sequence * gates..(sequence + 1) * gates];
            let state = writer.run(count, self.length, space, given_at);
            dense(state, weight, Some(bias), [count, h, n], outputs);
            let judged = rows.values()[from * n..].chunks_exact(n).take(count);
            judged
                .zip(outputs.chunks_exact(n))
                .for_each(|(row, output)| f(row, output));
        }
    }

    fn errors<'a>(&'a self, row: &'a [f32], output: &'a [f32]) -> impl Iterator<Item = f64> + 'a {
        let n = self.width.max(1) as f64;
        row.iter()
            .zip(output)
            .zip(&self.weights)
            .map(move |((x, y), w)| (f64::from(*x) - f64::from(*y)).powi(2) * f64::from(*w).max(0.0) / n)
    }
}

impl<'a> Cell<'a> {
    fn split(parameters: &'a [f32], inputs: usize, hidden: usize) -> (Cell<'a>, &'a [f32]) {
        let (from_input, rest) = parameters.split_at(inputs * 4 * hidden);
        let (from_state, rest) = rest.split_at(hidden * 4 * hidden);
        let (bias, rest) = rest.split_at(4 * hidden);
        let cell = Cell {
            inputs,
            hidden,
            from_input,
            from_state,
            bias,
        };
        (cell, rest)
    }

    /// The inputs' part of the gates.
    fn outputs_of(&self, inputs: &[f32], rows: usize, out: &mut [f32]) {
        let sizes = [rows, self.inputs, 4 * self.hidden];
        dense(inputs, self.from_input, Some(self.bias), sizes, out);
    }

    /// The last states of sequences that run side by side; `input` gives the input's part of the gates of a sequence at a time.
    fn run<'s, 'i>(
        &self,
        sequences: usize,
        times: usize,
        space: &'s mut [f32],
        input: impl Fn(usize, usize) -> &'i [f32],
    ) -> &'s [f32] {
        let n = self.hidden;
        let (state, space) = space.split_at_mut(sequences * n);
        let (memory, space) = space.split_at_mut(sequences * n);
        let gates = &mut space[..sequences * 4 * n];
        state.fill(0.0);
        memory.fill(0.0);
        for time in 0..times {
            dense(state, self.from_state, None, [sequences, n, 4 * n], gates);
            let lines = state.chunks_exact_mut(n).zip(memory.chunks_exact_mut(n));
            for (sequence, ((state, memory), gates)) in lines.zip(gates.chunks_exact(4 * n)).enumerate() {
                let input = input(sequence, time);
                let gate = |k: usize, i: usize| gates[k * n + i] + input[k * n + i];
                for i in 0..n {
                    memory[i] = sigmoid(gate(1, i)) * memory[i] + sigmoid(gate(0, i)) * gate(2, i).tanh();
                    state[i] = sigmoid(gate(3, i)) * memory[i].tanh();
                }
            }
        }
        state
    }
}

fn dense(
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    [rows, inputs, outputs]: [usize; 3],
    y: &mut [f32],
) {
    let layer = Dense {
        rows,
        inputs,
        outputs,
    };
    let y = &mut y[..rows * outputs];
    layer.forward(Simd::best(), x, weight, bias, Activation::Identity, y);
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

fn seen(value: f32) -> f32 {
    value.clamp(-FARTHEST, FARTHEST)
}

/// The rows of the sequence that ends in a row; those before the first are taken to be like it.
fn places(end: usize, length: usize) -> impl Iterator<Item = usize> {
    (0..length).rev().map(move |back| end.saturating_sub(back))
}

/// Where the sequences to train on end.
fn ends(keep: &[bool], rows: usize, length: usize, most: usize) -> Vec<usize> {
    let kept = |row: usize| keep.get(row) == Some(&true);
    let mut ends: Vec<usize> = (0..rows).filter(|e| places(*e, length).all(kept)).collect();
    if ends.is_empty() {
        ends = (0..rows).filter(|e| kept(*e)).collect();
    }
    let count = ends.len().min(most.max(1));
    (0..count).map(|i| ends[i * ends.len() / count]).collect()
}

impl Detector for Lstm {
    fn look_back(&self) -> usize {
        self.length - 1
    }

    fn judge(&self, rows: &Rows, space: &mut Vec<f32>, sizes: &mut [f32]) {
        let mut places = sizes.iter_mut();
        let judged = places.len();
        self.each(rows, judged, space, |row, output| {
            let size = bounded(self.errors(row, output).sum());
            places.by_ref().take(1).for_each(|place| *place = size);
        });
    }

    fn explain(&self, rows: &Rows) -> Parts {
        let mut parts = Parts {
            expected: vec![],
            shares: vec![],
        };
        let from = rows.len().saturating_sub(self.length);
        self.each(&rows.slice(from..rows.len()), 1, &mut vec![], |row, output| {
            parts.expected = output.to_vec();
            parts.shares = self.errors(row, output).map(bounded).collect();
        });
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_layers_say_what_the_model_says_of_each_sequences_last_row() -> Result<()> {
        let (width, length, hidden, rows) = (3, 4, 5, 2 * TOGETHER + 7);
        let values = (0..rows * width).map(|i| (i as f32 * 0.7).sin() * 2.0).collect();
        let rows = Rows::new(width, values);
        let model = zoo::lstm_autoencoder(length, width, hidden, 9)?;
        let network = Lstm {
            width,
            length,
            hidden,
            parameters: model.parameters().to_vec(),
            weights: vec![1.0; width],
            steps: 0,
        };
        let sequences: Vec<f32> = (0..rows.len())
            .flat_map(|end| places(end, length))
            .flat_map(|row| rows.values()[row * width..(row + 1) * width].to_vec())
            .collect();
        let expected = model.predict(&sequences)?;
        let mut expected = expected.chunks_exact(width).skip(length - 1).step_by(length);
        network.each(&rows, rows.len(), &mut vec![], |_, output| {
            let expected = expected.next().expect("as many");
            for (a, b) in output.iter().zip(expected) {
                assert!((a - b).abs() < 1e-5, "{output:?} {expected:?}");
            }
        });
        assert_eq!(expected.next(), None);
        Ok(())
    }

    #[test]
    fn sequences_that_hold_rows_to_leave_out_are_left_out() {
        let keep = [true, true, true, false, true, true, true];
        assert_eq!(ends(&keep, 7, 3, 100), [0, 1, 2, 6]);
        assert_eq!(ends(&keep, 7, 3, 2), [0, 2]);
        let every_other = [true, false, true, false];
        assert_eq!(ends(&every_other[1..], 3, 2, 100), [1]);
        assert!(ends(&[false; 4], 4, 2, 100).is_empty());
    }
}
