//! The windows of many nodes, kept as frames.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{
    spill::{Run, Spill},
    stats::Stats,
    stream::{Counts, MetricId, WindowRow, WindowSettings, Windows},
};
use crate::{
    Frame,
    error::{Error, Result},
    metric::MetricKind,
    pattern::natural_order,
    sources::Sample,
};

/// More metrics than this on one node are taken for a mistake in the source.
const MAX_METRICS: usize = 65_536;

/// Which statistics become columns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum KeptStatistics {
    /// The mean, under the metric's own name.
    #[default]
    Mean,
    /// `<metric>_avg`, `_std`, `_min` and `_max`.
    All,
}

impl KeptStatistics {
    /// Appends the columns of a metric's name.
    pub(crate) fn name(self, metric: &str, out: &mut Vec<String>) {
        match self {
            KeptStatistics::Mean => out.push(metric.to_owned()),
            KeptStatistics::All => {
                out.extend(["avg", "std", "min", "max"].map(|what| format!("{metric}_{what}")))
            }
        }
    }

    /// Appends the values of a metric's statistics.
    pub(crate) fn values(self, stats: &Stats, out: &mut Vec<f32>) {
        match self {
            KeptStatistics::Mean => out.push(stats.mean as f32),
            KeptStatistics::All => {
                out.extend([stats.mean, stats.std, stats.min, stats.max].map(|v| v as f32))
            }
        }
    }
}

/// Samples of many nodes and metrics by name. Closed windows are kept until [`Nodes::frames`] or [`Nodes::each_frame`], in
/// memory unless [`Nodes::spilling`] gave them a file.
///
/// Every metric has its own open windows, so sources may give one metric after the other or all of them together.
pub struct Nodes {
    settings: WindowSettings,
    keep: KeptStatistics,
    nodes: BTreeMap<String, BTreeMap<String, Series>>,
    spill: Option<Spill>,
    /// Closed windows in memory.
    waiting: usize,
}

/// One metric of one node.
struct Series {
    windows: Windows,
    starts: Vec<i64>,
    values: Vec<f32>,
    /// Windows before these that went to the scratch file.
    spilled: Vec<Run>,
}

impl Series {
    fn new(settings: WindowSettings, kind: MetricKind) -> Result<Series> {
        let mut windows = Windows::new(settings)?;
        windows.metric(kind);
        Ok(Series {
            windows,
            starts: Vec::new(),
            values: Vec::new(),
            spilled: Vec::new(),
        })
    }

    /// Takes a sample and returns how many windows it closed.
    fn push(&mut self, time: i64, value: f64, keep: KeptStatistics) -> usize {
        let before = self.starts.len();
        let (starts, values) = (&mut self.starts, &mut self.values);
        self.windows.push(MetricId(0), time, value, &mut |row| {
            append(row, keep, starts, values)
        });
        self.starts.len() - before
    }

    /// Closes all windows and brings back those in the scratch file.
    fn finish(&mut self, keep: KeptStatistics, spill: &mut Option<Spill>) -> Result<()> {
        let (starts, values) = (&mut self.starts, &mut self.values);
        self.windows.finish(&mut |row| append(row, keep, starts, values));
        if let Some(spill) = spill.as_mut().filter(|_| !self.spilled.is_empty()) {
            let (mut starts, mut values) = (Vec::new(), Vec::new());
            for run in std::mem::take(&mut self.spilled) {
                spill.read(run, &mut starts, &mut values)?;
            }
            starts.append(&mut self.starts);
            values.append(&mut self.values);
            (self.starts, self.values) = (starts, values);
        }
        Ok(())
    }
}

fn append(row: WindowRow<'_>, keep: KeptStatistics, starts: &mut Vec<i64>, values: &mut Vec<f32>) {
    starts.push(row.start);
    row.stats.iter().for_each(|stats| keep.values(stats, values));
}

impl Nodes {
    /// No nodes.
    pub fn new(settings: WindowSettings, keep: KeptStatistics) -> Result<Nodes> {
        Windows::new(settings)?;
        Ok(Nodes {
            settings,
            keep,
            nodes: BTreeMap::new(),
            spill: None,
            waiting: 0,
        })
    }

    /// Lets closed windows of all metrics, once there are `limit` of them, go to a scratch file. It must not exist, and is
    /// removed in the end.
    pub fn spilling(mut self, path: impl AsRef<Path>, limit: usize) -> Result<Nodes> {
        self.spill = Some(Spill::create(path.as_ref(), limit)?);
        Ok(self)
    }

    /// Takes a sample; node and metric begin to exist with their first one, which also decides the metric's kind.
    pub fn push(&mut self, node: &str, metric: &str, kind: MetricKind, time: i64, value: f64) -> Result<()> {
        let known = self
            .nodes
            .get_mut(node)
            .and_then(|metrics| metrics.get_mut(metric));
        if let Some(series) = known {
            self.waiting += series.push(time, value, self.keep);
            return match self.spill.as_ref().is_some_and(|s| self.waiting >= s.limit) {
                true => self.relieve(),
                false => Ok(()),
            };
        }
        let metrics = self.nodes.entry(node.to_owned()).or_default();
        if metrics.len() >= MAX_METRICS {
            return Err(Error::Setting(format!(
                "node {node} has more than {MAX_METRICS} metrics; leave out labels that change with every sample"
            )));
        }
        let mut series = Series::new(self.settings, kind)?;
        self.waiting += series.push(time, value, self.keep);
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

    /// Moves closed windows to the scratch file.
    #[cold]
    fn relieve(&mut self) -> Result<()> {
        let all = self.nodes.values_mut().flat_map(BTreeMap::values_mut);
        let waiting = all.filter(|series| !series.starts.is_empty());
        if let Some(spill) = &mut self.spill {
            spill.write(waiting.map(|s| (&mut s.starts, &mut s.values, &mut s.spilled)))?;
            self.waiting = 0;
        }
        Ok(())
    }

    /// Closes all windows: a frame per node, nodes and metrics in natural order. A node without a window has no frame.
    pub fn frames(self) -> Result<Vec<Frame>> {
        let mut frames = Vec::with_capacity(self.nodes.len());
        self.each_frame(&mut |frame| {
            frames.push(frame);
            Ok(())
        })?;
        Ok(frames)
    }

    /// Like [`Nodes::frames`], but gives one frame after the other to `sink`, so that only one is in memory.
    pub fn each_frame(self, sink: &mut dyn FnMut(Frame) -> Result<()>) -> Result<()> {
        let (keep, step, mut spill) = (self.keep, self.settings.width, self.spill);
        let mut nodes: Vec<(String, BTreeMap<String, Series>)> = self.nodes.into_iter().collect();
        nodes.sort_by(|a, b| natural_order(&a.0, &b.0));
        for (name, mut metrics) in nodes {
            for series in metrics.values_mut() {
                series.finish(keep, &mut spill)?;
            }
            if metrics.values().any(|series| !series.starts.is_empty()) {
                sink(frame(name, metrics, keep, step)?)?;
            }
        }
        Ok(())
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// The windows of all metrics side by side.
fn frame(node: String, metrics: BTreeMap<String, Series>, keep: KeptStatistics, step: i64) -> Result<Frame> {
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
    Ok(Frame::new(node, step, times, names, values)?)
}
