//! What can go wrong between windows and alarms.

use std::path::PathBuf;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A node's data cannot be learnt from; the message says why and what to do.
    #[error("node {node}: {problem}")]
    Node {
        /// The node.
        node: String,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// A setting makes no sense; the message says which and what would.
    #[error("{0}")]
    Setting(String),
    /// A network could not be trained or run.
    #[error(transparent)]
    Network(#[from] synod_nn::Error),
    /// A history, or a way of learning, that is not of this crate failed.
    #[error(transparent)]
    Outside(Box<dyn std::error::Error + Send + Sync>),
    /// A source of windows failed.
    #[error(transparent)]
    Telemetry(#[from] synod_telemetry::Error),
    /// A stored detector cannot be used.
    #[error("{}: {problem}", path.display())]
    Stored {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// The system refused an operation on a file.
    #[error("{}: cannot {doing}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// This crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;
