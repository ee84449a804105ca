//! What alarms are worth: honest figures for scores and alarms, and detectors against a site's own history.
//!
//! All figures are pure functions of per-window scores, alarms and labels in time order, evenly spaced. Windows whose
//! truth is [`Unknown`](synod_core::Truth::Unknown) are left out of every count. A score that is NaN ranks below all
//! others. What cannot be computed (recall without an anomaly, say) is `None`, which is `null` in JSON; it is never zero.
//!
//! ```
//! use synod_evaluate::{Scored, Settings, evaluate};
//! use synod_core::Truth::{Anomalous, Healthy};
//! let scored = Scored {
//!     scores: &[0.1, 0.2, 0.9, 0.8],
//!     alarms: &[false, false, true, false],
//!     truth: &[Healthy, Healthy, Anomalous, Anomalous],
//!     step: 900,
//! };
//! let found = evaluate(&scored, &Settings::default())?;
//! assert_eq!(found.metrics.auroc, Some(1.0));
//! assert_eq!(found.metrics.recall, Some(0.5));
//! # Ok::<(), synod_evaluate::Error>(())
//! ```
#![forbid(unsafe_code)]

mod backtest;
mod bootstrap;
mod chance;
mod curve;
mod difference;
mod error;
mod evaluation;
mod events;
mod evidence;
mod mean;
mod metrics;
mod point;
mod recent;
mod split;
mod vus;
#[cfg(test)]
mod windows;

pub use backtest::{Backtest, NodeResult, Outcome};
pub use bootstrap::{Bootstrap, Interval, Intervals, intervals_over_nodes, intervals_over_windows};
pub use chance::beyond_chance;
pub use curve::{Curve, curve};
pub use difference::{difference, mean_difference};
pub use error::{Error, Result};
pub use evaluation::{Evaluation, Scored, Settings, evaluate};
pub use events::{Event, EventKind, Events, events, true_segments};
pub use evidence::{Evidence, peers};
pub use mean::{Mean, mean};
pub use metrics::Metrics;
pub use point::{Confusion, confusion};
pub use recent::Recent;
pub use split::{Split, SplitKind};
pub use vus::vus_pr;
