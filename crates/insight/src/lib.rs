//! What people look at: the report page of a run.
#![forbid(unsafe_code)]

pub mod report;
