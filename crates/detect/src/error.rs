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
    /// A window does not follow the last one.
    #[error("the window at {at} does not follow the one at {last} s; give windows in order of time")]
    Order {
        /// Its start, in seconds since 1970.
        at: i64,
        /// The start of the last one.
        last: i64,
    },
    /// A row has not one value per metric.
    #[error("a row of {given} values for {wanted} metrics; say which metrics rows hold before they come")]
    Width {
        /// Its values.
        given: usize,
        /// The metrics.
        wanted: usize,
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
    /// Windows, names or digests that are none.
    #[error(transparent)]
    Core(#[from] synod_core::Error),
    /// A stored state of a node under watch cannot be taken up again.
    #[error("the stored state {0}; begin anew without it")]
    State(String),
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

impl Error {
    /// A failure of a history, or of a way of learning, that is not of this crate.
    pub fn outside(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Outside(Box::new(error))
    }
}
