//! The report of a run, from what its arms found.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use synod_detect::Alarm as Found;
use synod_detect::{AlarmBudget, History};
use synod_evaluate::{EventKind, NodeResult, peers};
use synod_insight::report::{
    Alarm, AlarmPeriod, Arm, Cause, DroppedMetric, Example, Heatmap, Improvement, NodeSeries, Period, Report,
};
use synod_telemetry::Truth;

use super::choice::{CHOOSING, chosen};
use super::table;

/// Alarms shown, and pictures of nodes.
const ALARMS: usize = 20;
const PICTURES: usize = 6;

/// What the page says that the arms do not know.
pub(super) struct Context<'a> {
    pub(super) name: &'a str,
    pub(super) config: &'a str,
    pub(super) split: &'a str,
    pub(super) label_rule: &'a str,
    pub(super) seed: u64,
    pub(super) budget: AlarmBudget,
}

pub(super) fn report(
    context: &Context<'_>,
    arms: &[table::Arm],
    comparisons: &[table::Comparison<'_>],
    history: &dyn History,
) -> anyhow::Result<Report> {
    let Some(local) = arms.first() else {
        anyhow::bail!("there is nothing to report");
    };
    let results = &local.outcome.nodes;
    let all: Vec<&Found> = results.iter().flat_map(|n| &n.events).collect();
    let mut shown = all.clone();
    shown.sort_by(|a, b| (b.peak - b.threshold).total_cmp(&(a.peak - a.threshold)));
    one_of_each_outage(&mut shown, &all, results.len());
    shown.truncate(ALARMS);
    let medians = peers(history, &shown, &all)?;
    let steps = results.iter().map(|n| n.model.steps()).max().unwrap_or(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Ok(Report {
        name: context.name.to_owned(),
        created: now.map_or(0, |d| d.as_secs() as i64),
        step: results.first().map_or(900, |n| n.model.step()),
        budget: match context.budget {
            AlarmBudget::PerNodeMonth(count) => Some(count),
            AlarmBudget::Percentile(_) => None,
        },
        split: format!("{}.", context.split),
        label_rule: format!("{}.", context.label_rule),
        step_budget: match steps {
            0 => "no optimiser steps: fitted from sums.".to_owned(),
            steps => format!("{steps} optimiser steps per node."),
        },
        seed: context.seed,
        config: context.config.to_owned(),
        arms: arms.iter().map(arm).collect(),
        improvements: comparisons.iter().map(improvement).collect(),
        nodes: results.iter().map(|n| series(n)).collect(),
        alarms: shown
            .iter()
            .zip(&medians)
            .map(|(a, m)| alarm(a, m, together(a, &all)))
            .collect(),
        heatmaps: pictured(results).filter_map(heatmap).collect(),
        examples: pictured(results).filter_map(example).collect(),
        dropped: dropped(results),
        notes: table::above_budget(local, context.budget)
            .into_iter()
            .chain(notes(local))
            .collect(),
    })
}

fn arm(arm: &table::Arm) -> Arm {
    let nodes = arm
        .outcome
        .nodes
        .iter()
        .map(|n| (n.node.clone(), n.evaluation.clone()));
    Arm {
        arm: arm.name.clone(),
        mean: arm.outcome.mean.clone(),
        nodes: nodes.collect(),
    }
}

fn improvement(comparison: &table::Comparison<'_>) -> Improvement {
    let chosen = chosen(&comparison.arm.choices);
    Improvement {
        arm: comparison.arm.name.clone(),
        against: comparison.against.name.clone(),
        mean: comparison.mean.clone(),
        differences: comparison.differences.clone(),
        choosing: chosen.is_some().then(|| CHOOSING.to_owned()),
        chosen,
    }
}

/// Nodes with the highest alarms.
fn pictured(results: &[Arc<NodeResult>]) -> impl Iterator<Item = &NodeResult> {
    let mut nodes: Vec<&NodeResult> = results
        .iter()
        .map(|n| &**n)
        .filter(|n| n.evidence.is_some())
        .collect();
    let peak = |n: &NodeResult| n.events.iter().map(|e| e.peak - e.threshold).fold(0.0, f32::max);
    nodes.sort_by(|a, b| peak(b).total_cmp(&peak(a)));
    nodes.into_iter().take(PICTURES)
}

/// Runs of equal truth, as times.
fn labelled(node: &NodeResult) -> Vec<Period> {
    let mut periods: Vec<Range<usize>> = vec![];
    for (i, _) in node
        .truth
        .iter()
        .enumerate()
        .filter(|(_, t)| **t == Truth::Anomalous)
    {
        match periods.last_mut() {
            Some(last) if last.end == i => last.end = i + 1,
            _ => periods.push(i..i + 1),
        }
    }
    let time = |i: usize| node.times[i];
    let period = |r: Range<usize>| Period {
        start: time(r.start),
        end: time(r.end - 1) + node.model.step(),
    };
    periods.into_iter().map(period).collect()
}

fn kind(alarm: &Found) -> EventKind {
    match alarm.confirmed {
        Some(true) => EventKind::True,
        Some(false) => EventKind::False,
        None => EventKind::Unknown,
    }
}

fn periods(node: &NodeResult) -> Vec<AlarmPeriod> {
    let period = |a: &Found| AlarmPeriod {
        start: a.from,
        end: a.to,
        kind: kind(a),
    };
    node.events.iter().map(period).collect()
}

fn series(node: &NodeResult) -> NodeSeries {
    NodeSeries {
        node: node.node.clone(),
        times: node.times.clone(),
        scores: node.scores.clone(),
        thresholds: node.thresholds.clone(),
        labelled: labelled(node),
        alarms: periods(node),
    }
}

/// How many nodes were in alarm when this one was highest.
fn together(alarm: &Found, all: &[&Found]) -> usize {
    let then = |a: &&&Found| a.from <= alarm.peak_at && alarm.peak_at < a.to;
    let nodes: BTreeSet<&str> = all.iter().filter(then).map(|a| a.node.as_str()).collect();
    nodes.len()
}

/// Keeps one alarm of each time when more than half of the nodes were in alarm: one cause, one card.
fn one_of_each_outage(shown: &mut Vec<&Found>, all: &[&Found], nodes: usize) {
    let mut kept: Vec<&Found> = vec![];
    shown.retain(|alarm| {
        if nodes < 3 || together(alarm, all) * 2 <= nodes {
            return true;
        }
        let known = kept.iter().any(|k| k.from < alarm.to && alarm.from < k.to);
        if !known {
            kept.push(alarm);
        }
        !known
    });
}

fn alarm(found: &Found, medians: &BTreeMap<String, f32>, together: usize) -> Alarm {
    let cause = |m: &synod_detect::Contribution| Cause {
        metric: m.metric.clone(),
        observed: m.observed.unwrap_or(f32::NAN),
        expected: m.expected,
        share: f64::from(m.share),
        peers_median: medians.get(&m.metric).copied(),
    };
    Alarm {
        node: found.node.clone(),
        start: found.from,
        end: found.to,
        peak_score: found.peak,
        threshold: found.threshold,
        p_value: found.p_value,
        kind: kind(found),
        summary: match together {
            0..=2 => summary(found),
            many => format!(
                "{} {} other nodes were in alarm with it.",
                summary(found),
                many - 1
            ),
        },
        causes: found.metrics.iter().map(cause).collect(),
    }
}

/// One sentence that a person can act on.
fn summary(found: &Found) -> String {
    let silent = found.metrics.iter().filter(|m| m.observed.is_none()).count();
    if silent * 2 > found.metrics.len() {
        return "Metrics that this node always reports have fallen silent.".to_owned();
    }
    let Some(first) = found.metrics.first() else {
        return "The metrics are unusual together.".to_owned();
    };
    let observed = first.observed.unwrap_or(f32::NAN);
    let side = if observed > first.expected {
        "above"
    } else {
        "below"
    };
    let others = match found.metrics.get(1) {
        Some(second) if second.share > 0.5 * first.share => format!(", then {}", second.metric),
        _ => String::new(),
    };
    format!(
        "{} is {side} what the other metrics would have it{others}.",
        first.metric
    )
}

fn heatmap(node: &NodeResult) -> Option<Heatmap> {
    let evidence = node.evidence.as_ref()?;
    Some(Heatmap {
        node: node.node.clone(),
        unit: "part of the score".to_owned(),
        times: evidence.times.clone(),
        metrics: evidence.metrics.clone(),
        errors: evidence.errors.clone(),
        labelled: labelled(node),
        alarms: periods(node),
    })
}

fn example(node: &NodeResult) -> Option<Example> {
    let evidence = node.evidence.as_ref().filter(|e| !e.example_times.is_empty())?;
    Some(Example {
        node: node.node.clone(),
        metric: evidence.example.clone(),
        times: evidence.example_times.clone(),
        observed: evidence.observed.clone(),
        expected: evidence.expected.clone(),
        labelled: labelled(node),
        alarms: periods(node),
    })
}

/// Every metric that some node does not use, with the reason and the nodes.
fn dropped(results: &[Arc<NodeResult>]) -> Vec<DroppedMetric> {
    let mut reasons: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for node in results {
        for d in &node.dropped {
            reasons
                .entry((&d.metric, &d.reason))
                .or_default()
                .insert(&node.node);
        }
    }
    let nodes = |nodes: BTreeSet<&str>| match nodes.len() {
        count if count == results.len() => "all".to_owned(),
        1..=4 => nodes.into_iter().collect::<Vec<_>>().join(", "),
        count => format!("{count} nodes"),
    };
    let one = |((metric, reason), of): ((&str, &str), BTreeSet<&str>)| DroppedMetric {
        nodes: nodes(of),
        metric: metric.to_owned(),
        reason: reason.to_owned(),
    };
    reasons.into_iter().map(one).collect()
}

fn notes(arm: &table::Arm) -> Vec<String> {
    let failed = arm
        .outcome
        .failed
        .iter()
        .map(|(i, e)| format!("node {i} was left out: {e}"));
    let read = |n: &Arc<NodeResult>| {
        n.notes
            .iter()
            .map(|note| format!("{}: {note}", n.node))
            .collect::<Vec<_>>()
    };
    failed.chain(arm.outcome.nodes.iter().flat_map(read)).collect()
}
