//! The table of a backtest, for people and for programs.

use std::collections::BTreeMap;
use std::io::Write;

use synod_detect::AlarmBudget;
use synod_evaluate::{
    Bootstrap, Mean, Metrics, NodeResult, Outcome, beyond_chance, difference, mean_difference,
};
use synod_fleet::Choice;
use synod_insight::report::{listed, worst};

use super::choice::{CHOOSING, chosen};

/// An arm of a comparison: a detector, its alarms and what came of it.
pub(crate) struct Arm {
    pub(crate) name: String,
    pub(crate) alarm: String,
    pub(crate) outcome: Outcome,
    /// The arm that it is compared with, node by node.
    pub(crate) against: Option<usize>,
    /// How nodes chose, if they did.
    pub(crate) choices: Vec<Choice>,
}

/// What an arm has over the one it is compared with.
pub(crate) struct Comparison<'a> {
    pub(crate) arm: &'a Arm,
    pub(crate) against: &'a Arm,
    pub(crate) mean: Mean,
    /// How each node's figures changed.
    pub(crate) differences: BTreeMap<String, Metrics>,
}

impl Comparison<'_> {
    pub(super) fn count(&self, sign: f64) -> usize {
        let f1 = self.differences.values().filter_map(|metrics| metrics.f1);
        f1.filter(|f1| f1 * sign > 0.0).count()
    }
}

/// All comparisons, in the order of the arms.
pub(crate) fn comparisons(arms: &[Arm]) -> Vec<Comparison<'_>> {
    let compared = |arm: &Arm| arm.against.and_then(|i| arms.get(i));
    arms.iter()
        .filter_map(|arm| compared(arm).map(|against| comparison(arm, against)))
        .collect()
}

fn comparison<'a>(arm: &'a Arm, against: &'a Arm) -> Comparison<'a> {
    let before = |after: &NodeResult| against.outcome.nodes.iter().find(|n| n.node == after.node);
    let nodes = arm.outcome.nodes.iter();
    let pairs: Vec<(&str, Metrics, Metrics)> = nodes
        .filter_map(|after| {
            Some((
                after.node.as_str(),
                before(after)?.evaluation.metrics,
                after.evaluation.metrics,
            ))
        })
        .collect();
    let metrics: Vec<_> = pairs.iter().map(|(_, before, after)| (*before, *after)).collect();
    let changed =
        |(node, before, after): &(&str, Metrics, Metrics)| ((*node).to_owned(), difference(before, after));
    Comparison {
        arm,
        against,
        differences: pairs.iter().map(changed).collect(),
        mean: mean_difference(&metrics, &Bootstrap::default()),
    }
}

/// Figures of a difference: a heading, a metric and its digits.
const DIFFERENCES: [(&str, &str, usize); 6] = [
    ("F1", "f1", 3),
    ("precision", "precision", 3),
    ("recall", "recall", 3),
    ("FPR", "fpr", 4),
    ("events found", "event_recall", 3),
    ("false alarms", "false_alarms_per_node_month", 2),
];

/// Prints what arms have over those they are compared with; nothing if there are none.
pub(crate) fn differences(out: &mut dyn Write, comparisons: &[Comparison<'_>]) -> std::io::Result<()> {
    let wide = comparisons
        .iter()
        .map(|c| c.arm.name.len() + c.against.name.len() + 6)
        .max();
    let Some(wide) = wide else {
        return Ok(());
    };
    write!(out, "\n{:wide$}", "difference")?;
    for (heading, ..) in DIFFERENCES {
        write!(out, "{heading:>28}")?;
    }
    writeln!(out, "{:>16}", "nodes + / -")?;
    for comparison in comparisons {
        let name = format!("{} less {}", comparison.arm.name, comparison.against.name);
        write!(out, "{name:wide$}")?;
        for (_, metric, digits) in DIFFERENCES {
            let value = figure(&comparison.mean.metrics, metric);
            let range = comparison.mean.intervals.get(metric);
            let text = value.zip(range).map_or("-".to_owned(), |(value, range)| {
                format!(
                    "{value:+.digits$} [{:+.digits$}, {:+.digits$}]",
                    range.low, range.high
                )
            });
            write!(out, "{text:>28}")?;
        }
        writeln!(
            out,
            "{:>16}",
            format!("{} / {}", comparison.count(1.0), comparison.count(-1.0))
        )?;
    }
    writeln!(
        out,
        "Mean differences over nodes with 95 % intervals from drawing nodes, and how many nodes' F1 rose and fell."
    )?;
    for comparison in comparisons {
        let chosen = chosen(&comparison.arm.choices).unwrap_or_default();
        writeln!(
            out,
            "{}: {} {chosen}",
            comparison.arm.name,
            worst(&comparison.differences)
        )?;
    }
    if comparisons.iter().any(|c| !c.arm.choices.is_empty()) {
        writeln!(out, "{CHOOSING}")?;
    }
    Ok(())
}

/// Columns of the table: a heading, a metric and its digits.
const COLUMNS: [(&str, &str, usize); 11] = [
    ("AUROC", "auroc", 3),
    ("AP", "ap", 3),
    ("VUS-PR", "vus_pr", 3),
    ("best F1", "best_f1", 3),
    ("F1", "f1", 3),
    ("precision", "precision", 3),
    ("recall", "recall", 3),
    ("FPR", "fpr", 4),
    ("TNR", "tnr", 4),
    ("events found", "event_recall", 3),
    ("false alarms", "false_alarms_per_node_month", 2),
];

fn figure(metrics: &Metrics, name: &str) -> Option<f64> {
    let place = Metrics::NAMES.iter().position(|n| *n == name)?;
    metrics.values()[place]
}

/// Prints one line per arm and, if asked, one per node.
pub(crate) fn print(out: &mut dyn Write, arms: &[Arm], nodes: bool) -> std::io::Result<()> {
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
        intervals(out, &arm.outcome.mean, wide)?;
    }
    writeln!(
        out,
        "\nMeans over nodes and, below, 95 % intervals from drawing nodes. F1, precision, recall and FPR count windows at the calibrated threshold; best F1 is the"
    )?;
    writeln!(
        out,
        "best of any threshold, which nobody has in use. False alarms are per node and 30 days. No point adjustment."
    )
}

/// Which nodes have more false alarms than the budget allows, beyond what chance gives; none if there are none.
pub(crate) fn above_budget(arm: &Arm, budget: AlarmBudget) -> Option<String> {
    let AlarmBudget::PerNodeMonth(per_month) = budget else {
        return None;
    };
    let above = arm.outcome.nodes.iter().filter_map(|node| {
        let found = node.evaluation.false_alarms;
        let allowed = per_month * node.evaluation.healthy_months;
        beyond_chance(found, allowed).then(|| {
            (
                found,
                format!("{} ({found} where {allowed:.1} are allowed)", node.node),
            )
        })
    });
    let mut above: Vec<(usize, String)> = above.collect();
    above.sort_by_key(|(found, _)| std::cmp::Reverse(*found));
    let names = above.into_iter().map(|(_, name)| name).collect();
    listed(names).map(|names| format!("Above the budget beyond chance: {names}."))
}

/// The line below an arm's means; none without intervals.
fn intervals(out: &mut dyn Write, mean: &Mean, wide: usize) -> std::io::Result<()> {
    if mean.intervals.is_empty() {
        return Ok(());
    }
    write!(out, "{:wide$}", "")?;
    for (_, metric, digits) in COLUMNS {
        let range = mean.intervals.get(metric);
        let range = range.map(|i| format!("{:.digits$}-{:.digits$}", i.low, i.high));
        write!(out, "{:>14}", range.unwrap_or_default())?;
    }
    writeln!(out)
}
