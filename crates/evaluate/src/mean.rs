//! Figures over many nodes.

use crate::bootstrap::Intervals;
use crate::metrics::Metrics;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Means over nodes. A node where a figure is undefined is left out of that figure's mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// The means.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// How many nodes there are.
    pub nodes: usize,
    /// For each figure that not every node defines, how many nodes are in its mean.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes_defined: BTreeMap<String, usize>,
    /// Bootstrap intervals of the means, where they were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub intervals: Intervals,
}

/// The mean of each figure over the nodes that define it, without intervals.
pub fn mean(nodes: &[Metrics]) -> Mean {
    let (metrics, counts) = mean_of(nodes.iter());
    let nodes_defined = Metrics::NAMES
        .iter()
        .zip(counts)
        .filter(|(_, count)| *count != nodes.len())
        .map(|(name, count)| (name.to_string(), count))
        .collect();
    Mean {
        metrics,
        nodes: nodes.len(),
        nodes_defined,
        intervals: Intervals::new(),
    }
}

pub(super) fn mean_of<'a>(nodes: impl Iterator<Item = &'a Metrics>) -> (Metrics, [usize; Metrics::COUNT]) {
    let mut sums = [0.0; Metrics::COUNT];
    let mut counts = [0; Metrics::COUNT];
    for node in nodes {
        for ((sum, count), value) in sums.iter_mut().zip(&mut counts).zip(node.values()) {
            if let Some(value) = value {
                *sum += value;
                *count += 1;
            }
        }
    }
    let mut means = [None; Metrics::COUNT];
    for ((mean, sum), count) in means.iter_mut().zip(sums).zip(counts) {
        *mean = (count > 0).then(|| sum / count as f64);
    }
    (Metrics::from_values(means), counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_figures_are_left_out_and_counted() {
        let node = |f1, fpr| Metrics {
            f1,
            fpr,
            ..Metrics::default()
        };
        let mean = mean(&[
            node(Some(0.5), Some(0.1)),
            node(None, Some(0.3)),
            node(Some(1.0), Some(0.2)),
        ]);
        assert_eq!(mean.metrics.f1, Some(0.75));
        assert!((mean.metrics.fpr.unwrap_or(f64::NAN) - 0.2).abs() < 1e-12);
        assert_eq!(mean.metrics.auroc, None);
        assert_eq!(mean.nodes_defined.get("f1"), Some(&2));
        assert_eq!(mean.nodes_defined.get("auroc"), Some(&0));
        assert_eq!(mean.nodes_defined.get("fpr"), None);
    }
}
