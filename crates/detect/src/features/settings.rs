//! How features are made.

use serde::{Deserialize, Serialize};

/// How a metric is brought to a common scale.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scaling {
    /// Mean 0, standard deviation 1.
    #[default]
    Standard,
    /// Median 0, the distance between the quartiles 1.35, as for a normal distribution.
    Robust,
    /// From 0 to 1.
    Minmax,
}

/// How features are made from windows.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeatureSettings {
    /// How metrics are brought to a common scale.
    pub scaling: Scaling,
    /// Whether large deviations count by their logarithm, so that one wild metric does not drown the others.
    pub compress: bool,
    /// Whether metrics that only grow are replaced by their growth.
    pub counters: bool,
    /// Seconds over which a rolling median is taken from the values of each metric; none if they are used as they are.
    #[serde(default)]
    pub detrend: Option<i64>,
}

impl Default for FeatureSettings {
    fn default() -> FeatureSettings {
        FeatureSettings {
            scaling: Scaling::Standard,
            compress: true,
            counters: true,
            detrend: None,
        }
    }
}
