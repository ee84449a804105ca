//! From verdicts to alarms as an operator sees them: opened, updated while they last, closed.

use serde::{Deserialize, Serialize};
use synod_core::time::Timestamp;

use crate::calibrate::{Calibrator, ONE_EVENT, Policy, Verdict, p_value};
use crate::scorer::{Contribution, Scored};

/// Metrics named with an alarm.
const NAMED: usize = 8;

/// Whether an alarm is over, and how.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// It still stands.
    Standing,
    /// The node came back to what is usual.
    Ended,
    /// The node did not come back: what it has become is taken for its usual from now on.
    Adopted,
}

/// An alarm, as far as it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alarm {
    /// Its name: the node's, and when it began.
    pub id: String,
    /// The node.
    pub node: String,
    /// Whether it still stands.
    pub state: Standing,
    /// Start of its first window, in seconds since 1970.
    pub from: i64,
    /// End of its last window so far.
    pub to: i64,
    /// The highest score so far.
    pub peak: f32,
    /// The window of the highest score, in seconds since 1970.
    pub peak_at: i64,
    /// The threshold at that moment.
    pub threshold: f32,
    /// The share of windows like the training ones that would score as high as its peak; none if that cannot be said.
    pub p_value: Option<f64>,
    /// Whether it overlaps windows that are labelled anomalous; none if nothing is known of them.
    pub confirmed: Option<bool>,
    /// The window that was most unusual by itself, in seconds since 1970.
    pub worst_at: i64,
    /// The metrics behind it in that window, the strongest first.
    pub metrics: Vec<Contribution>,
}

/// What a window changed about a node's alarm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum Change {
    /// It begins.
    Opened(Alarm),
    /// Its worst window, the metrics named or its standing changed.
    Updated(Alarm),
    /// It is over: for an hour nothing spoke for it.
    Closed(Alarm),
}

impl Change {
    /// The alarm, as it is now.
    pub fn alarm(&self) -> &Alarm {
        match self {
            Change::Opened(alarm) | Change::Updated(alarm) | Change::Closed(alarm) => alarm,
        }
    }
}

/// The alarm that is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Open {
    alarm: Alarm,
    /// The score of its worst window by itself.
    worst: f32,
    /// Windows since it was last in alarm.
    quiet: usize,
}

/// A node's alarms, window after window, by a policy. Alarms less than an hour apart are one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Episodes<P = Calibrator> {
    node: String,
    policy: P,
    open: Option<Open>,
    /// When the last alarm was over.
    over: i64,
    verdict: Verdict,
}

impl<P: Policy> Episodes<P> {
    /// Of a node, before its first window.
    pub fn new(node: impl Into<String>, policy: P) -> Episodes<P> {
        Episodes {
            node: node.into(),
            policy,
            open: None,
            over: i64::MIN,
            verdict: Verdict {
                threshold: f32::INFINITY,
                alarm: false,
                adopted: false,
            },
        }
    }

    /// The node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// What was said of the last window; before the first one nothing is an alarm.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The alarm that is not over yet, if there is one.
    pub fn open(&self) -> Option<&Alarm> {
        self.open.as_ref().map(|open| &open.alarm)
    }

    /// Judges the next window; says what it changed, if anything.
    pub fn push(&mut self, scored: &Scored<'_>) -> Option<Change> {
        let verdict = self.policy.push(scored.score, scored.measured);
        self.verdict = verdict;
        match (self.open.take(), verdict.alarm) {
            (None, false) => None,
            (None, true) => {
                let open = self.begin(scored, verdict);
                let alarm = open.alarm.clone();
                self.open = Some(open);
                Some(Change::Opened(alarm))
            }
            (Some(mut open), true) => {
                let changed = open.goes_on(scored, verdict);
                let alarm = changed.then(|| open.alarm.clone());
                self.open = Some(open);
                alarm.map(Change::Updated)
            }
            (Some(mut open), false) => {
                open.quiet += 1;
                if open.quiet > one_event(scored.step()) {
                    self.over = open.alarm.to;
                    return Some(Change::Closed(open.alarm));
                }
                let state = match verdict.adopted {
                    true => Standing::Adopted,
                    false => Standing::Ended,
                };
                let alarm = (open.quiet == 1).then(|| {
                    open.alarm.state = state;
                    open.alarm.clone()
                });
                self.open = Some(open);
                alarm.map(Change::Updated)
            }
        }
    }

    fn begin(&self, scored: &Scored<'_>, verdict: Verdict) -> Open {
        // What raised the smoothed score may have come a few windows earlier.
        let (back, worst_at, worst) = scored.worst_since(self.over);
        let alarm = Alarm {
            id: format!("{}@{}", self.node, Timestamp::from_seconds(scored.at)),
            node: self.node.clone(),
            state: Standing::Standing,
            from: scored.at,
            to: scored.at + scored.step(),
            peak: scored.score,
            peak_at: scored.at,
            threshold: verdict.threshold,
            p_value: p_value(scored.reference(), scored.score),
            confirmed: None,
            worst_at,
            metrics: named(scored, back),
        };
        Open {
            alarm,
            worst,
            quiet: 0,
        }
    }
}

impl Open {
    /// Another window in alarm; whether it changes what there is to tell.
    fn goes_on(&mut self, scored: &Scored<'_>, verdict: Verdict) -> bool {
        let alarm = &mut self.alarm;
        let came_back = alarm.state != Standing::Standing;
        (alarm.state, self.quiet) = (Standing::Standing, 0);
        alarm.to = scored.at + scored.step();
        if scored.score >= alarm.peak {
            (alarm.peak, alarm.peak_at) = (scored.score, scored.at);
            alarm.threshold = verdict.threshold;
            alarm.p_value = p_value(scored.reference(), scored.score);
        }
        let worse = scored.instant > self.worst;
        if worse {
            (self.worst, alarm.worst_at) = (scored.instant, scored.at);
            alarm.metrics = named(scored, 0);
        }
        worse || came_back
    }
}

/// Windows of quiet after which an alarm is over.
fn one_event(step: i64) -> usize {
    (ONE_EVENT / step.max(1)).max(1) as usize
}

fn named(scored: &Scored<'_>, back: usize) -> Vec<Contribution> {
    let mut metrics = scored.explain(back);
    metrics.truncate(NAMED);
    metrics
}
