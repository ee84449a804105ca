//! Where telemetry comes from.
//!
//! [`Table`] loads one file per node whose rows are windows already, [`records`] writes such files. Everything else gives single [`Sample`]s to a function,
//! usually [`Nodes::take`](crate::windows::Nodes::take), which makes windows of them.

pub mod exposition;
mod http;
pub mod ipmi;
pub mod ldms;
pub mod m100;
mod m100_columns;
mod m100_states;
pub mod prometheus;
pub mod records;
mod table;
mod table_columns;
mod table_rows;

use std::path::Path;

pub use table::{Loaded, Table};

use crate::{error::Error, metric::MetricKind};

/// One value of one metric of one node.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The node.
    pub node: &'a str,
    /// The metric's canonical name.
    pub metric: &'a str,
    /// Gauge or counter.
    pub kind: MetricKind,
    /// Milliseconds since 1970.
    pub time: i64,
    /// The value; NaN if there was none to read.
    pub value: f64,
}

/// Where samples go.
pub type Sink<'a> = dyn FnMut(Sample<'_>) -> crate::Result<()> + 'a;

fn source(path: &Path, problem: impl Into<String>, advice: &'static str) -> Error {
    Error::Source {
        path: path.to_path_buf(),
        problem: problem.into(),
        advice,
    }
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| synod_data::Error::Io { doing, path, source }.into()
}
