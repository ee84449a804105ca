//! What may happen between epochs.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::model::Model;

/// Whether training goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Continue,
    /// It ends here.
    Stop,
}

/// An epoch, as callbacks see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochReport {
    /// Counted from 1.
    pub epoch: usize,
    /// How many there will be.
    pub epochs: usize,
    /// The mean loss of the epoch's steps.
    pub loss: f32,
    /// The loss on the validation rows.
    pub validation: Option<f32>,
    /// The learning rate of the last step.
    pub rate: f32,
    /// Rows seen.
    pub rows: usize,
    /// How long the epoch took.
    pub seconds: f64,
}

impl EpochReport {
    /// The validation loss if there is one, else the training loss.
    pub fn judged(&self) -> f32 {
        self.validation.unwrap_or(self.loss)
    }
}

/// Something that watches training.
pub trait Callback {
    /// After each step of an epoch.
    fn on_step(&mut self, step: usize, steps: usize) {
        let _ = (step, steps);
    }

    /// After each epoch.
    fn on_epoch(&mut self, report: &EpochReport, model: &Model) -> Result<Flow>;

    /// When training is over.
    fn on_end(&mut self) {}
}

/// Stops when the judged loss has not become smaller by `margin` for `patience` epochs.
#[derive(Clone, Copy, Debug)]
pub struct EarlyStopping {
    /// Epochs to wait.
    pub patience: usize,
    /// The least improvement that counts.
    pub margin: f32,
    best: f32,
    waited: usize,
}

impl EarlyStopping {
    /// Waits for `patience` epochs.
    pub fn new(patience: usize) -> EarlyStopping {
        EarlyStopping {
            patience,
            margin: 0.0,
            best: f32::INFINITY,
            waited: 0,
        }
    }
}

impl Callback for EarlyStopping {
    fn on_epoch(&mut self, report: &EpochReport, _: &Model) -> Result<Flow> {
        if report.judged() < self.best - self.margin {
            (self.best, self.waited) = (report.judged(), 0);
        } else {
            self.waited += 1;
        }
        Ok(if self.waited >= self.patience {
            Flow::Stop
        } else {
            Flow::Continue
        })
    }
}

/// Stores the model after epochs; a crash at any moment leaves a whole file.
pub struct Checkpoint {
    path: PathBuf,
    every: usize,
    only_best: bool,
    best: f32,
}

impl Checkpoint {
    /// After every epoch.
    pub fn new(path: impl AsRef<Path>) -> Checkpoint {
        Checkpoint {
            path: path.as_ref().into(),
            every: 1,
            only_best: false,
            best: f32::INFINITY,
        }
    }

    /// After every `epochs` epochs, and the last.
    pub fn every(self, epochs: usize) -> Checkpoint {
        Checkpoint {
            every: epochs.max(1),
            ..self
        }
    }

    /// Only when the judged loss is the best so far.
    pub fn only_best(self) -> Checkpoint {
        Checkpoint {
            only_best: true,
            ..self
        }
    }
}

impl Callback for Checkpoint {
    fn on_epoch(&mut self, report: &EpochReport, model: &Model) -> Result<Flow> {
        let due = report.epoch.is_multiple_of(self.every) || report.epoch == report.epochs;
        let better = report.judged() < self.best;
        if due && (better || !self.only_best) {
            model.save(&self.path)?;
        }
        self.best = self.best.min(report.judged());
        Ok(Flow::Continue)
    }
}

/// Writes one line of JSON per epoch.
pub struct EventLog {
    path: PathBuf,
    file: File,
}

impl EventLog {
    /// Appends to a file.
    pub fn append(path: impl AsRef<Path>) -> Result<EventLog> {
        let path: PathBuf = path.as_ref().into();
        let open = File::options().create(true).append(true).open(&path);
        let file = open.map_err(|e| Error::File {
            path: path.clone(),
            problem: format!("cannot be opened: {e}"),
        })?;
        Ok(EventLog { path, file })
    }
}

impl Callback for EventLog {
    fn on_epoch(&mut self, report: &EpochReport, _: &Model) -> Result<Flow> {
        let line = serde_json::json!({
            "event": "epoch",
            "epoch": report.epoch,
            "epochs": report.epochs,
            "loss": report.loss,
            "validation": report.validation,
            "rate": report.rate,
            "rows": report.rows,
            "seconds": report.seconds,
        });
        let write = writeln!(self.file, "{line}");
        write.map_err(|e| Error::File {
            path: self.path.clone(),
            problem: format!("cannot be written: {e}"),
        })?;
        Ok(Flow::Continue)
    }
}
