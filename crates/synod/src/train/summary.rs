//! What training came to: `summary.json`, and what `--json` prints.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use super::scale::Prepared;

/// All of a run.
#[derive(Serialize)]
pub(super) struct Summary {
    pub(super) name: String,
    pub(super) model: String,
    pub(super) model_file: String,
    pub(super) seed: u64,
    pub(super) parameters: usize,
    pub(super) classes: usize,
    /// The rows trained on.
    pub(super) rows: usize,
    pub(super) accuracy: Option<f64>,
    pub(super) loss: Option<f64>,
    pub(super) measured_on: &'static str,
    pub(super) test: Option<Judged>,
    pub(super) validation: Option<Judged>,
    pub(super) training_loss: f64,
    pub(super) epochs: usize,
    pub(super) best_epoch: usize,
    pub(super) stopped_early: bool,
    pub(super) seconds: f64,
    #[serde(flatten)]
    pub(super) prepared: Prepared,
}

/// What the model is worth on some rows.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Judged {
    pub(super) loss: f64,
    pub(super) accuracy: f64,
    pub(super) rows: usize,
}

/// What a person reads at the end.
pub(super) fn show(summary: &Value, out: &mut dyn Write) -> io::Result<()> {
    let number = |key: &str| summary[key].as_f64().unwrap_or(f64::NAN);
    writeln!(
        out,
        "Accuracy {:.2} % and loss {:.5} on {} rows.",
        100.0 * number("accuracy"),
        number("loss"),
        summary["measured_on"].as_str().unwrap_or("unknown"),
    )?;
    let early = if summary["stopped_early"] == true {
        ", stopped early"
    } else {
        ""
    };
    writeln!(
        out,
        "{} epochs{early}, the best of them {}, in {:.1} s; {} parameters.",
        summary["epochs"],
        summary["best_epoch"],
        number("seconds"),
        summary["parameters"],
    )?;
    let model = summary["model_file"].as_str().unwrap_or_default();
    writeln!(out, "Model: {model}")
}
