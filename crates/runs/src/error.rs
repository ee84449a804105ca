//! What can go wrong with runs.

use std::io;
use std::path::{Path, PathBuf};

/// The result of what runs do.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with a configuration, a run's folder, or trials.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read, or the folder cannot be written.
    #[error("cannot {doing} {path}: {why}", path = path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        why: io::Error,
    },
    /// A mistake in a configuration, shown with its line.
    #[error("{0}")]
    Mistake(String),
    /// The call asks for what the folder does not allow.
    #[error("{folder}: {problem}", folder = folder.display())]
    Refused {
        /// The run's folder.
        folder: PathBuf,
        /// Why, and what to do about it.
        problem: String,
    },
    /// A file of the run cannot be understood.
    #[error("{path} {problem}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do about it.
        problem: String,
    },
}

impl Error {
    /// Whether whoever called is at fault, rather than the machine or a file of the run.
    pub fn is_misuse(&self) -> bool {
        matches!(self, Error::Mistake(_) | Error::Refused { .. })
    }

    pub(crate) fn io<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
        move |why| Error::Io {
            doing,
            path: path.to_owned(),
            why,
        }
    }
}
