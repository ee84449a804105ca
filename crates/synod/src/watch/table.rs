//! The table of a backtest, for people and for programs.

use std::io::Write;

use serde_json::{Map, Value, json};
use synod_detect::Outcome;
use synod_detect::evaluate::Metrics;

/// An arm of a comparison: a detector, its alarms and what came of it.
pub(crate) struct Arm {
    pub(crate) name: String,
    pub(crate) alarm: String,
    pub(crate) outcome: Outcome,
}

/// Columns of the table: a heading, a metric and its digits.
const COLUMNS: [(&str, &str, usize); 10] = [
    ("AUROC", "auroc", 3),
    ("AP", "ap", 3),
    ("VUS-PR", "vus_pr", 3),
    ("best F1", "best_f1", 3),
    ("F1", "f1", 3),
    ("precision", "precision", 3),
    ("recall", "recall", 3),
    ("FPR", "fpr", 4),
    ("events found", "event_recall", 3),
    ("false alarms", "false_alarms_per_node_month", 2),
];

fn figure(metrics: &Metrics, name: &str) -> Option<f64> {
    let place = Metrics::NAMES.iter().position(|n| *n == name)?;
    metrics.values()[place]
}

/// Prints one line per arm and, if asked, one per node.
pub(crate) fn print(out: &mut impl Write, arms: &[Arm], nodes: bool) -> std::io::Result<()> {
    let wide = arms
        .iter()
        .flat_map(|a| a.outcome.nodes.iter().map(|n| n.node.len()).chain([a.name.len()]));
    let wide = wide.max().unwrap_or(0).max(8) + 2;
    write!(out, "{:wide$}", "")?;
    for (heading, ..) in COLUMNS {
        write!(out, "{heading:>14}")?;
    }
    writeln!(out)?;
    let line = |out: &mut dyn Write, name: &str, metrics: &Metrics| -> std::io::Result<()> {
        write!(out, "{name:wide$}")?;
        for (_, metric, digits) in COLUMNS {
            match figure(metrics, metric) {
                Some(value) => write!(out, "{value:>14.digits$}")?,
                None => write!(out, "{:>14}", "-")?,
            }
        }
        writeln!(out)
    };
    for arm in arms {
        if nodes {
            for node in &arm.outcome.nodes {
                line(out, &format!("  {}", node.node), &node.evaluation.metrics)?;
            }
        }
        line(out, &arm.name, &arm.outcome.mean.metrics)?;
    }
    writeln!(
        out,
        "\nMeans over nodes. F1, precision, recall and FPR count windows at the calibrated threshold; best F1 is the"
    )?;
    writeln!(
        out,
        "best of any threshold, which nobody has in use. False alarms are per node and 30 days. No point adjustment."
    )
}

/// The figures of all arms, as one document.
pub(crate) fn json(arms: &[Arm]) -> Value {
    let arm = |arm: &Arm| {
        let nodes: Map<String, Value> = arm
            .outcome
            .nodes
            .iter()
            .map(|n| (n.node.clone(), json!(n.evaluation)))
            .collect();
        json!({
            "arm": arm.name,
            "alarm": arm.alarm,
            "steps": arm.outcome.nodes.iter().map(|n| n.model.steps()).max().unwrap_or(0),
            "mean": arm.outcome.mean,
            "nodes": nodes,
            "failed": arm.outcome.failed.iter().map(|(_, e)| e).collect::<Vec<_>>(),
        })
    };
    Value::Array(arms.iter().map(arm).collect())
}
