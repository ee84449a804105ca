//! Reads `score,alarm,label` lines and prints the evaluation as JSON.
//!
//! Usage: evaluate_csv FILE [STEP_SECONDS [VUS_WINDOW]]. Alarms are 0 or 1; a label above zero is anomalous, an empty one
//! or NaN is unknown; an empty score is missing. A first line of names is skipped.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use serde::Serialize;
use std::time::Instant;
use synod_core::Truth;
use synod_evaluate::{Bootstrap, Evaluation, Intervals, Scored, Settings, evaluate, intervals_over_windows};

#[derive(Serialize)]
struct Printed {
    #[serde(flatten)]
    evaluation: Evaluation,
    intervals: Intervals,
    evaluate_seconds: f64,
    bootstrap_seconds: f64,
}

fn number(text: Option<&str>) -> Option<f32> {
    match text?.trim() {
        "" => Some(f32::NAN),
        text => text.parse().ok(),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: evaluate_csv FILE [STEP_SECONDS [VUS_WINDOW]]")?;
    let step = arguments.next().map_or(Ok(60), |s| s.parse())?;
    let mut settings = Settings::default();
    if let Some(window) = arguments.next() {
        settings.vus_window = window.parse()?;
    }
    let (mut scores, mut alarms, mut truth) = (Vec::new(), Vec::new(), Vec::new());
    for (i, line) in std::fs::read_to_string(&path)?.lines().enumerate() {
        let mut fields = line.split(',');
        let row = (
            number(fields.next()),
            number(fields.next()),
            number(fields.next()),
        );
        let (Some(score), Some(alarm), Some(label)) = row else {
            if i == 0 {
                continue;
            }
            return Err(format!("{path}, line {}: not score,alarm,label: {line}", i + 1).into());
        };
        scores.push(score);
        alarms.push(alarm > 0.0);
        truth.push(Truth::from_label(label));
    }
    let scored = Scored {
        scores: &scores,
        alarms: &alarms,
        truth: &truth,
        step,
    };
    let started = Instant::now();
    let evaluation = evaluate(&scored, &settings)?;
    let evaluate_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let intervals = intervals_over_windows(&scored, &settings, &Bootstrap::default())?;
    let printed = Printed {
        evaluation,
        intervals,
        evaluate_seconds,
        bootstrap_seconds: started.elapsed().as_secs_f64(),
    };
    println!("{}", serde_json::to_string_pretty(&printed)?);
    Ok(())
}
