//! Fitting to batches that somebody else prepares.

use std::time::Instant;

use crate::callbacks::{Callback, Flow};
use crate::data::Data;
use crate::error::{Error, Result};
use crate::fit::{Course, Fit, TrainingHistory, largest, rate, runaway};
use crate::model::Model;

/// A source of batches, such as a pipeline that prepares them on other threads.
pub trait Feed {
    /// Rows in an epoch.
    fn rows(&self) -> usize;

    /// The next batch of the epoch, or none at its end; what follows belongs to the next epoch.
    ///
    /// All batches have the rows that [`Fit::batch`] names, or [`Feed::rows`] if that is less; only an epoch's last may be
    /// short.
    fn next_batch(&mut self) -> Result<Option<Data<'_>>>;
}

impl Model {
    /// Fits the parameters to the batches of a feed, in the order in which it gives them; when training is resumed, the
    /// feed must begin with the epoch that comes next. On an error the model keeps the parameters of the last good epoch.
    pub fn fit_from(
        &mut self,
        feed: &mut dyn Feed,
        fit: &Fit<'_>,
        callbacks: &mut [&mut dyn Callback],
    ) -> Result<TrainingHistory> {
        let rows = feed.rows();
        if rows == 0 {
            return Err(Error::Data("there are no rows".into()));
        }
        let mut course = Course::begin(self, fit, rows, false)?;
        let places: Vec<u32> = (0..course.batch as u32).collect();
        for epoch in course.first..fit.epochs {
            let started = Instant::now();
            let total = self.epoch_from(feed, fit, &mut course, epoch, &places, callbacks)?;
            if course.end_epoch(self, epoch, total, started, callbacks)? == Flow::Stop {
                break;
            }
        }
        callbacks.iter_mut().for_each(|c| c.on_end());
        Ok(course.history)
    }

    fn epoch_from(
        &self,
        feed: &mut dyn Feed,
        fit: &Fit<'_>,
        course: &mut Course<'_>,
        epoch: usize,
        places: &[u32],
        callbacks: &mut [&mut dyn Callback],
    ) -> Result<f64> {
        let target = fit.loss.target_width(self.output_shape());
        let (steps, rows) = (course.steps(), feed.rows());
        let (mut total, mut step, mut seen) = (0.0, 0, 0);
        while let Some(data) = feed.next_batch()? {
            data.check(self.input_shape().elements(), target)?;
            let given = data.rows();
            seen += given;
            let whole = given == course.batch || seen == rows;
            let Some(places) = places.get(..given).filter(|_| whole && seen <= rows) else {
                let batch = course.batch;
                let problem = format!(
                    "the feed gave {given} rows after {} of {rows}, in batches of {batch}",
                    seen - given
                );
                return Err(Error::Data(problem));
            };
            let loss = course
                .trainer
                .step(&data, places, rate(fit, epoch, step, steps))?;
            if !loss.is_finite() {
                return Err(self.blame(fit, course.trainer.steps(), epoch, &data));
            }
            total += f64::from(loss) * given as f64;
            step += 1;
            callbacks.iter_mut().for_each(|c| c.on_step(step, steps));
        }
        match seen == rows {
            true => Ok(total),
            false => Err(Error::Data(format!(
                "the feed gave {seen} rows of {rows} in epoch {}",
                epoch + 1
            ))),
        }
    }

    /// What made the loss of a batch leave the finite numbers: its inputs, or training itself.
    fn blame(&self, fit: &Fit<'_>, step: u64, epoch: usize, data: &Data<'_>) -> Error {
        let width = data.width().max(1);
        let what = match data.inputs().iter().position(|x| !x.is_finite()) {
            Some(at) => format!("input row {} of the batch, column {}", at / width, at % width),
            None => format!(
                "the loss (largest parameter: `{}`)",
                largest(self, self.parameters())
            ),
        };
        runaway(fit, step, epoch, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;
    use crate::optimizer::Optimizer;
    use crate::zoo;

    /// Rows of an array in their order, `batch` at a time.
    struct InOrder {
        inputs: Vec<f32>,
        classes: Vec<f32>,
        batch: usize,
        next: usize,
    }

    impl InOrder {
        fn new(rows: usize, batch: usize) -> InOrder {
            let inputs = (0..rows * 2).map(|i| (i * 7 % 11) as f32 / 11.0).collect();
            let classes = (0..rows).map(|i| (i % 3) as f32).collect();
            InOrder {
                inputs,
                classes,
                batch,
                next: 0,
            }
        }
    }

    impl Feed for InOrder {
        fn rows(&self) -> usize {
            self.classes.len()
        }

        fn next_batch(&mut self) -> Result<Option<Data<'_>>> {
            let from = std::mem::take(&mut self.next);
            let to = (from + self.batch).min(self.classes.len());
            if from == to {
                return Ok(None);
            }
            self.next = to;
            let (inputs, classes) = (&self.inputs[from * 2..to * 2], &self.classes[from..to]);
            Ok(Some(Data::new(inputs, 2, classes, 1)))
        }
    }

    fn fit(epochs: usize) -> Fit<'static> {
        Fit {
            epochs,
            batch: 4,
            shuffle: false,
            ..Fit::new(Loss::CrossEntropy, Optimizer::adam(1e-2))
        }
    }

    #[test]
    fn a_feed_trains_to_the_same_bits_as_the_same_rows_in_memory_and_resumes_to_them() -> Result<()> {
        let start = zoo::mlp(&[2, 5, 3], 1)?;
        let (mut fed, mut held, mut resumed) = (start.clone(), start.clone(), start);
        let history = fed.fit_from(&mut InOrder::new(10, 4), &fit(3), &mut [])?;
        let rows = InOrder::new(10, 4);
        let data = Data::new(&rows.inputs, 2, &rows.classes, 1);
        assert_eq!(history, held.fit(&data, &fit(3), &mut [])?);
        assert_eq!(fed.parameters(), held.parameters());
        resumed.fit_from(&mut InOrder::new(10, 4), &fit(1), &mut [])?;
        let rest = Fit {
            resume: true,
            ..fit(3)
        };
        resumed.fit_from(&mut InOrder::new(10, 4), &rest, &mut [])?;
        assert_eq!(resumed.parameters(), fed.parameters());
        Ok(())
    }

    #[test]
    fn a_feed_of_other_batches_than_agreed_is_refused() -> Result<()> {
        let mut model = zoo::mlp(&[2, 5, 3], 1)?;
        for batch in [3, 5] {
            let fitted = model.fit_from(&mut InOrder::new(10, batch), &fit(1), &mut []);
            assert!(matches!(fitted, Err(Error::Data(_))), "batches of {batch}");
        }
        Ok(())
    }

    #[test]
    fn an_infinite_input_is_named() -> Result<()> {
        let mut feed = InOrder::new(10, 4);
        feed.inputs[13] = f32::INFINITY;
        let mut model = zoo::mlp(&[2, 5, 3], 1)?;
        let before = model.parameters().to_vec();
        let fitted = model.fit_from(&mut feed, &fit(1), &mut []);
        let said = fitted.expect_err("refused").to_string();
        assert!(said.contains("input row 2 of the batch, column 1"), "{said}");
        assert_eq!(model.parameters(), before);
        Ok(())
    }
}
