//! What can go wrong while building, training or storing a model.

use std::path::PathBuf;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine refused something; its message names the op and the source line.
    #[error(transparent)]
    Engine(#[from] synod_engine::Error),
    /// The data do not fit the model.
    #[error("{0}")]
    Data(String),
    /// The feed could not give its next batch.
    #[error(transparent)]
    Feed(Box<dyn std::error::Error + Send + Sync>),
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// Training left the finite numbers.
    #[error("training stopped at step {step} (epoch {epoch}): {what} is not finite; {advice}")]
    NotFinite {
        /// The optimiser step, counted from 1 over all epochs.
        step: u64,
        /// The epoch, counted from 1.
        epoch: usize,
        /// The parameter, or the input or loss, that went wrong first.
        what: String,
        /// What to do about it, and which checkpoint is still good.
        advice: String,
    },
    /// A file could not be written.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        problem: String,
    },
}

/// This crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;
