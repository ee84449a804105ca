//! The section `[data]` of a configuration, where nodes' windows are those of a synthetic cluster.

use serde::Deserialize;
use synod_core::config::{Mistake, Section};

use crate::options::ClusterOptions;

/// A cluster, and how what is found in it is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterChoice {
    /// The cluster; its seed is that of the run.
    pub options: ClusterOptions,
    /// By what test windows are judged.
    pub truth: JudgedBy,
}

/// By what windows are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JudgedBy {
    /// By the faults themselves.
    #[default]
    Exact,
    /// By what operators noted.
    Operator,
}

/// The kind of these data.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Synthetic,
}

/// `[data]` as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenCluster {
    #[allow(dead_code, reason = "it has one value, which is checked as it is read")]
    kind: Kind,
    nodes: Option<usize>,
    days: Option<usize>,
    anomalies: Option<f64>,
    drift: Option<f64>,
    heterogeneity: Option<f64>,
    #[serde(default)]
    truth: JudgedBy,
}

impl Section for ClusterChoice {
    const NAME: &'static str = "data";
    type Written = WrittenCluster;

    fn check(written: WrittenCluster) -> Result<ClusterChoice, Mistake> {
        let usual = ClusterOptions::default();
        let options = ClusterOptions {
            nodes: written.nodes.unwrap_or(usual.nodes),
            days: written.days.unwrap_or(usual.days),
            anomalies: written.anomalies.unwrap_or(usual.anomalies),
            drift: written.drift.unwrap_or(usual.drift),
            heterogeneity: written.heterogeneity.unwrap_or(usual.heterogeneity),
            ..usual
        };
        match options.problem() {
            Some((key, problem)) => Err(Mistake::at(key, format!("synthetic cluster: {problem}"))),
            None => Ok(ClusterChoice {
                options,
                truth: written.truth,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_checked_before_it_is_generated() {
        let read = |written| ClusterChoice::check(serde_json::from_value(written).expect("written so"));
        let small = read(json!({ "kind": "synthetic", "nodes": 2, "truth": "operator" })).expect("a cluster");
        assert_eq!((small.options.nodes, small.truth), (2, JudgedBy::Operator));
        assert_eq!(small.options.days, ClusterOptions::default().days);
        let found = read(json!({ "kind": "synthetic", "anomalies": 0.7 }));
        assert_eq!(found.map_err(|m| m.key), Err("anomalies".to_owned()));
        let other = serde_json::from_value::<WrittenCluster>(json!({ "kind": "csv" }));
        assert!(other.is_err());
    }
}
