//! Fitting: epochs, seeded order, callbacks, and what to do when numbers run away.

use std::time::Instant;

use crate::callbacks::{Callback, EpochReport, Flow};
use crate::data::Data;
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::model::{Model, Progress};
use crate::optimizer::Optimizer;
use crate::random::Shuffle;
use crate::trainer::Trainer;

/// How to fit a model.
#[derive(Clone, Copy, Debug)]
pub struct Fit<'a> {
    /// What to minimise.
    pub loss: Loss,
    /// How.
    pub optimizer: Optimizer,
    /// Passes over the data.
    pub epochs: usize,
    /// Rows per step.
    pub batch: usize,
    /// The seed of the order of rows and of dropout.
    pub seed: u64,
    /// Take the rows in another order every epoch.
    pub shuffle: bool,
    /// Rows to judge by after every epoch.
    pub validation: Option<Data<'a>>,
    /// Go on from where the model's training stood, instead of from its parameters with fresh optimiser state.
    pub resume: bool,
}

impl Fit<'_> {
    /// Ten shuffled epochs of batches of 32.
    pub fn new(loss: Loss, optimizer: Optimizer) -> Self {
        Fit {
            loss,
            optimizer,
            epochs: 10,
            batch: 32,
            seed: 0,
            shuffle: true,
            validation: None,
            resume: false,
        }
    }
}

/// What one epoch gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// The mean loss of its steps.
    pub loss: f32,
    /// The loss on the validation rows afterwards.
    pub validation: Option<f32>,
}

/// What all epochs gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainingHistory {
    /// In order; after a resume, the epochs since.
    pub epochs: Vec<Epoch>,
    /// A callback ended training before the last epoch.
    pub stopped_early: bool,
}

impl Model {
    /// Fits the parameters to data. On an error the model keeps the parameters of the last good epoch.
    pub fn fit(
        &mut self,
        data: &Data<'_>,
        fit: &Fit<'_>,
        callbacks: &mut [&mut dyn Callback],
    ) -> Result<TrainingHistory> {
        let target = fit.loss.target_width(self.output_shape());
        data.check(self.input_shape().elements(), target)?;
        let mut course = Course::begin(self, fit, data.rows(), data.is_itself())?;
        let mut shuffle = Shuffle::new(data.rows(), fit.seed);
        let unshuffled: Vec<u32> = (0..data.rows() as u32).collect();
        let (batch, steps) = (course.batch, course.steps());
        for epoch in course.first..fit.epochs {
            let started = Instant::now();
            let order = if fit.shuffle {
                shuffle.epoch(epoch)
            } else {
                &unshuffled
            };
            let mut total = 0.0;
            for (i, rows) in order.chunks(batch).enumerate() {
                let trainer = &mut course.trainer;
                let next = order.chunks(batch).nth(i + 1).unwrap_or_default();
                let loss = trainer.step_before(data, rows, next, rate(fit, epoch, i, steps))?;
                if !loss.is_finite() {
                    let rate = |i: usize| rate(fit, epoch, i, steps);
                    return Err(self.diagnose(fit, trainer, data, order, batch, epoch, i, &rate));
                }
                total += f64::from(loss) * rows.len() as f64;
                callbacks.iter_mut().for_each(|c| c.on_step(i + 1, steps));
            }
            if course.end_epoch(self, epoch, total, started, callbacks)? == Flow::Stop {
                break;
            }
        }
        callbacks.iter_mut().for_each(|c| c.on_end());
        Ok(course.history)
    }

    fn start(&mut self, fit: &Fit<'_>, batch: usize, trainer: &mut Trainer) -> Result<usize> {
        match self.progress.take().filter(|_| fit.resume) {
            None => Ok(0),
            Some(before) => {
                let same = before.loss == fit.loss
                    && before.optimizer.rule == fit.optimizer.rule
                    && before.batch == batch
                    && before.seed == fit.seed;
                if !same {
                    let problem = format!(
                        "training began with {:?}, {:?}, batch {}, seed {} and cannot go on with other settings; \
                         use those, or do not resume",
                        before.loss, before.optimizer.rule, before.batch, before.seed
                    );
                    self.progress = Some(before);
                    return Err(Error::Setting(problem));
                }
                trainer.set_states(&before.states);
                trainer.set_steps(before.step);
                let epoch = before.epoch;
                self.progress = Some(before);
                Ok(epoch)
            }
        }
    }

    /// Finds what left the finite numbers first: the epoch is run again from its start, bit for bit, and the parameters
    /// looked at before the step that failed.
    #[expect(clippy::too_many_arguments, reason = "the whole position in training")]
    fn diagnose(
        &self,
        fit: &Fit<'_>,
        trainer: &mut Trainer,
        data: &Data<'_>,
        order: &[u32],
        batch: usize,
        epoch: usize,
        failed: usize,
        rate: &dyn Fn(usize) -> f32,
    ) -> Error {
        let step = trainer.steps();
        let rows = &order[failed * batch..order.len().min((failed + 1) * batch)];
        let width = data.width();
        for &row in rows {
            let values = &data.inputs()[row as usize * width..(row as usize + 1) * width];
            if let Some(column) = values.iter().position(|x| !x.is_finite()) {
                return runaway(fit, step, epoch, format!("input row {row}, column {column}"));
            }
        }
        trainer.set_parameters(self.parameters());
        trainer.set_buffers(self.buffers());
        trainer.set_states(self.progress.as_ref().map_or(&[], |p| &p.states));
        trainer.set_steps(step - failed as u64 - 1);
        for (i, rows) in order.chunks(batch).enumerate().take(failed) {
            if let Err(error) = trainer.step(data, rows, rate(i)) {
                return error;
            }
            if let Some(name) = not_finite(self, trainer.parameters()) {
                return runaway(fit, trainer.steps(), epoch, format!("parameter `{name}`"));
            }
        }
        let largest = largest(self, trainer.parameters());
        runaway(
            fit,
            step,
            epoch,
            format!("the loss (largest parameter: `{largest}`)"),
        )
    }
}

/// Training from its first epoch to its last, wherever the batches come from.
pub(crate) struct Course<'f> {
    fit: &'f Fit<'f>,
    pub(crate) trainer: Trainer,
    pub(crate) batch: usize,
    rows: usize,
    /// The epoch to begin with.
    pub(crate) first: usize,
    pub(crate) history: TrainingHistory,
}

impl<'f> Course<'f> {
    pub(crate) fn begin(
        model: &mut Model,
        fit: &'f Fit<'f>,
        rows: usize,
        itself: bool,
    ) -> Result<Course<'f>> {
        if fit.batch == 0 {
            return Err(Error::Setting("a batch needs at least one row".into()));
        }
        let batch = fit.batch.min(rows);
        let mut trainer = Trainer::new(model, fit.loss, fit.optimizer, batch, itself, fit.seed)?;
        let first = model.start(fit, batch, &mut trainer)?;
        Ok(Course {
            fit,
            trainer,
            batch,
            rows,
            first,
            history: TrainingHistory::default(),
        })
    }

    /// Steps of an epoch.
    pub(crate) fn steps(&self) -> usize {
        self.rows.div_ceil(self.batch.max(1))
    }

    /// Gives the model what the epoch has taught, and the callbacks their report. `total` is the sum of the rows' losses.
    pub(crate) fn end_epoch(
        &mut self,
        model: &mut Model,
        epoch: usize,
        total: f64,
        started: Instant,
        callbacks: &mut [&mut dyn Callback],
    ) -> Result<Flow> {
        let (fit, trainer) = (self.fit, &self.trainer);
        if let Some(entry) = not_finite(model, trainer.parameters()) {
            let what = format!("parameter `{entry}`");
            return Err(runaway(fit, trainer.steps(), epoch, what));
        }
        model.parameters_mut().copy_from_slice(trainer.parameters());
        model.buffers_mut().copy_from_slice(trainer.buffers());
        model.progress = Some(Progress {
            loss: fit.loss,
            optimizer: fit.optimizer,
            batch: self.batch,
            seed: fit.seed,
            epoch: epoch + 1,
            step: trainer.steps(),
            unit: fit.optimizer.rule.unit(trainer.steps()),
            states: trainer.states().to_vec(),
        });
        let validation = fit.validation.map(|v| model.evaluate(&v, fit.loss)).transpose()?;
        let done = Epoch {
            loss: (total / self.rows as f64) as f32,
            validation,
        };
        self.history.epochs.push(done);
        let steps = self.steps();
        let report = EpochReport {
            epoch: epoch + 1,
            epochs: fit.epochs,
            loss: done.loss,
            validation,
            rate: rate(fit, epoch, steps - 1, steps),
            rows: self.rows,
            seconds: started.elapsed().as_secs_f64(),
        };
        let mut flow = Flow::Continue;
        for callback in callbacks.iter_mut() {
            if callback.on_epoch(&report, model)? == Flow::Stop {
                flow = Flow::Stop;
            }
        }
        self.history.stopped_early = flow == Flow::Stop && epoch + 1 < fit.epochs;
        Ok(flow)
    }
}

/// The learning rate of step `i` of an epoch of `steps`.
pub(crate) fn rate(fit: &Fit<'_>, epoch: usize, i: usize, steps: usize) -> f32 {
    let at = epoch as f64 + i as f64 / steps as f64;
    fit.optimizer.rate * fit.optimizer.schedule.factor(at)
}

fn not_finite<'a>(model: &'a Model, values: &[f32]) -> Option<&'a str> {
    let at = values.iter().position(|x| !x.is_finite())?;
    model.layout().entry_at(at).map(|e| e.name.as_str())
}

pub(crate) fn largest<'a>(model: &'a Model, values: &[f32]) -> &'a str {
    let at = (0..values.len()).max_by(|&a, &b| values[a].abs().total_cmp(&values[b].abs()));
    at.and_then(|at| model.layout().entry_at(at))
        .map_or("none", |e| e.name.as_str())
}

pub(crate) fn runaway(fit: &Fit<'_>, step: u64, epoch: usize, what: String) -> Error {
    let advice = match what.starts_with("input") {
        true => "clean the data; the model keeps its parameters from before this epoch".to_owned(),
        false => format!(
            "lower the learning rate (now {}) or scale the inputs; the model keeps its parameters from before this epoch",
            fit.optimizer.rate
        ),
    };
    Error::NotFinite {
        step,
        epoch: epoch + 1,
        what,
        advice,
    }
}
