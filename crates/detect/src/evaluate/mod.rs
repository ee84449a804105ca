//! Honest evaluation of anomaly scores: how well they rank, and what their alarms cost.
//!
//! Everything here is a pure function of per-window scores, alarms and labels in time order, evenly spaced. Windows whose
//! truth is [`Truth::Unknown`] are left out of every count. A score that is NaN ranks below all others. What cannot be
//! computed (recall without an anomaly, say) is `None`, which is `null` in JSON; it is never zero.
//!
//! ```
//! use synod_detect::evaluate::{Scored, Settings, evaluate};
//! use synod_telemetry::Truth::{Anomalous, Healthy};
//! let scored = Scored {
//!     scores: &[0.1, 0.2, 0.9, 0.8],
//!     alarms: &[false, false, true, false],
//!     truth: &[Healthy, Healthy, Anomalous, Anomalous],
//!     step: 900,
//! };
//! let found = evaluate(&scored, &Settings::default())?;
//! assert_eq!(found.metrics.auroc, Some(1.0));
//! assert_eq!(found.metrics.recall, Some(0.5));
//! # Ok::<(), synod_detect::Error>(())
//! ```

mod bootstrap;
mod chance;
mod curve;
mod difference;
mod events;
mod mean;
mod metrics;
mod point;
mod point_adjust;
mod vus;

pub use bootstrap::{Bootstrap, Interval, Intervals, intervals_over_nodes, intervals_over_windows};
pub use chance::beyond_chance;
pub use curve::{Curve, curve};
pub use difference::{difference, mean_difference};
pub use events::{Event, EventKind, Events, events, true_segments};
pub use mean::{Mean, mean};
pub use metrics::Metrics;
pub use point::{Confusion, confusion};
pub use point_adjust::{PointAdjusted, point_adjusted};
pub use vus::vus_pr;

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use synod_telemetry::Truth;

/// One node's windows in time order: what the detector said and what is known.
#[derive(Copy, Clone, Debug)]
pub struct Scored<'a> {
    /// Anomaly score per window, higher is stranger; NaN ranks lowest.
    pub scores: &'a [f32],
    /// The decision per window, at the calibrated threshold and after persistence.
    pub alarms: &'a [bool],
    /// What is known of each window.
    pub truth: &'a [Truth],
    /// The distance between two windows, in seconds.
    pub step: i64,
}

impl Scored<'_> {
    fn check(&self) -> Result<()> {
        let (scores, alarms, truth) = (self.scores.len(), self.alarms.len(), self.truth.len());
        if scores != alarms || scores != truth {
            return Err(Error::Setting(format!(
                "{scores} scores, {alarms} alarms and {truth} labels; give one of each per window"
            )));
        }
        if self.step <= 0 {
            return Err(Error::Setting(format!(
                "a step of {} s between windows; give the step in seconds, above zero",
                self.step
            )));
        }
        Ok(())
    }
}

/// What an evaluation has to be told. All lengths are in windows.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The longest buffer that VUS-PR puts around an anomaly. The public code estimates it per series as the strongest
    /// lag of the data's autocorrelation; a fixed length keeps runs comparable, and 100 is that code's own default.
    pub vus_window: usize,
    /// Alarms with fewer quiet windows than this between them are one event; 0 and 1 merge nothing.
    pub merge: usize,
    /// How long before an anomaly an alarm may start and still count as lead time.
    pub horizon: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            vus_window: 100,
            merge: 1,
            horizon: 24,
        }
    }
}

/// How one node's scores and alarms compare with what is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The figures.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Windows whose truth is known.
    pub windows: usize,
    /// Windows left out because their truth is unknown.
    pub unknown_windows: usize,
    /// Windows known to be anomalous.
    pub anomalous_windows: usize,
    /// Known windows with an alarm.
    pub alarm_windows: usize,
    /// Unbroken runs of anomalous windows.
    pub segments: usize,
    /// Segments with an alarm in them.
    pub segments_found: usize,
    /// Segments that an alarm announced within the horizon.
    pub segments_led: usize,
    /// Alarm events that could be judged.
    pub alarm_events: usize,
    /// Alarm events in healthy time only.
    pub false_alarms: usize,
    /// Known healthy time, in months of 30 days.
    pub healthy_months: f64,
}

/// Evaluates one node. Fails if the slices differ in length or the step is not positive.
pub fn evaluate(scored: &Scored<'_>, settings: &Settings) -> Result<Evaluation> {
    scored.check()?;
    Ok(evaluate_checked(scored, settings))
}

fn evaluate_checked(scored: &Scored<'_>, settings: &Settings) -> Evaluation {
    let Scored {
        scores,
        alarms,
        truth,
        step,
    } = *scored;
    let counts = confusion(alarms, truth);
    let curve = curve(scores, truth);
    let events = events(alarms, truth, settings.merge, settings.horizon);
    let healthy_months = (counts.healthy() as f64) * (step as f64) / (30.0 * 86_400.0);
    let false_alarms = events.count(EventKind::False);
    let minutes = |windows: f64| windows * step as f64 / 60.0;
    let metrics = Metrics {
        auroc: curve.auroc,
        ap: curve.ap,
        vus_pr: vus_pr(scores, truth, settings.vus_window),
        best_f1: curve.best_f1,
        f1: counts.f1(),
        precision: counts.precision(),
        recall: counts.tpr(),
        tpr: counts.tpr(),
        tnr: counts.tnr(),
        fpr: counts.fpr(),
        fnr: counts.fnr(),
        false_alarms_per_node_month: (healthy_months > 0.0).then(|| false_alarms as f64 / healthy_months),
        event_precision: events.precision(),
        event_recall: events.recall(),
        delay_minutes: events.mean_delay().map(minutes),
        lead_minutes: events.mean_lead().map(minutes),
    };
    Evaluation {
        metrics,
        windows: counts.windows(),
        unknown_windows: truth.len() - counts.windows(),
        anomalous_windows: counts.anomalous(),
        alarm_windows: counts.alarms(),
        segments: events.segments,
        segments_found: events.delays.len(),
        segments_led: events.leads.len(),
        alarm_events: events.count(EventKind::True) + false_alarms,
        false_alarms,
        healthy_months,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Scores with ties and gaps, alarms, and truth in runs.
    pub(super) fn windows(longest: usize) -> impl Strategy<Value = (Vec<f32>, Vec<bool>, Vec<Truth>)> {
        let score = prop_oneof![6 => (-4i8..5).prop_map(f32::from), 1 => Just(f32::NAN), 3 => -4.0f32..4.0];
        let kind = prop_oneof![
            5 => Just(Truth::Healthy),
            3 => Just(Truth::Anomalous),
            1 => Just(Truth::Unknown)
        ];
        let run = (
            kind,
            1usize..8,
            proptest::collection::vec((score, any::<bool>()), 8),
        );
        proptest::collection::vec(run, 0..longest / 4).prop_map(move |runs| {
            let rows = runs
                .into_iter()
                .flat_map(|(truth, length, rows)| rows.into_iter().take(length).map(move |r| (r, truth)));
            let rows: Vec<_> = rows.take(longest).collect();
            let scores = rows.iter().map(|((s, _), _)| *s).collect();
            let alarms = rows.iter().map(|((_, a), _)| *a).collect();
            (scores, alarms, rows.iter().map(|(_, t)| *t).collect())
        })
    }

    proptest! {
        #[test]
        fn figures_stay_in_their_range((scores, alarms, truth) in windows(80), merge in 0usize..5) {
            let scored = Scored { scores: &scores, alarms: &alarms, truth: &truth, step: 900 };
            let found = evaluate(&scored, &Settings { vus_window: 10, merge, horizon: 5 });
            let metrics = found.expect("same lengths").metrics;
            for (name, value) in Metrics::NAMES.iter().zip(metrics.values()) {
                let bounded = !name.ends_with("_month") && !name.ends_with("_minutes");
                let top = if bounded { 1.0 + 1e-12 } else { f64::INFINITY };
                prop_assert!(value.is_none_or(|v| (0.0..=top).contains(&v)), "{name}: {value:?}");
            }
        }
    }

    #[test]
    fn a_false_alarm_a_day_is_thirty_a_month() {
        let mut alarms = vec![false; 96 * 2];
        alarms[10] = true;
        alarms[11] = true;
        alarms[100] = true;
        let scored = Scored {
            scores: &[0.0; 96 * 2],
            alarms: &alarms,
            truth: &[Truth::Healthy; 96 * 2],
            step: 900,
        };
        let found = evaluate(&scored, &Settings::default()).expect("same lengths");
        let rate = found.metrics.false_alarms_per_node_month.expect("healthy time");
        assert!((rate - 30.0).abs() < 1e-9, "{rate}");
        assert_eq!((found.false_alarms, found.metrics.f1), (2, None));
    }

    #[test]
    fn lengths_that_differ_are_an_error_that_names_them() {
        let scored = Scored {
            scores: &[1.0],
            alarms: &[],
            truth: &[Truth::Healthy],
            step: 60,
        };
        let error = evaluate(&scored, &Settings::default()).expect_err("no alarm");
        assert!(
            error.to_string().contains("1 scores, 0 alarms and 1 labels"),
            "{error}"
        );
    }

    #[test]
    fn no_windows_have_no_figures() {
        let scored = Scored {
            scores: &[],
            alarms: &[],
            truth: &[],
            step: 60,
        };
        let found = evaluate(&scored, &Settings::default()).expect("same lengths");
        assert_eq!(found, Evaluation::default());
    }
}
