//! Where telemetry comes from.
//!
//! [`Table`] loads one file per node whose rows are windows already.

mod table;
mod table_columns;
mod table_rows;

use std::path::Path;

pub use table::{Loaded, Table};

use crate::error::Error;

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
