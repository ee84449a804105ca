//! Many runs of one configuration of what to watch, side by side.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};
use synod_runs::{Grid, plain, table};

/// The figures that trials are compared by.
const FIGURES: [(&str, &str); 6] = [
    ("f1", "F1"),
    ("precision", "precision"),
    ("recall", "recall"),
    ("fpr", "FPR"),
    ("event_recall", "faults found"),
    ("false_alarms_per_node_month", "false alarms"),
];

/// What the trials came to: their settings, and the figures of each arm.
pub(super) fn document(name: &str, results: &[Value]) -> Value {
    let arm = |arm: &Value| json!({ "arm": arm["arm"], "mean": arm["mean"] });
    let cell = |trial: &Value| {
        let arms = trial["result"]["arms"].as_array();
        let arms: Vec<Value> = arms.into_iter().flatten().map(arm).collect();
        json!({ "settings": trial["settings"], "arms": arms })
    };
    json!({ "name": name, "cells": results.iter().map(cell).collect::<Vec<_>>() })
}

/// A table with a line for every arm of every trial.
pub(super) fn print(grid: &Grid, document: &Value, out: &mut dyn Write) -> Result<()> {
    let axes: Vec<&str> = grid.axes().collect();
    let heads = axes.iter().map(|axis| axis.rsplit('.').next().unwrap_or(axis));
    let heads = heads.chain(["arm"]).chain(FIGURES.map(|(_, head)| head));
    let mut lines = vec![heads.map(str::to_owned).collect::<Vec<_>>()];
    for cell in document["cells"].as_array().into_iter().flatten() {
        let settings: Vec<String> = axes.iter().map(|axis| plain(&cell["settings"][*axis])).collect();
        for arm in cell["arms"].as_array().into_iter().flatten() {
            let figure = |(key, _): (&str, &str)| match arm["mean"][key].as_f64() {
                Some(figure) => format!("{figure:.3}"),
                None => "-".to_owned(),
            };
            let name = [plain(&arm["arm"])];
            lines.push(
                settings
                    .iter()
                    .cloned()
                    .chain(name)
                    .chain(FIGURES.map(figure))
                    .collect(),
            );
        }
    }
    Ok(table(&lines, out)?)
}
