//! The windows of many nodes, kept as frames.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    stats::Stats,
    stream::{Counts, MetricId, Settings, WindowRow, Windows},
};
use crate::{
    error::{Error, Result},
    frame::Frame,
    metric::Kind,
    pattern::natural_order,
    sources::Sample,
};

/// More metrics than this on one node are taken for a mistake in the source.
const MAX_METRICS: usize = 65_536;

/// Which statistics become columns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// The mean, under the metric's own name.
    #[default]
    Mean,
    /// `<metric>_avg`, `_std`, `_min` and `_max`.
    All,
}

impl Keep {
    /// Appends the columns of a metric's name.
    pub(crate) fn name(self, metric: &str, out: &mut Vec<String>) {
        match self {
            Keep::Mean => out.push(metric.to_owned()),
            Keep::All => out.extend(["avg", "std", "min", "max"].map(|what| format!("{metric}_{what}"))),
        }
    }

    /// Appends the values of a metric's statistics.
    pub(crate) fn values(self, stats: &Stats, out: &mut Vec<f32>) {
        match self {
            Keep::Mean => out.push(stats.mean as f32),
            Keep::All => out.extend([stats.mean, stats.std, stats.min, stats.max].map(|v| v as f32)),
        }
    }
}

/// Samples of many nodes and metrics by name. Closed windows are kept in memory until [`Nodes::frames`].
///
/// Every metric has its own open windows, so sources may give one metric after the other or all of them together.
pub struct Nodes {
    settings: Settings,
    keep: Keep,
    nodes: BTreeMap<String, BTreeMap<String, Series>>,
}

/// One metric of one node.
struct Series {
    windows: Windows,
    starts: Vec<i64>,
    values: Vec<f32>,
}

impl Series {
    fn new(settings: Settings, kind: Kind) -> Result<Series> {
        let mut windows = Windows::new(settings)?;
        windows.metric(kind);
        Ok(Series {
            windows,
            starts: Vec::new(),
            values: Vec::new(),
        })
    }

    fn push(&mut self, time: i64, value: f64, keep: Keep) {
        let Series {
            windows,
            starts,
            values,
        } = self;
        windows.push(MetricId(0), time, value, &mut |row| {
            append(row, keep, starts, values)
        });
    }

    fn finish(&mut self, keep: Keep) {
        let Series {
            windows,
            starts,
            values,
        } = self;
        windows.finish(&mut |row| append(row, keep, starts, values));
    }
}

fn append(row: WindowRow<'_>, keep: Keep, starts: &mut Vec<i64>, values: &mut Vec<f32>) {
    starts.push(row.start);
    row.stats.iter().for_each(|stats| keep.values(stats, values));
}

impl Nodes {
    /// No nodes.
    pub fn new(settings: Settings, keep: Keep) -> Result<Nodes> {
        Windows::new(settings)?;
        Ok(Nodes {
            settings,
            keep,
            nodes: BTreeMap::new(),
        })
    }

    /// Takes a sample; node and metric begin to exist with their first one, which also decides the metric's kind.
    pub fn push(&mut self, node: &str, metric: &str, kind: Kind, time: i64, value: f64) -> Result<()> {
        let known = self
            .nodes
            .get_mut(node)
            .and_then(|metrics| metrics.get_mut(metric));
        if let Some(series) = known {
            series.push(time, value, self.keep);
            return Ok(());
        }
        let metrics = self.nodes.entry(node.to_owned()).or_default();
        if metrics.len() >= MAX_METRICS {
            return Err(Error::Setting(format!(
                "node {node} has more than {MAX_METRICS} metrics; leave out labels that change with every sample"
            )));
        }
        let mut series = Series::new(self.settings, kind)?;
        series.push(time, value, self.keep);
        metrics.insert(metric.to_owned(), series);
        Ok(())
    }

    /// Takes a sample as sources give them.
    pub fn take(&mut self, sample: Sample<'_>) -> Result<()> {
        self.push(sample.node, sample.metric, sample.kind, sample.time, sample.value)
    }

    /// What became of the samples of all nodes.
    pub fn counts(&self) -> Counts {
        let all = self.nodes.values().flat_map(BTreeMap::values);
        all.fold(Counts::default(), |sum, series| sum + series.windows.counts())
    }

    /// Closes all windows: a frame per node, nodes and metrics in natural order. A node without a window has no frame.
    pub fn frames(self) -> Result<Vec<Frame>> {
        let (keep, step) = (self.keep, self.settings.width);
        let mut nodes: Vec<(String, BTreeMap<String, Series>)> = self.nodes.into_iter().collect();
        nodes.sort_by(|a, b| natural_order(&a.0, &b.0));
        let mut frames = Vec::with_capacity(nodes.len());
        for (name, mut metrics) in nodes {
            metrics.values_mut().for_each(|series| series.finish(keep));
            if metrics.values().any(|series| !series.starts.is_empty()) {
                frames.push(frame(name, metrics, keep, step)?);
            }
        }
        Ok(frames)
    }
}

/// The windows of all metrics side by side.
fn frame(node: String, metrics: BTreeMap<String, Series>, keep: Keep, step: i64) -> Result<Frame> {
    let mut metrics: Vec<(String, Series)> = metrics.into_iter().collect();
    metrics.sort_by(|a, b| natural_order(&a.0, &b.0));
    let times: BTreeSet<i64> = metrics
        .iter()
        .flat_map(|(_, series)| &series.starts)
        .copied()
        .collect();
    let times: Vec<i64> = times.into_iter().collect();
    let mut names = Vec::new();
    metrics
        .iter()
        .for_each(|(metric, _)| keep.name(metric, &mut names));
    let (width, per) = (names.len(), names.len() / metrics.len().max(1));
    let mut values = vec![f32::NAN; times.len() * width];
    for (place, (_, series)) in metrics.iter().enumerate() {
        let mut row = 0;
        for (start, from) in series.starts.iter().zip(series.values.chunks_exact(per)) {
            row += times[row..].partition_point(|time| time < start);
            let at = row * width + place * per;
            values[at..at + per].copy_from_slice(from);
        }
    }
    Frame::new(node, step, times, names, values)
}
