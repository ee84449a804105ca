//! Many federations of one experiment: every combination of the settings in its `[grid]` table.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};
use synod_runs::{Grid, TrialSettings, plain, settings_json, table};

use super::Train;

/// The setting of which the best value counts.
const RATE: &str = "train.rate";
const SEED: &str = "seed";

/// What is kept of a run's summary.
const KEPT: [&str; 9] = [
    "rounds_to_target",
    "rounds",
    "accuracy",
    "best_accuracy",
    "seconds",
    "target",
    "traffic",
    "per_client",
    "stopped",
];

/// Runs every combination, each in a folder of its own, and goes on where an earlier call stopped.
pub(super) fn run(grid: &Grid, name: &str, train: &Train) -> Result<()> {
    let mut cells = vec![];
    for settings in grid.combinations(&[RATE]) {
        cells.push(cell(grid, &settings, name, train)?);
    }
    let mut out = std::io::stdout().lock();
    if train.json {
        return Ok(writeln!(out, "{}", json!({ "name": name, "cells": cells }))?);
    }
    print(grid, &cells, &mut out)
}

/// One run per learning rate; those that come later stop where the best so far had reached the target.
fn cell(grid: &Grid, settings: &TrialSettings, name: &str, train: &Train) -> Result<Value> {
    let rates = grid.values(RATE);
    let rates: Vec<_> = match rates {
        [] => vec![None],
        rates => rates.iter().cloned().map(Some).collect(),
    };
    let mut best: Option<Value> = None;
    for rate in rates {
        let chosen = rate.iter().map(|rate| (RATE.to_owned(), rate.clone()));
        let trial = grid.trial(settings.iter().cloned().chain(chosen).collect())?;
        if !train.json {
            eprintln!("{}", trial.name);
        }
        let most = best.as_ref().and_then(|b| b["rounds_to_target"].as_f64());
        let most = most.map_or(usize::MAX, |m| m.ceil() as usize);
        let summary = train.trial(&trial, &train.runs.join(name), most)?;
        let rate = rate.and_then(|rate| rate.as_float().or(rate.as_integer().map(|i| i as f64)));
        let mut entry = json!({ "settings": settings_json(settings), "rate": rate });
        for key in KEPT {
            entry[key] = summary[key].clone();
        }
        if best.as_ref().is_none_or(|best| better(&entry, best)) {
            best = Some(entry);
        }
    }
    let mut best = best.unwrap_or_default();
    best["published"] = json!(grid.published(settings));
    Ok(best)
}

/// A table with a line for every combination but for learning rates and seeds.
fn print(grid: &Grid, cells: &[Value], out: &mut dyn Write) -> Result<()> {
    let axes: Vec<&str> = grid.axes().filter(|axis| ![RATE, SEED].contains(axis)).collect();
    let mut groups: Vec<(Vec<String>, Vec<&Value>)> = vec![];
    for cell in cells {
        let key: Vec<String> = axes.iter().map(|a| plain(&cell["settings"][*a])).collect();
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, group)) => group.push(cell),
            None => groups.push((key, vec![cell])),
        }
    }
    let heads = axes.iter().map(|a| a.rsplit('.').next().unwrap_or(a));
    let figures_of = [
        "rate",
        "rounds to target",
        "published",
        "accuracy",
        "best",
        "bytes up",
    ];
    let mut lines = vec![heads.chain(figures_of).map(str::to_owned).collect::<Vec<_>>()];
    for (key, group) in groups {
        lines.push(key.into_iter().chain(figures(&group)).collect());
    }
    table(&lines, out)?;
    let seeds = grid.values(SEED).len();
    if seeds > 1 {
        writeln!(out, "Means of {seeds} seeds, with the lowest and the highest.")?;
    }
    Ok(())
}

/// What a line says of the cells of one combination.
fn figures(group: &[&Value]) -> [String; 6] {
    let numbers = |key: &str| -> Vec<f64> { group.iter().filter_map(|c| c[key].as_f64()).collect() };
    let spread = |values: Vec<f64>, write: &dyn Fn(f64) -> String| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let (low, high) = values
            .iter()
            .fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        match values.len() {
            0 => "-".to_owned(),
            1 => write(mean),
            _ => format!("{} ({} to {})", write(mean), write(low), write(high)),
        }
    };
    let reached = numbers("rounds_to_target");
    let rounds = match reached.len() == group.len() {
        true => spread(reached, &|r| format!("{r:.1}")),
        false if group[0]["target"].is_null() => "-".to_owned(),
        false => format!("> {}", group[0]["rounds"]),
    };
    let percent = |x: f64| format!("{:.2} %", 100.0 * x);
    let bytes = group.iter().filter_map(|c| {
        let full = c["traffic"]["up_in_full"].as_f64().filter(|f| *f > 0.0)?;
        Some(c["traffic"]["up"].as_f64()? / full)
    });
    [
        plain(&group[0]["rate"]),
        rounds,
        plain(&group[0]["published"]),
        spread(numbers("accuracy"), &percent),
        spread(numbers("best_accuracy"), &percent),
        bytes
            .max_by(f64::total_cmp)
            .map_or("-".to_owned(), |b| format!("{b:.3}")),
    ]
}

/// Fewer rounds to the target, or a higher accuracy where it is not reached.
fn better(a: &Value, b: &Value) -> bool {
    match (a["rounds_to_target"].as_f64(), b["rounds_to_target"].as_f64()) {
        (Some(a), Some(b)) => a < b,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => a["best_accuracy"].as_f64() > b["best_accuracy"].as_f64(),
    }
}
