//! Loss and accuracy of changing parameters on chosen rows.

use std::sync::Arc;

use synod_engine::{Graph, Options, Session, Tensor, compile};
use synod_kernels::gather_rows;

use crate::data::Data;
use crate::error::Result;
use crate::loss::Loss;
use crate::model::{Model, measure_graph};

/// Rows judged at once, and programs of fewer rows that are kept.
const CHUNK: usize = 250;
const SHORT: usize = 32;

/// Judges parameters again and again: compiled once, on any rows.
pub struct Measurer {
    model: Model,
    loss: Loss,
    itself: bool,
    chunk: usize,
    sessions: Vec<(usize, Session)>,
    weights: Vec<f32>,
}

/// What rows were found to be worth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// The sum of the rows' losses; for [`Loss::Rmse`], of their squares.
    pub loss: f64,
    /// The rows whose class was named; 0 if rows have none.
    pub correct: f64,
    /// The rows.
    pub rows: u64,
}

impl Measured {
    /// The mean loss.
    pub fn mean_loss(&self) -> f64 {
        self.loss / self.rows.max(1) as f64
    }

    /// The share of rows whose class was named.
    pub fn accuracy(&self) -> f64 {
        self.correct / self.rows.max(1) as f64
    }
}

impl std::ops::Add for Measured {
    type Output = Measured;

    fn add(self, other: Measured) -> Measured {
        Measured {
            loss: self.loss + other.loss,
            correct: self.correct + other.correct,
            rows: self.rows + other.rows,
        }
    }
}

impl Measurer {
    /// For a model's parameters; `itself` means that inputs are their own targets.
    pub fn new(model: &Model, loss: Loss, itself: bool) -> Result<Measurer> {
        Ok(Measurer {
            chunk: model.chunk()?.min(CHUNK),
            weights: [model.parameters(), model.buffers()].concat(),
            model: model.clone(),
            loss,
            itself,
            sessions: vec![],
        })
    }

    /// Judges these parameters and buffers, one after the other, from now on.
    pub fn set_weights(&mut self, weights: &[f32]) {
        self.weights.copy_from_slice(weights);
        let (count, all) = self.counts();
        for (_, session) in &mut self.sessions {
            write(session, count, all, &self.weights);
        }
    }

    fn counts(&self) -> (usize, usize) {
        let count = self.model.layout().entries().len();
        (count, count + self.model.buffer_layout().entries().len())
    }

    /// Loss and accuracy on the named rows.
    pub fn measure(&mut self, data: &Data<'_>, rows: &[u32]) -> Result<Measured> {
        let mut total = Measured::default();
        let input = self.counts().1;
        let whole = data.targets().is_some_and(|(_, width)| width == 1);
        for rows in rows.chunks(self.chunk) {
            let session = self.session(rows.len())?;
            gather_rows(data.inputs(), data.width(), rows, session.param_mut(input));
            if let Some((targets, width)) = data.targets() {
                gather_rows(targets, width, rows, session.param_mut(input + 1));
            }
            session.run();
            let (loss, n) = (f64::from(session.output(0)[0]), rows.len() as f64);
            let accuracy = session.output(0).get(1).map_or(0.0, |a| f64::from(*a));
            total = total
                + Measured {
                    loss: loss * n,
                    // The mean of one class per row was a whole number of rows.
                    correct: if whole {
                        (accuracy * n).round()
                    } else {
                        accuracy * n
                    },
                    rows: rows.len() as u64,
                };
        }
        Ok(total)
    }

    fn session(&mut self, rows: usize) -> Result<&mut Session> {
        if let Some(place) = self.sessions.iter().position(|(n, _)| *n == rows) {
            return Ok(&mut self.sessions[place].1);
        }
        let (count, all) = self.counts();
        let options = Options {
            contiguous: vec![0..count, count..all],
            frozen: all,
            threads: 1,
            ..Options::default()
        };
        let mut session = Session::new(Arc::new(compile(&self.graph(rows)?, &options)?));
        write(&mut session, count, all, &self.weights);
        if self.sessions.len() == SHORT {
            self.sessions.remove(0);
        }
        self.sessions.push((rows, session));
        let last = self.sessions.len() - 1;
        Ok(&mut self.sessions[last].1)
    }

    fn graph(&self, rows: usize) -> Result<Graph> {
        // A root of means is not a mean of roots.
        let loss = if self.loss == Loss::Rmse {
            Loss::Mse
        } else {
            self.loss
        };
        let classes = (loss == Loss::CrossEntropy).then(|| loss.target_width(self.model.output_shape()));
        measure_graph(
            &self.model.graph(rows)?,
            0,
            self.itself,
            classes,
            |output, target| {
                let measured = loss.apply(output, target).reshape([1]);
                if classes.is_none() {
                    return measured;
                }
                let dims = output
                    .shape()
                    .dims()
                    .split_last()
                    .map_or(vec![], |(_, rows)| rows.to_vec());
                let correct = output.in_top_k(&target.reshape(&dims[..]), 1).mean_all();
                Tensor::concat(&[measured, correct.reshape([1])], 0)
            },
        )
    }
}

fn write(session: &mut Session, count: usize, all: usize, weights: &[f32]) {
    let parameters = session.params_between(0..count).len();
    let (parameters, buffers) = weights.split_at(parameters);
    session.params_between_mut(0..count).copy_from_slice(parameters);
    session.params_between_mut(count..all).copy_from_slice(buffers);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo;

    #[test]
    fn measures_agree_with_the_models_own_for_any_rows_and_parameters() -> Result<()> {
        let inputs: Vec<f32> = (0..600 * 2).map(|i| (i * 7 % 11) as f32 / 11.0).collect();
        let classes: Vec<f32> = (0..600).map(|i| (i % 3) as f32).collect();
        let data = Data::new(&inputs, 2, &classes, 1);
        let mut measurer = Measurer::new(&zoo::mlp(&[2, 5, 3], 1)?, Loss::CrossEntropy, false)?;
        let all: Vec<u32> = (0..600).collect();
        for seed in [1, 2] {
            let model = zoo::mlp(&[2, 5, 3], seed)?;
            measurer.set_weights(model.parameters());
            let measured = measurer.measure(&data, &all)?;
            assert_eq!(measured.rows, 600);
            assert!(
                (measured.mean_loss() - f64::from(model.evaluate(&data, Loss::CrossEntropy)?)).abs() < 1e-5
            );
            assert!((measured.accuracy() - f64::from(model.accuracy(&data, 1)?)).abs() < 1e-6);
            let parts = measurer.measure(&data, &all[..251])? + measurer.measure(&data, &all[251..])?;
            assert_eq!(parts.correct, measured.correct);
        }
        Ok(())
    }
}
