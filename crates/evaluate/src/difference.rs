//! What one way of detecting has over another on the same nodes.

use crate::bootstrap::{Bootstrap, intervals_over_nodes};
use crate::mean::{Mean, mean};
use crate::metrics::Metrics;

/// The figures of `after` less those of `before`; undefined where either is.
pub fn difference(before: &Metrics, after: &Metrics) -> Metrics {
    let (before, after) = (before.values(), after.values());
    Metrics::from_values(std::array::from_fn(|i| Some(after[i]? - before[i]?)))
}

/// The mean difference over nodes that both have seen, pair by pair, with intervals from drawing nodes.
pub fn mean_difference(pairs: &[(Metrics, Metrics)], bootstrap: &Bootstrap) -> Mean {
    let differences: Vec<Metrics> = pairs
        .iter()
        .map(|(before, after)| difference(before, after))
        .collect();
    Mean {
        intervals: intervals_over_nodes(&differences, bootstrap),
        ..mean(&differences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(f1: f64, fpr: Option<f64>) -> Metrics {
        Metrics {
            f1: Some(f1),
            fpr,
            ..Metrics::default()
        }
    }

    #[test]
    fn pairs_are_compared_node_by_node_and_undefined_figures_stay_so() {
        let pairs = [
            (node(0.25, Some(0.5)), node(0.75, Some(0.25))),
            (node(0.5, None), node(0.5, Some(0.25))),
        ];
        let mean = mean_difference(&pairs, &Bootstrap::default());
        assert_eq!(mean.metrics.f1, Some(0.25));
        assert_eq!(mean.metrics.fpr, Some(-0.25));
        assert_eq!(mean.nodes_defined.get("fpr"), Some(&1));
        assert_eq!(mean.metrics.auroc, None);
        let f1 = mean.intervals["f1"];
        assert!(
            f1.low <= 0.25 && f1.high >= 0.25 && f1.low >= 0.0 && f1.high <= 0.5,
            "{f1:?}"
        );
    }
}
