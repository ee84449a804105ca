//! How far an epoch is.

use indicatif::{ProgressBar, ProgressStyle};
use synod_nn::{Callback, EpochReport, Flow, Model};

/// A progress bar on standard error, if that is a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    message: String,
}

impl Progress {
    /// An empty bar.
    pub(super) fn new() -> Progress {
        let bar = ProgressBar::new(1);
        let style = ProgressStyle::with_template("{msg:32} [{bar:32}] {pos}/{len} {elapsed}");
        bar.set_style(
            style
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> "),
        );
        Progress {
            bar,
            message: String::from("epoch 1"),
        }
    }
}

impl Callback for Progress {
    fn on_step(&mut self, step: usize, steps: usize) {
        if step.is_multiple_of(16) || step == steps {
            self.bar.set_length(steps as u64);
            self.bar.set_position(step as u64);
            self.bar.set_message(self.message.clone());
        }
    }

    fn on_epoch(&mut self, report: &EpochReport, _: &Model) -> synod_nn::Result<Flow> {
        // The line is left clean for whoever reports the epoch; the next step draws the bar again.
        self.bar.finish_and_clear();
        self.bar.reset();
        let next = (report.epoch + 1).min(report.epochs);
        self.message = format!("epoch {next}/{}  loss {:.6}", report.epochs, report.judged());
        Ok(Flow::Continue)
    }

    fn on_end(&mut self) {
        self.bar.finish_and_clear();
    }
}
