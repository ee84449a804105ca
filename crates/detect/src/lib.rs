//! What is unusual in telemetry, how sure we are, and which metrics say so.
//!
//! A [`NodeModel`] is fitted to a node's training windows by a [`Recipe`] and scores windows.
#![forbid(unsafe_code)]

mod backtest;
mod budget;
mod calibrate;
pub mod detector;
mod eigen;
mod error;
pub mod evaluate;
mod evidence;
pub mod features;
mod habits;
pub mod learning;
mod model;
mod moments;
mod parallel;
mod recent;
mod recipe;
mod rolling;
mod rows;
mod smooth;
mod split;
mod store;

pub use backtest::{Alarm, Backtest, NodeResult, Outcome, alarms};
pub use budget::AlarmBudget;
pub use calibrate::{Adaptive, Calibrator, ONE_EVENT, Verdict, p_value};
pub use error::{Error, Result};
pub use evidence::{Evidence, peers};
pub use learning::{Alone, History, Keep, Learner};
pub use model::{Contribution, NodeModel, Scores};
pub use moments::Moments;
pub use parallel::in_order;
pub use recent::Recent;
pub use recipe::{Member, Recipe};
pub use rows::Rows;
pub use smooth::quantile;
pub use split::{Split, SplitKind};
