//! What every run shares, whatever it does: the file that describes it, the folder that it leaves, and trials of many.
//!
//! A [`Document`] is a configuration whose sections belong to the crates whose words they hold ([`synod_core::config`]).
//! A [`Folder`] is held by one process at a time, goes on after a crash, and is never lost by accident. A [`Grid`] is a
//! document with lists of settings: every combination is a [`Trial`], in a folder of its own.
#![forbid(unsafe_code)]

mod config;
mod error;
mod folder;
mod trials;

pub use config::{Document, RunKind};
pub use error::{Error, Result};
pub use folder::{
    CLIENTS, COMPONENTS, Folder, Log, ModelEntry, Models, NodeModels, RunStanding, StartMode, metrics_digest,
};
pub use trials::{Grid, Trial, TrialSettings, plain, settings_json, table};
