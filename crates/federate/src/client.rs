//! Clients: who they are and what they do in a round.

use serde::{Deserialize, Serialize};
use synod_core::Random;
use synod_nn::{Data, Loss, Measured, Measurer, Model, Optimizer, Rule, Shuffle, Terms, Trainer};

use crate::error::{Error, Result};

/// A client of a federation, for as long as it is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientId(pub u64);

impl std::fmt::Display for ClientId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client {}", self.0)
    }
}

/// How clients train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// What they make small.
    pub loss: Loss,
    /// How; its state begins anew in every round.
    pub optimizer: Optimizer,
    /// Rows per step; none for all rows of a client at once.
    pub batch: Option<usize>,
    /// Inputs are their own targets.
    pub itself: bool,
}

impl Plan {
    /// The factor on the learning rate in a round, from 0: schedules count rounds where training alone counts epochs, and
    /// all of a round is as in its middle.
    pub(crate) fn rate_factor(&self, round: u64) -> f32 {
        self.optimizer.schedule.factor(round as f64 + 0.5)
    }

    /// Whether what a client sends is a sum of gradients, each times the learning rate.
    pub(crate) fn steps_are_plain(&self) -> bool {
        let rule = Optimizer::sgd(self.optimizer.rate).rule;
        self.optimizer.rule == rule
    }

    /// What remains of the last step's velocity, if the optimiser has one.
    pub(crate) fn momentum(&self) -> f64 {
        match self.optimizer.rule {
            Rule::Momentum { momentum, .. } => f64::from(momentum),
            _ => 0.0,
        }
    }
}

/// A client's rows among data that it may share with others.
#[derive(Clone, Copy, Debug)]
pub struct Examples<'a> {
    /// The data.
    pub data: Data<'a>,
    /// Its rows.
    pub rows: &'a [u32],
}

/// One client's work: what to start from, on what, and what to correct.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Parameters, then what is not trained.
    pub weights: &'a [f32],
    /// The rows to train on.
    pub examples: Examples<'a>,
    /// Passes over them.
    pub epochs: usize,
    /// Stop after this many steps, if epochs are not over before.
    pub most_steps: usize,
    /// One step on all rows.
    pub single_step: bool,
    /// The factor on the learning rate.
    pub rate_factor: f32,
    /// A pull: its strength, and the parameters it goes to.
    pub pull: Option<(f32, &'a [f32])>,
    /// A slope added to the loss.
    pub slope: Option<&'a [f32]>,
    /// The seed of the order of rows and of dropout.
    pub seed: u64,
}

impl<'a> Task<'a> {
    /// Plain epochs on a client's rows.
    pub fn new(weights: &'a [f32], examples: Examples<'a>, epochs: usize, seed: u64) -> Task<'a> {
        Task {
            weights,
            examples,
            epochs,
            most_steps: usize::MAX,
            single_step: false,
            rate_factor: 1.0,
            pull: None,
            slope: None,
            seed,
        }
    }
}

/// What training gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// Parameters, then what is not trained.
    pub weights: Vec<f32>,
    /// Steps taken.
    pub steps: u64,
    /// The mean loss of the steps.
    pub loss: f64,
}

/// Does clients' work, one after the other, with programs compiled once.
pub struct Worker {
    model: Model,
    plan: Plan,
    trainers: Vec<(Terms, Trainer)>,
    measurer: Option<Measurer>,
    order: Vec<u32>,
    spare: Vec<f32>,
    trained: usize,
}

impl Worker {
    /// For clients of a model that train by `plan`.
    pub fn new(model: &Model, plan: Plan) -> Worker {
        Worker {
            trained: model.parameters().len(),
            spare: vec![],
            model: model.clone(),
            plan,
            trainers: vec![],
            measurer: None,
            order: vec![],
        }
    }

    /// Trains on a client's rows. Terms of no strength are left out, so that they change no bit.
    pub fn train(&mut self, task: &Task<'_>) -> Result<Trained> {
        let rows = task.examples.rows;
        if rows.is_empty() {
            return Err(Error::Data("a client without rows cannot train".into()));
        }
        let pull = task.pull.filter(|(strength, _)| *strength != 0.0);
        let slope = task.slope.filter(|s| s.iter().any(|x| *x != 0.0));
        let terms = Terms {
            proximal: pull.is_some(),
            linear: slope.is_some(),
        };
        let batch = match self.plan.batch {
            Some(batch) if !task.single_step => batch.min(rows.len()),
            _ => rows.len(),
        };
        let (mut order, mut weights) = (std::mem::take(&mut self.order), std::mem::take(&mut self.spare));
        let (parameters, buffers) = task.weights.split_at(self.trained);
        let rate = self.plan.optimizer.rate * task.rate_factor;
        let trainer = self.trainer(terms, batch)?;
        trainer.set_parameters(parameters);
        trainer.set_buffers(buffers);
        trainer.set_states(&[]);
        // Dropout draws by step: another client or round must not draw the same.
        let first = Random::new(task.seed, &[]).bits() & 0xffff_0000;
        trainer.set_steps(if trainer.counts_steps() { 0 } else { first });
        if let Some((strength, anchor)) = pull {
            trainer.set_anchor(strength, anchor);
        }
        if let Some(slope) = slope {
            trainer.set_slope(slope);
        }
        let epochs = if task.single_step { 1 } else { task.epochs };
        let mut shuffle = Shuffle::new(rows.len(), task.seed);
        let (mut steps, mut total) = (0u64, 0.0);
        'all: for epoch in 0..epochs {
            if steps as usize == task.most_steps {
                break;
            }
            order.clear();
            order.extend(shuffle.epoch(epoch).iter().map(|&place| rows[place as usize]));
            for (i, now) in order.chunks(batch).enumerate() {
                if steps as usize == task.most_steps {
                    break 'all;
                }
                let next = order.chunks(batch).nth(i + 1).unwrap_or_default();
                total += f64::from(trainer.step_before(&task.examples.data, now, next, rate)?);
                steps += 1;
            }
        }
        weights.clear();
        weights.extend_from_slice(trainer.parameters());
        weights.extend_from_slice(trainer.buffers());
        self.order = order;
        Ok(Trained {
            weights,
            steps,
            loss: total / steps.max(1) as f64,
        })
    }

    fn trainer(&mut self, terms: Terms, batch: usize) -> Result<&mut Trainer> {
        let place = match self.trainers.iter().position(|(t, _)| *t == terms) {
            Some(place) => place,
            None => {
                let plan = &self.plan;
                // Clients with fewer rows use a program for short batches.
                let batch = plan.batch.unwrap_or(batch);
                let trainer = Trainer::new(&self.model, plan.loss, plan.optimizer, batch, plan.itself, 0)?;
                self.trainers.push((terms, trainer.with_terms(terms)?));
                self.trainers.len() - 1
            }
        };
        Ok(&mut self.trainers[place].1)
    }

    /// Takes back a vector that [`Worker::train`] gave, for the next one.
    pub(crate) fn recycle(&mut self, weights: Vec<f32>) {
        self.spare = weights;
    }

    /// The loss and accuracy of weights on rows.
    pub fn measure(&mut self, weights: &[f32], examples: &Examples<'_>) -> Result<Measured> {
        if self.measurer.is_none() {
            self.measurer = Some(Measurer::new(&self.model, self.plan.loss, self.plan.itself)?);
        }
        match &mut self.measurer {
            None => Ok(Measured::default()),
            Some(measurer) => {
                measurer.set_weights(weights);
                Ok(measurer.measure(&examples.data, examples.rows)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_nn::zoo;

    fn rows() -> (Vec<f32>, Vec<f32>) {
        let inputs = (0..40 * 3).map(|i| (i * 7 % 13) as f32 / 13.0).collect();
        (inputs, (0..40).map(|i| (i % 4) as f32).collect())
    }

    fn plan(batch: Option<usize>) -> Plan {
        Plan {
            loss: Loss::CrossEntropy,
            optimizer: Optimizer::sgd(0.5),
            batch,
            itself: false,
        }
    }

    #[test]
    fn one_step_of_all_clients_together_is_one_step_on_all_rows() -> Result<()> {
        let model = zoo::mlp(&[3, 6, 4], 1)?;
        let (inputs, classes) = rows();
        let data = Data::new(&inputs, 3, &classes, 1);
        let all: Vec<u32> = (0..40).collect();
        let mut worker = Worker::new(&model, plan(None));
        let mut train = |rows: &[u32]| -> Result<Vec<f32>> {
            let examples = Examples { data, rows };
            Ok(worker
                .train(&Task::new(model.parameters(), examples, 1, 5))?
                .weights)
        };
        let central = train(&all)?;
        let parts = [&all[..7], &all[7..22], &all[22..]];
        let mut mean = vec![0.0f64; central.len()];
        for part in parts {
            let share = part.len() as f64 / 40.0;
            mean.iter_mut()
                .zip(train(part)?)
                .for_each(|(m, w)| *m += share * f64::from(w));
        }
        let apart = mean
            .iter()
            .zip(&central)
            .map(|(a, b)| (a - f64::from(*b)).abs())
            .fold(0.0, f64::max);
        assert!(apart < 1e-6, "{apart}");
        Ok(())
    }

    #[test]
    fn terms_of_no_strength_change_no_bit_and_others_do() -> Result<()> {
        let model = zoo::mlp(&[3, 6, 4], 1)?;
        let (inputs, classes) = rows();
        let all: Vec<u32> = (0..38).collect();
        let examples = Examples {
            data: Data::new(&inputs, 3, &classes, 1),
            rows: &all,
        };
        let mut worker = Worker::new(&model, plan(Some(10)));
        let weights = model.parameters();
        let plain = Task::new(weights, examples, 2, 5);
        let zeros = vec![0.0; weights.len()];
        let first = worker.train(&plain)?;
        assert_eq!(first.steps, 8);
        let still = Task {
            pull: Some((0.0, weights)),
            slope: Some(&zeros),
            ..plain
        };
        assert_eq!(worker.train(&still)?, first);
        let pulled = Task {
            pull: Some((1.0, weights)),
            ..plain
        };
        let pulled = worker.train(&pulled)?;
        let far = |w: &[f32]| w.iter().zip(weights).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
        assert!(far(&pulled.weights) < far(&first.weights));
        assert_eq!(
            worker.train(&plain)?,
            first,
            "another client's terms leave nothing behind"
        );
        Ok(())
    }
}
