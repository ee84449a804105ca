//! How far an arm of a backtest has come.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(60);

/// When a line was last said, of whatever arm: short ones follow each other in long runs.
static SAID: LazyLock<Arc<Mutex<Instant>>> = LazyLock::new(|| Arc::new(Mutex::new(Instant::now())));

/// A bar on a terminal; elsewhere, as in a batch job, a line a minute on standard error.
pub(super) struct Progress {
    bar: ProgressBar,
    said: Arc<Mutex<Instant>>,
}

impl Progress {
    pub(super) fn new(arm: &str, steps: usize) -> Progress {
        Progress::since(SAID.clone(), arm, steps)
    }

    fn since(said: Arc<Mutex<Instant>>, arm: &str, steps: usize) -> Progress {
        let style = ProgressStyle::with_template("{msg:12} {bar:40} {pos}/{len}  {eta}");
        let bar = ProgressBar::new(steps as u64).with_message(arm.to_owned());
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar, said }
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
        let began = Instant::now();
        let said = Arc::new(Mutex::new(began));
        let arm = |name: &str| {
            let progress = Progress::since(said.clone(), name, 280);
            progress.bar.set_draw_target(ProgressDrawTarget::hidden());
            progress
        };
        let progress = arm("federated 1/2");
        (0..7).for_each(|_| progress.bar.inc(1));
        assert_eq!(progress.line(began + EVERY / 2), None);
        let later = began + 2 * EVERY;
        assert_eq!(progress.line(later).as_deref(), Some("federated 1/2: 7 of 280"));
        assert_eq!(progress.line(later + EVERY / 2), None);
        assert!(progress.line(later + EVERY).is_some());
        let next = arm("federated 1/4");
        assert_eq!(next.line(later + EVERY), None);
        assert!(
            next.line(later + 2 * EVERY).is_some(),
            "the minute goes on from arm to arm"
        );
    }
}
