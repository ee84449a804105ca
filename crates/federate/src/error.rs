//! What can go wrong in a federation.

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Training on a client failed.
    #[error(transparent)]
    Model(#[from] synod_nn::Error),
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// The data cannot be divided or used as asked.
    #[error("{0}")]
    Data(String),
    /// A message from outside does not hold what it must.
    #[error("{0}")]
    Malformed(String),
    /// A file could not be read or written.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What went wrong.
        problem: String,
    },
    /// A client's training left the finite numbers.
    #[error("training on {client} left the finite numbers; lower the learning rate")]
    Diverged {
        /// Whose.
        client: crate::ClientId,
    },
    /// A round cannot be finished.
    #[error("{0}")]
    Round(String),
}

/// This crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn file(path: &std::path::Path, problem: impl std::fmt::Display) -> Error {
        Error::File {
            path: path.to_owned(),
            problem: problem.to_string(),
        }
    }
}
