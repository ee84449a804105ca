//! What happens after every epoch: measure, keep the best, log, checkpoint, tell.

use std::num::NonZeroUsize;

use synod_nn::{Callback, EpochReport, Error, Flow, Model};
use synod_runs::{Folder, Log};

use super::data::Rows;
use super::events::Epoch;

/// Watches training. The test rows are measured to be shown; nothing is chosen by them.
pub(super) struct Watch<'a> {
    pub(super) folder: &'a Folder,
    pub(super) log: Log,
    pub(super) validation: Option<&'a Rows>,
    pub(super) test: Option<&'a Rows>,
    pub(super) every: NonZeroUsize,
    pub(super) record: Record,
}

/// What training has come to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Record {
    pub(super) epochs: usize,
    pub(super) best_epoch: usize,
    best: Option<f32>,
    /// The mean training loss of the best epoch.
    pub(super) loss: f32,
    pub(super) seconds: f64,
}

impl Record {
    /// Takes note of an epoch and tells whether it is the best: by validation loss, or the last if there is none.
    pub(super) fn note(&mut self, report: &EpochReport) -> bool {
        self.epochs = report.epoch;
        self.seconds += report.seconds;
        let better = match (report.validation, self.best) {
            (Some(now), Some(best)) => now < best,
            _ => true,
        };
        if better {
            (self.best, self.best_epoch, self.loss) = (report.validation, report.epoch, report.loss);
        }
        better
    }
}

impl Callback for Watch<'_> {
    fn on_epoch(&mut self, report: &EpochReport, model: &Model) -> synod_nn::Result<Flow> {
        let accuracy = |rows: Option<&Rows>| rows.map(|r| model.accuracy(&r.data(), 1)).transpose();
        let (validation, test) = (accuracy(self.validation)?, accuracy(self.test)?);
        // The checkpoint comes last: whatever it promises is then on disk, and what follows it is trained again.
        if self.record.note(report) {
            model.save(&self.folder.model())?;
        }
        let event = Epoch {
            epoch: report.epoch,
            epochs: report.epochs,
            loss: report.loss,
            validation: report.validation,
            validation_accuracy: validation,
            test_accuracy: test,
            rate: report.rate,
            rows: report.rows,
            seconds: report.seconds,
        };
        self.log.write(&event).map_err(|e| Error::File {
            path: self.log.path().to_owned(),
            problem: format!("cannot be written: {e}"),
        })?;
        if report.epoch.is_multiple_of(self.every.get()) || report.epoch == report.epochs {
            model.save(&self.folder.checkpoint())?;
        }
        eprintln!("{}", line(report, validation, test));
        Ok(Flow::Continue)
    }
}

fn line(report: &EpochReport, validation: Option<f32>, test: Option<f32>) -> String {
    let EpochReport {
        epoch, epochs, loss, ..
    } = report;
    let mut text = format!("epoch {epoch:3}/{epochs}  loss {loss:.5}");
    if let (Some(loss), Some(accuracy)) = (report.validation, validation) {
        text += &format!("  validation {loss:.5}, {:.2} %", 100.0 * accuracy);
    }
    if let Some(accuracy) = test {
        text += &format!("  test {:.2} %", 100.0 * accuracy);
    }
    text + &format!("  {:.1} s", report.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(epoch: usize, validation: Option<f32>) -> EpochReport {
        EpochReport {
            epoch,
            epochs: 9,
            loss: 1.0 / epoch as f32,
            validation,
            rate: 0.1,
            rows: 10,
            seconds: 2.0,
        }
    }

    #[test]
    fn the_best_epoch_has_the_least_validation_loss_and_without_one_it_is_the_last() {
        let mut record = Record::default();
        let better = [3.0, 2.0, 2.0, 2.5, 1.0, 4.0].map(|v| {
            let next = report(record.epochs + 1, Some(v));
            record.note(&next)
        });
        assert_eq!(better, [true, true, false, false, true, false]);
        assert_eq!((record.epochs, record.best_epoch, record.loss), (6, 5, 0.2));
        assert_eq!(record.seconds, 12.0);
        let mut blind = Record::default();
        assert!((1..4).all(|epoch| blind.note(&report(epoch, None))));
        assert_eq!(blind.best_epoch, 3);
    }
}
