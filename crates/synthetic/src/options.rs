//! What kind of cluster is wanted.

use synod_telemetry::{Error, Result};

/// Seconds of a window.
pub const STEP: i64 = 900;
/// Nodes of a rack.
pub const RACK: usize = 20;
/// Windows of a day.
pub(super) const DAY: usize = 96;

/// Which metrics a node reports.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ReportedMetrics {
    /// 84 sensors of the board (IPMI) and 31 figures of the operating system (Ganglia).
    #[default]
    All,
    /// The board's sensors alone: what stays when the operating system dies.
    Ipmi,
    /// Thirteen of the most telling, for small models and quick looks.
    Few,
}

/// Which statistics of a window's samples are kept.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Statistics {
    /// Mean, standard deviation, least and greatest: four columns per metric.
    #[default]
    All,
    /// The mean alone: one column per metric.
    Average,
}

/// The parameters of a synthetic cluster. All of them, and nothing else, decide its data.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterOptions {
    /// How many nodes, in racks of 20. A node is the same in a cluster of any size.
    pub nodes: usize,
    /// How many days of windows.
    pub days: usize,
    /// The seed of everything random.
    pub seed: u64,
    /// The expected share of windows inside a fault, from 0 to 0.5; the federated-anomaly paper has 0.03, RUAD 0.00035.
    pub anomalies: f64,
    /// How far the machine room and the workload wander over weeks: 0 not at all, 1 like the real one.
    pub drift: f64,
    /// How much nodes differ: 0 not at all, 1 like the real ones.
    pub heterogeneity: f64,
    /// Labels that say anomalous though nothing is wrong, as events per node and 30 days.
    pub false_labels: f64,
    /// Which metrics a node reports.
    pub metrics: ReportedMetrics,
    /// Which statistics of a window's samples are kept.
    pub statistics: Statistics,
    /// The first window's time, in seconds since 1970, at midnight UTC.
    pub start: i64,
}

impl Default for ClusterOptions {
    fn default() -> ClusterOptions {
        ClusterOptions {
            nodes: 70,
            days: 180,
            seed: 1,
            anomalies: 0.03,
            drift: 1.0,
            heterogeneity: 1.0,
            false_labels: 0.5,
            metrics: ReportedMetrics::All,
            statistics: Statistics::All,
            start: 1_640_995_200,
        }
    }
}

impl ClusterOptions {
    pub(super) fn windows(&self) -> usize {
        self.days * DAY
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.problem() {
            None => Ok(()),
            Some((_, problem)) => Err(Error::Setting(format!("synthetic cluster: {problem}"))),
        }
    }

    /// The option that makes no sense, and why.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        let ranges = [
            ("nodes", self.nodes as f64, 1.0, 100_000.0),
            ("days", self.days as f64, 1.0, 3660.0),
            ("anomalies", self.anomalies, 0.0, 0.5),
            ("drift", self.drift, 0.0, 10.0),
            ("heterogeneity", self.heterogeneity, 0.0, 3.0),
            ("false_labels", self.false_labels, 0.0, 100.0),
        ];
        for (name, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                return Some((
                    name,
                    format!("{name} is {value}, it must lie between {low} and {high}"),
                ));
            }
        }
        let problem = match self.start {
            s if s % 86_400 != 0 => format!("start {s} is not midnight UTC; give a multiple of 86400"),
            s if !(0..=4_102_444_800).contains(&s) => {
                format!("start {s} is not between the years 1970 and 2100")
            }
            _ => return None,
        };
        Some(("start", problem))
    }
}
