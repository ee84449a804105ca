//! What can go wrong between a source and a window.

use std::path::PathBuf;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error(transparent)]
    Data(#[from] synod_data::Error),
    /// What was read makes no frame.
    #[error(transparent)]
    Core(#[from] synod_core::Error),
    /// The contents of a source are not what its kind allows.
    #[error("{}: {problem}; {advice}", path.display())]
    Source {
        /// The file or address.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// A setting or an argument makes no sense; the message says which and what would.
    #[error("{0}")]
    Setting(String),
}

/// This crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;
