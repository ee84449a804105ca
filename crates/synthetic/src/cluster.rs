//! The cluster: nodes that can be had one at a time, in any order.

use synod_core::{Frame, Truth};
use synod_telemetry::{Error, Result};

use super::fault::Fault;
use super::labels;
use super::node::{Node, NodeCourse};
use super::options::{ClusterOptions, DAY, STEP, Statistics};
use super::room::Room;
use super::sampling::Sampler;

/// A cluster that exists only as its parameters: whatever is asked of it is computed, and always comes out the same.
#[derive(Clone, Debug)]
pub struct Cluster {
    options: ClusterOptions,
    room: Room,
}

impl Cluster {
    /// Checks the parameters and lays out what nodes share.
    pub fn new(options: ClusterOptions) -> Result<Cluster> {
        options.check()?;
        let room = Room::new(&options);
        Ok(Cluster { options, room })
    }

    /// The parameters.
    pub fn options(&self) -> &ClusterOptions {
        &self.options
    }

    /// A node's name: its number, as in the M100 data.
    pub fn name(&self, node: usize) -> String {
        node.to_string()
    }

    /// All windows of a node, labelled as its operators would have them.
    pub fn node(&self, node: usize) -> Result<Frame> {
        let mut parts = self.parts(node, self.options.days)?;
        parts.next().unwrap_or_else(|| {
            Err(Error::Setting(format!(
                "synthetic cluster: node {node} lost every window; give more days"
            )))
        })
    }

    /// The same windows with the exact truth: anomalous while a fault is at work, healthy otherwise.
    pub fn node_exact(&self, node: usize) -> Result<Frame> {
        let frame = self.node(node)?;
        let truth = self.exact_truth(node, frame.times())?;
        Ok(frame.with_truth(truth)?)
    }

    /// A node's windows in frames of some days each, so that no more than one needs to be in memory.
    pub fn parts(&self, node: usize, days: usize) -> Result<NodeParts<'_>> {
        let made = self.make(node)?;
        Ok(NodeParts {
            truth: labels::written(&self.options, node, &made.plans, &self.room),
            columns: columns(&made, self.options.statistics),
            sampler: Sampler::new(&made.metrics),
            course: NodeCourse::new(&self.options, &self.room, made),
            cluster: self,
            windows: days.clamp(1, self.options.days) * DAY,
        })
    }

    /// The faults of a node, in time order.
    pub fn faults(&self, node: usize) -> Result<Vec<Fault>> {
        let node = self.make(node)?;
        Ok(node
            .plans
            .iter()
            .map(|p| p.fault(&node.metrics, self.options.start))
            .collect())
    }

    /// Whether a fault was at work at each of these times; unknown outside the cluster's days.
    pub fn exact_truth(&self, node: usize, times: &[i64]) -> Result<Vec<Truth>> {
        let truth = labels::exact(self.options.windows(), &self.make(node)?.plans);
        let at = |time: &i64| usize::try_from((time - self.options.start).div_euclid(STEP)).ok();
        Ok(times
            .iter()
            .map(|t| at(t).and_then(|w| truth.get(w)).copied().unwrap_or_default())
            .collect())
    }

    /// Whether a job held the node for most of each window of its days, those included that monitoring lost.
    pub fn busy(&self, node: usize) -> Result<Vec<bool>> {
        Ok(self.make(node)?.busy(self.options.windows()))
    }

    /// Times of announced maintenance, as seconds since 1970 from and to.
    pub fn maintenance(&self) -> Vec<(i64, i64)> {
        let time = |window: usize| self.options.start + window as i64 * STEP;
        self.room
            .maintenance
            .iter()
            .map(|m| (time(m.start), time(m.end)))
            .collect()
    }

    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    pub(super) fn make(&self, node: usize) -> Result<Node> {
        match node < self.options.nodes {
            true => Ok(Node::new(&self.options, &self.room, node)),
            false => Err(Error::Setting(format!(
                "synthetic cluster: there is no node {node}, only 0 to {}",
                self.options.nodes - 1
            ))),
        }
    }
}

fn columns(node: &Node, statistics: Statistics) -> Vec<String> {
    let suffixes: &[&str] = match statistics {
        Statistics::All => &["_avg", "_std", "_min", "_max"],
        Statistics::Average => &["_avg"],
    };
    let names = node
        .metrics
        .iter()
        .flat_map(|m| suffixes.iter().map(move |s| format!("{}{s}", m.name)));
    names.collect()
}

/// A node's windows in frames of equal length; see [`Cluster::parts`].
pub struct NodeParts<'a> {
    cluster: &'a Cluster,
    course: NodeCourse<'a>,
    sampler: Sampler,
    columns: Vec<String>,
    truth: Vec<Truth>,
    windows: usize,
}

impl NodeParts<'_> {
    /// The columns of every frame.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    fn frame(&self, times: Vec<i64>, values: Vec<f32>, truth: Vec<Truth>) -> Result<Frame> {
        let name = self.cluster.name(self.course.node.index);
        let frame = Frame::new(name, STEP, times, self.columns.clone(), values)?;
        Ok(frame.with_truth(truth)?)
    }
}

impl Iterator for NodeParts<'_> {
    type Item = Result<Frame>;

    fn next(&mut self) -> Option<Result<Frame>> {
        let options = &self.cluster.options;
        let (mut times, mut truth) = (Vec::new(), Vec::new());
        let mut values = Vec::with_capacity(self.windows * self.columns.len());
        for _ in 0..self.windows {
            let Some(mut moment) = self.course.advance() else {
                break;
            };
            if moment.is_lost() {
                continue;
            }
            times.push(options.start + moment.window as i64 * STEP);
            truth.push(self.truth.get(moment.window).copied().unwrap_or_default());
            let (metrics, held) = (&self.course.node.metrics, self.course.held());
            moment.row(metrics, held, options.statistics, &mut self.sampler, &mut values);
        }
        (!times.is_empty()).then(|| self.frame(times, values, truth))
    }
}
