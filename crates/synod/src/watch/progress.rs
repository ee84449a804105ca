//! How far an arm of a backtest has come.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(60);

/// A bar on a terminal; elsewhere, as in a batch job, a line a minute on standard error.
pub(super) struct Progress {
    bar: ProgressBar,
    said: Mutex<Instant>,
}

impl Progress {
    pub(super) fn new(arm: &str, steps: usize) -> Progress {
        let style = ProgressStyle::with_template("{msg:12} {bar:40} {pos}/{len}  {eta}");
        let bar = ProgressBar::new(steps as u64).with_message(arm.to_owned());
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress {
            bar,
            said: Mutex::new(Instant::now()),
        }
    }

    /// Another step is done.
    pub(super) fn step(&self) {
        self.bar.inc(1);
        if let Some(line) = self.line(Instant::now()) {
            eprintln!("synod: {line}");
        }
    }

    /// What is said now, if it is time.
    fn line(&self, now: Instant) -> Option<String> {
        if !self.bar.is_hidden() {
            return None;
        }
        let mut said = self.said.lock().ok()?;
        if now.duration_since(*said) < EVERY {
            return None;
        }
        *said = now;
        let (done, all) = (self.bar.position(), self.bar.length()?);
        Some(format!("{}: {done} of {all}", self.bar.message()))
    }

    /// All steps are done; nothing stays on the terminal.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::ProgressDrawTarget;

    #[test]
    fn without_a_terminal_a_line_a_minute_says_how_far_it_is() {
        let progress = Progress::new("federated 1/2", 280);
        progress.bar.set_draw_target(ProgressDrawTarget::hidden());
        let began = Instant::now();
        (0..7).for_each(|_| progress.bar.inc(1));
        assert_eq!(progress.line(began + EVERY / 2), None);
        let later = began + 2 * EVERY;
        assert_eq!(progress.line(later).as_deref(), Some("federated 1/2: 7 of 280"));
        assert_eq!(progress.line(later + EVERY / 2), None);
        assert!(progress.line(later + EVERY).is_some());
    }
}
