//! What can go wrong while data are read, written or fed.

use std::{fmt, io, path::PathBuf};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("{}: cannot {doing}", path.display())]
    Io {
        /// What was being done, as in "cannot {doing}".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file's contents are not what its format allows.
    #[error("{}: {at}{problem}; {advice}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        at: Place,
        /// What is wrong there.
        problem: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// One page of a record file is damaged; the other pages can still be read.
    #[error(
        "{}: page {page} at byte {offset} is damaged: {problem}; the other pages are readable, restore the file from its source",
        path.display()
    )]
    Page {
        /// The file.
        path: PathBuf,
        /// The page, counted from 0.
        page: usize,
        /// Where the page begins.
        offset: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A row or page was asked for that does not exist.
    #[error("{}: there is no {what} {index}, the file has {len}", path.display())]
    OutOfRange {
        /// The file.
        path: PathBuf,
        /// "row" or "page".
        what: &'static str,
        /// What was asked for.
        index: usize,
        /// How many there are.
        len: usize,
    },
    /// A setting or an argument makes no sense; the message says which and what would.
    #[error("{0}")]
    Setting(String),
    /// A function of the pipeline panicked.
    #[error("the pipeline's {stage} panicked on batch {batch} of epoch {epoch}: {message}")]
    Panicked {
        /// The stage.
        stage: &'static str,
        /// The epoch, counted from 0.
        epoch: u64,
        /// The batch, counted from 0.
        batch: u64,
        /// What the panic said.
        message: String,
    },
    /// A function of the pipeline returned an error.
    #[error("the pipeline's map stage failed on row {row} of the data: {message}")]
    Map {
        /// The row's index in the source.
        row: u64,
        /// What the function said.
        message: String,
    },
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An offset from the start of the file.
    Byte(u64),
    /// A line of text and a field in it, both counted from 1.
    Field {
        /// The line.
        line: u64,
        /// The field.
        column: usize,
    },
    /// A column of a row group, the group counted from 0.
    RowGroup {
        /// The row group.
        group: usize,
        /// The column's name.
        column: String,
    },
    /// No particular place.
    Whole,
}

/// The place and a colon, or nothing.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Byte(offset) => write!(f, "byte {offset}: "),
            Place::Field { line, column } => write!(f, "line {line}, column {column}: "),
            Place::RowGroup { group, column } => write!(f, "row group {group}, column {column:?}: "),
            Place::Whole => Ok(()),
        }
    }
}

/// This crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Names the file and the deed in an error of the system.
pub(crate) fn io_error(doing: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { doing, path, source }
}

/// What a caught panic said.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .map(str::to_owned)
        .or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
