//! What is unusual in telemetry, how sure we are, and which metrics say so.
//!
//! A [`NodeModel`] is fitted to a node's training windows by a [`Recipe`] and scores windows.
#![forbid(unsafe_code)]

mod backtest;
mod budget;
mod calibrate;
pub mod detector;
mod eigen;
mod episodes;
mod error;
pub mod evaluate;
mod evidence;
pub mod features;
pub mod federated;
mod habits;
mod learn;
mod model;
mod moments;
mod monitor;
mod parallel;
mod recipe;
pub mod report;
mod rolling;
mod rows;
mod scorer;
mod smooth;
mod split;
mod store;

pub use backtest::{Backtest, NodeResult, Outcome};
pub use budget::AlarmBudget;
pub use calibrate::{Adaptive, Calibrator, Policy, Verdict, p_value};
pub use episodes::{Alarm, Change, Episodes, Standing};
pub use error::{Error, Result};
pub use evidence::{Evidence, peers};
pub use learn::{Alone, History, Learner};
pub use model::{NodeModel, Scores};
pub use moments::Moments;
pub use monitor::Monitor;
pub use recipe::{Member, Recipe};
pub use rows::Rows;
pub use scorer::{Contribution, Scored, Scorer};
pub use split::{Split, SplitKind};
