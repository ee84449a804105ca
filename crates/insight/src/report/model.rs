//! What the page is made of.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use synod_evaluate::{Evaluation, EventKind, Mean, Metrics};

/// JSON has no NaN: what is missing is written as null, and read back as NaN.
mod missing {
    use serde::{Deserialize, Deserializer};

    pub(super) fn one<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f32::NAN))
    }

    pub(super) fn many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f32>, D::Error> {
        let values: Vec<Option<f32>> = Vec::deserialize(from)?;
        Ok(values.into_iter().map(|v| v.unwrap_or(f32::NAN)).collect())
    }
}

/// Everything the page shows. Times are seconds since 1970, in UTC; a missing value is NaN.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The run's name.
    pub name: String,
    /// When the report was made.
    pub created: i64,
    /// The distance between two windows, in seconds.
    pub step: i64,
    /// The alarm budget in false alarms per node-month, if there is one.
    pub budget: Option<f64>,
    /// How training and test data were separated, in a sentence.
    pub split: String,
    /// What makes a window anomalous, in a sentence.
    pub label_rule: String,
    /// How much training each arm was allowed, in a sentence.
    pub step_budget: String,
    /// The seed of the run.
    pub seed: u64,
    /// The configuration, word for word.
    pub config: String,
    /// Ways of training that are compared; alarms and charts are those of the first.
    pub arms: Vec<Arm>,
    /// What arms have over the first one that they are compared with, node by node.
    pub improvements: Vec<Improvement>,
    /// Score timelines, one per node.
    pub nodes: Vec<NodeSeries>,
    /// Alarms with their explanation, most important first.
    pub alarms: Vec<Alarm>,
    /// Errors by metric and time.
    pub heatmaps: Vec<Heatmap>,
    /// Observed against expected values.
    pub examples: Vec<Example>,
    /// Metrics that were not used.
    pub dropped: Vec<DroppedMetric>,
    /// What the reader must know before trusting the page.
    pub notes: Vec<String>,
}

/// One way of training, evaluated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Arm {
    /// Its name.
    pub arm: String,
    /// Means over the nodes, with intervals.
    pub mean: Mean,
    /// Every node by itself.
    pub nodes: BTreeMap<String, Evaluation>,
}

/// What one arm has over another.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Improvement {
    /// The arm.
    pub arm: String,
    /// The one it is compared with.
    pub against: String,
    /// The mean differences over nodes, with intervals.
    pub mean: Mean,
    /// What every node's figures are with the arm, less what they are with the other; undefined where either is.
    pub differences: BTreeMap<String, Metrics>,
    /// How nodes chose, in words, if they did.
    pub chosen: Option<String>,
    /// How a node chooses, in a sentence, if nodes chose. The page says it once.
    pub choosing: Option<String>,
}

/// A stretch of time from `start` up to, not including, `end`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// Its first second.
    pub start: i64,
    /// The second after its last.
    pub end: i64,
}

/// When an alarm was raised, and whether a label bears it out.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmPeriod {
    /// The first second of its first window.
    pub start: i64,
    /// The second after its last window.
    pub end: i64,
    /// What it turned out to be.
    pub kind: EventKind,
}

/// One node's scores over time. `thresholds` has one value per time, or a single one for all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSeries {
    /// The node's name.
    pub node: String,
    /// The start of every window.
    pub times: Vec<i64>,
    /// The score of every window.
    #[serde(deserialize_with = "missing::many")]
    pub scores: Vec<f32>,
    /// What a score must exceed to count.
    #[serde(deserialize_with = "missing::many")]
    pub thresholds: Vec<f32>,
    /// Periods labelled anomalous.
    pub labelled: Vec<Period>,
    /// Alarms raised.
    pub alarms: Vec<AlarmPeriod>,
}

/// An alarm and why it was raised.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Alarm {
    /// The node's name.
    pub node: String,
    /// The first second of its first window.
    pub start: i64,
    /// The second after its last window.
    pub end: i64,
    /// Its highest score.
    #[serde(deserialize_with = "missing::one")]
    pub peak_score: f32,
    /// The threshold at that moment.
    #[serde(deserialize_with = "missing::one")]
    pub threshold: f32,
    /// How often healthy windows score that high.
    pub p_value: Option<f64>,
    /// Whether a label bears it out.
    pub kind: EventKind,
    /// What is wrong, in plain words.
    pub summary: String,
    /// The metrics behind it, strongest first.
    pub causes: Vec<Cause>,
}

/// One metric's part in an alarm.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cause {
    /// The metric's name.
    pub metric: String,
    /// What was measured at the peak.
    #[serde(deserialize_with = "missing::one")]
    pub observed: f32,
    /// What the model expected.
    #[serde(deserialize_with = "missing::one")]
    pub expected: f32,
    /// Its share of the score, from 0 to 1.
    pub share: f64,
    /// The median of healthy peers at that time.
    pub peers_median: Option<f32>,
}

/// Errors of one node, a row per metric and a column per time, row-major; the largest rows and a bounded number of columns
/// are shown.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Heatmap {
    /// The node's name.
    pub node: String,
    /// What the errors are measured in.
    pub unit: String,
    /// The start of every column.
    pub times: Vec<i64>,
    /// The names of the rows.
    pub metrics: Vec<String>,
    /// The errors, row by row.
    #[serde(deserialize_with = "missing::many")]
    pub errors: Vec<f32>,
    /// Periods labelled anomalous.
    pub labelled: Vec<Period>,
    /// Alarms raised.
    pub alarms: Vec<AlarmPeriod>,
}

/// One metric as it was and as the model expected it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Example {
    /// The node's name.
    pub node: String,
    /// The metric's name.
    pub metric: String,
    /// The start of every window.
    pub times: Vec<i64>,
    /// What was measured.
    #[serde(deserialize_with = "missing::many")]
    pub observed: Vec<f32>,
    /// What the model expected.
    #[serde(deserialize_with = "missing::many")]
    pub expected: Vec<f32>,
    /// Periods labelled anomalous.
    pub labelled: Vec<Period>,
    /// Alarms raised.
    pub alarms: Vec<AlarmPeriod>,
}

/// A metric that was not used, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedMetric {
    /// The nodes it concerns, as a person would say it: a name, or "all nodes".
    pub nodes: String,
    /// The metric's name.
    pub metric: String,
    /// Why it is not used.
    pub reason: String,
}
