//! How one node's scores and alarms compare with what is known.

use serde::{Deserialize, Serialize};
use synod_core::Truth;

use crate::curve::curve;
use crate::error::{Error, Result};
use crate::events::{EventKind, events};
use crate::metrics::Metrics;
use crate::point::confusion;
use crate::vus::vus_pr;

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
    pub(crate) fn check(&self) -> Result<()> {
        let (scores, alarms, truth) = (self.scores.len(), self.alarms.len(), self.truth.len());
        if scores != alarms || scores != truth {
            return Err(Error::Lengths {
                scores,
                alarms,
                truth,
            });
        }
        if self.step <= 0 {
            return Err(Error::Step(self.step));
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

pub(crate) fn evaluate_checked(scored: &Scored<'_>, settings: &Settings) -> Evaluation {
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
    use proptest::prelude::*;

    use super::*;
    use crate::windows::windows;

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
