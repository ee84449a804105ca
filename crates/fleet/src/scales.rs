//! Where metrics lie and how far they vary on all nodes, by sums; and features whose centres and scales come from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use synod_core::{Dropped, Frame};
use synod_detect::features::{
    Column, Direction, FeatureSettings, Features, Scale, Scaling, changes, direction, growth,
    mean_and_deviation,
};

use crate::error::{Error, Result};

/// How many independent windows the fleet's word on a metric's scale is worth.
const SCALE_WORTH: f64 = 10.0;

/// Fewer values than this say nothing of a metric.
const FEWEST: f64 = 10.0;

/// What nodes tell of one metric, added up. Whoever adds sees each node's answer: means and variances, no window.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct MetricSums {
    nodes: f64,
    means: f64,
    squared_means: f64,
    log_variances: f64,
    changing: f64,
    log_changes: f64,
}

impl MetricSums {
    fn add(&mut self, other: &MetricSums, sign: f64) {
        self.nodes += sign * other.nodes;
        self.means += sign * other.means;
        self.squared_means += sign * other.squared_means;
        self.log_variances += sign * other.log_variances;
        self.changing += sign * other.changing;
        self.log_changes += sign * other.log_changes;
    }

    fn mean(&self) -> f64 {
        self.means / self.nodes.max(1.0)
    }

    /// The variance of the nodes' means.
    fn between(&self) -> f64 {
        let spread = self.squared_means / self.nodes.max(1.0) - self.mean().powi(2);
        spread.max(0.0) * self.nodes / (self.nodes - 1.0).max(1.0)
    }

    /// The usual variance within a node; the geometric mean, so that a few ill nodes do not widen it for all.
    fn within(&self) -> f64 {
        (self.log_variances / self.nodes.max(1.0)).exp()
    }

    fn changes(&self) -> Option<f64> {
        (self.changing > 0.5).then(|| (self.log_changes / self.changing).exp())
    }

    /// The share of a node's windows that are worth an independent one: neighbours in time resemble each other.
    fn independent(&self) -> f64 {
        let resemblance = (1.0 - self.changes().unwrap_or(0.0) / (2.0 * self.within())).clamp(0.0, 0.999);
        (1.0 - resemblance) / (1.0 + resemblance)
    }
}

/// What nodes tell of their metrics, by name and by how each metric counts: as it is, upwards or downwards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scales {
    metrics: BTreeMap<String, [MetricSums; 3]>,
}

const DIRECTIONS: [Option<Direction>; 3] = [None, Some(Direction::Up), Some(Direction::Down)];

impl Scales {
    /// What one node has to tell, from its healthy training windows.
    pub fn of(frame: &Frame, healthy: &[bool], settings: &FeatureSettings) -> Result<Scales> {
        let mut scales = Scales::default();
        for (index, name) in frame.metrics().iter().enumerate() {
            let raw = column(frame, index);
            let known: Vec<f32> = raw.iter().copied().filter(|v| v.is_finite()).collect();
            let counts = if settings.counters {
                direction(&known)
            } else {
                None
            };
            let own = Own::of(&raw, frame, healthy, counts);
            let place = DIRECTIONS.iter().position(|d| *d == counts).unwrap_or(0);
            let mut sums = [MetricSums::default(); 3];
            sums[place] = own.sums();
            if sums[place].nodes > 0.0 {
                scales.metrics.insert(name.clone(), sums);
            }
        }
        match scales.metrics.is_empty() {
            false => Ok(scales),
            true => Err(Error::Node {
                node: frame.node().to_owned(),
                problem: "none of its metrics varies in training; give it more or other windows".to_owned(),
            }),
        }
    }

    /// Adds what others tell.
    pub fn add(&mut self, other: &Scales) {
        self.merge(other, 1.0);
    }

    /// Takes back what was added.
    pub fn remove(&mut self, other: &Scales) {
        self.merge(other, -1.0);
    }

    fn merge(&mut self, other: &Scales, sign: f64) {
        for (name, sums) in &other.metrics {
            let all = self.metrics.entry(name.clone()).or_default();
            all.iter_mut().zip(sums).for_each(|(a, b)| a.add(b, sign));
        }
    }

    /// How most nodes count a metric, and what they tell of it; none if no node sees it vary.
    fn most(&self, name: &str) -> Option<(Option<Direction>, &MetricSums)> {
        let sums = self.metrics.get(name)?;
        let most = (0..3).max_by(|a, b| sums[*a].nodes.total_cmp(&sums[*b].nodes))?;
        (sums[most].nodes > 0.5).then(|| (DIRECTIONS[most], &sums[most]))
    }
}

/// What one node knows of one metric.
struct Own {
    count: f64,
    mean: f64,
    variance: f64,
    changes: f64,
}

impl Own {
    fn of(raw: &[f32], frame: &Frame, healthy: &[bool], counts: Option<Direction>) -> Own {
        let (times, step) = (frame.times(), frame.step());
        let series = growth(raw, counts, times, step);
        let kept = |values: Vec<(f32, bool)>| -> Vec<f32> {
            let kept = values.into_iter().filter(|(v, h)| *h && v.is_finite());
            kept.map(|(v, _)| v).collect()
        };
        let values = kept(series.iter().copied().zip(healthy.iter().copied()).collect());
        let changes = changes(&series, times, step).into_iter();
        let changes = kept(changes.zip(healthy.iter().skip(1).copied()).collect());
        let (mean, deviation) = mean_and_deviation(&values);
        // Sums of equal numbers may differ from them in the last bits.
        let real = |d: f64, mean: f64| if d <= 1e-6 * mean.abs() { 0.0 } else { d * d };
        let (change, wandering) = mean_and_deviation(&changes);
        Own {
            count: values.len() as f64,
            mean,
            variance: real(deviation, mean),
            changes: real(wandering, change),
        }
    }

    fn sums(&self) -> MetricSums {
        if self.count < FEWEST || self.variance == 0.0 {
            return MetricSums::default();
        }
        let changing = f64::from(u8::from(self.changes > 0.0));
        MetricSums {
            nodes: 1.0,
            means: self.mean,
            squared_means: self.mean * self.mean,
            log_variances: self.variance.ln(),
            changing,
            log_changes: if changing > 0.0 { self.changes.ln() } else { 0.0 },
        }
    }

    /// Centre and scale of values and of changes: the node's own as far as its windows are evidence, the fleet's beyond.
    fn shrunk(&self, fleet: &MetricSums) -> (Scale, Scale) {
        let evidence = self.count * fleet.independent();
        let blend = |own: f64, all: f64| match own > 0.0 {
            true => ((evidence * own.ln() + SCALE_WORTH * all.ln()) / (evidence + SCALE_WORTH)).exp(),
            false => all,
        };
        let (within, between) = (fleet.within(), fleet.between());
        // Nodes that hardly differ say much of where a new one will be, nodes that differ say little.
        let worth = if between > 0.0 {
            within / between
        } else {
            f64::MAX.sqrt()
        };
        let centre = (evidence * self.mean + worth * fleet.mean()) / (evidence + worth);
        let variance = blend(self.variance, within);
        let changes = fleet.changes().map_or(variance, |all| blend(self.changes, all));
        (
            Scale::new(centre, variance.sqrt()),
            Scale::new(0.0, changes.sqrt()),
        )
    }
}

fn column(frame: &Frame, index: usize) -> Vec<f32> {
    let values = frame.values().iter().skip(index).step_by(frame.width().max(1));
    values.copied().collect()
}

/// A node's features with centres and scales that it shares with others. Metrics that vary nowhere are left out; those
/// that do not vary here are used as the others use them.
pub(super) fn shared(
    frame: &Frame,
    healthy: &[bool],
    scales: &Scales,
    settings: &FeatureSettings,
) -> Result<Features> {
    if settings.scaling != Scaling::Standard || settings.detrend.is_some() {
        return Err(Error::NotShared);
    }
    let mut dropped = frame.dropped().to_vec();
    let mut leave_out = |metric: &str, reason: String| {
        dropped.push(Dropped {
            metric: metric.to_owned(),
            reason,
        })
    };
    let mut columns = vec![];
    for (index, name) in frame.metrics().iter().enumerate() {
        let Some((counter, fleet)) = scales.most(name) else {
            leave_out(name, "it varies in no node's training windows".to_owned());
            continue;
        };
        let own = Own::of(&column(frame, index), frame, healthy, counter);
        if own.count < FEWEST {
            leave_out(name, format!("it has only {} values in training", own.count));
            continue;
        }
        let (values, changes) = own.shrunk(fleet);
        columns.push(Column::new(name, counter, values, changes));
    }
    if columns.is_empty() {
        return Err(Error::Node {
            node: frame.node().to_owned(),
            problem: "it has no metric that varies in any node's training windows".to_owned(),
        });
    }
    Ok(Features::of_columns(frame.step(), settings, columns, dropped))
}
