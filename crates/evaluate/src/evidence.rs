//! What shows why a node raised alarms: errors of metrics over time, and what was expected of the one that stood out.

use std::collections::BTreeMap;

use synod_core::Frame;
use synod_detect::{Alarm, History, NodeModel, quantile};

use crate::error::Result;

/// Columns and rows of a picture.
const MOMENTS: usize = 240;
const METRICS: usize = 16;

/// Points of an example, and how many windows before and after an alarm it shows at least.
const POINTS: usize = 240;
const AROUND: usize = 24;

/// What a report shows of a node with alarms.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Moments, each the most unusual window of its stretch of time.
    pub times: Vec<i64>,
    /// The metrics with the largest errors.
    pub metrics: Vec<String>,
    /// Each metric's part of the score, metric by metric.
    pub errors: Vec<f32>,
    /// The metric behind the highest alarm.
    pub example: String,
    /// Windows around that alarm.
    pub example_times: Vec<i64>,
    /// What was measured; NaN where nothing was.
    pub observed: Vec<f32>,
    /// What would have been usual.
    pub expected: Vec<f32>,
}

impl Evidence {
    pub(crate) fn of(model: &NodeModel, frame: &Frame, scores: &[f32], alarms: &[Alarm]) -> Evidence {
        let stretch = frame.rows().div_ceil(MOMENTS).max(1);
        let highest = |from: usize| {
            let to = (from + stretch).min(frame.rows());
            (from..to)
                .max_by(|a, b| scores[*a].total_cmp(&scores[*b]))
                .unwrap_or(from)
        };
        let moments: Vec<usize> = (0..frame.rows()).step_by(stretch).map(highest).collect();
        let mut parts: Vec<BTreeMap<String, f32>> = vec![];
        let mut row = 0;
        model.watch(frame, &mut |scored| {
            if moments.get(parts.len()) == Some(&row) {
                let weight = scores[row].max(0.0);
                let named = scored.explain(0).into_iter();
                parts.push(named.map(|c| (c.metric, c.share * weight)).collect());
            }
            row += 1;
        });
        let total = |metric: &str| -> f32 { parts.iter().filter_map(|p| p.get(metric)).map(|e| e * e).sum() };
        let mut metrics: Vec<String> = model.features().names().map(str::to_owned).collect();
        metrics.sort_by(|a, b| total(b).total_cmp(&total(a)));
        metrics.truncate(METRICS);
        let error = |metric: &String, part: &BTreeMap<String, f32>| part.get(metric).copied().unwrap_or(0.0);
        let errors = metrics
            .iter()
            .flat_map(|m| parts.iter().map(|p| error(m, p)).collect::<Vec<_>>())
            .collect();
        let mut evidence = Evidence {
            times: moments.iter().map(|row| frame.times()[*row]).collect(),
            metrics,
            errors,
            example: String::new(),
            example_times: vec![],
            observed: vec![],
            expected: vec![],
        };
        if let Some(alarm) = alarms.iter().max_by(|a, b| a.peak.total_cmp(&b.peak)) {
            evidence.show(model, frame, alarm);
        }
        evidence
    }

    /// The strongest metric of an alarm, before, during and after it.
    fn show(&mut self, model: &NodeModel, frame: &Frame, alarm: &Alarm) {
        let Some(metric) = alarm
            .metrics
            .iter()
            .find(|m| m.observed.is_some())
            .or(alarm.metrics.first())
        else {
            return;
        };
        let place = |time: i64| frame.times().partition_point(|t| *t < time);
        let (first, last) = (place(alarm.from), place(alarm.to));
        let around = AROUND.max(last - first);
        let (from, to) = (first.saturating_sub(around), (last + around).min(frame.rows()));
        let step = (to - from).div_ceil(POINTS).max(1);
        self.example = metric.metric.clone();
        let mut row = 0;
        model.watch(&frame.slice(0..to), &mut |scored| {
            if row >= from && (row - from).is_multiple_of(step) {
                let found = scored.explain(0).into_iter().find(|c| c.metric == metric.metric);
                if let Some(found) = found {
                    self.example_times.push(scored.at);
                    self.observed.push(found.observed.unwrap_or(f32::NAN));
                    self.expected.push(found.expected);
                }
            }
            row += 1;
        });
    }
}

/// What healthy peers measured when each alarm was highest: for every alarm, the median per metric over the other nodes that
/// have the metric and were not in alarm then. Reads the history once more.
pub fn peers(history: &dyn History, alarms: &[&Alarm], all: &[&Alarm]) -> Result<Vec<BTreeMap<String, f32>>> {
    let mut values: Vec<BTreeMap<String, Vec<f32>>> = vec![BTreeMap::new(); alarms.len()];
    for index in 0..history.nodes() {
        let Ok((_, frame, _)) = history.node(index) else {
            continue;
        };
        for (alarm, values) in alarms.iter().zip(&mut values) {
            let at = alarm.peak_at;
            let ill = |a: &&&Alarm| a.node == frame.node() && a.from <= at && at < a.to;
            if alarm.node == frame.node() || all.iter().any(|a| ill(&a)) {
                continue;
            }
            let row = frame.times().partition_point(|t| *t < at);
            if row >= frame.rows() || frame.times()[row] - at >= frame.step() {
                continue;
            }
            for metric in &alarm.metrics {
                let Some(column) = frame.metrics().iter().position(|m| *m == metric.metric) else {
                    continue;
                };
                let value = frame.row(row)[column];
                if value.is_finite() {
                    values.entry(metric.metric.clone()).or_default().push(value);
                }
            }
        }
    }
    let medians = |v: BTreeMap<String, Vec<f32>>| {
        v.into_iter()
            .filter(|(_, v)| v.len() > 1)
            .map(|(m, v)| (m, quantile(&v, 0.5)))
            .collect()
    };
    Ok(values.into_iter().map(medians).collect())
}
