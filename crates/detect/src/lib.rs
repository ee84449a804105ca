//! What is unusual in telemetry, how sure we are, and which metrics are behind it.
//!
//! A [`NodeModel`] is fitted to a node's training windows by a [`Recipe`] and scores windows.
#![forbid(unsafe_code)]

mod budget;
mod calibrate;
pub mod config;
pub mod detector;
mod eigen;
mod episodes;
mod error;
pub mod features;
mod habits;
pub mod learning;
mod model;
mod moments;
mod monitor;
mod recipe;
mod rolling;
mod rows;
mod scorer;
mod smooth;
mod store;

pub use budget::AlarmBudget;
pub use calibrate::{Adaptive, Calibrator, ONE_EVENT, Policy, Verdict, p_value};
pub use episodes::{Alarm, Change, Episodes, Standing};
pub use error::{Error, Result};
pub use learning::{Alone, History, Keep, Learner};
pub use model::{NodeModel, Scores};
pub use moments::Moments;
pub use monitor::{Judged, Monitor};
pub use recipe::{Member, Recipe};
pub use rows::Rows;
pub use scorer::{Contribution, Scored, Scorer};
pub use smooth::quantile;
