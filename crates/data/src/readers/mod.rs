//! Streaming readers of the formats data come in: idx, npy, CSV and Parquet, the first and the third also as `.gz`.
//!
//! All of them give batches of rows of `f32`, with one column set aside as exact time and one as label if asked to.
//! What comes from a file is untrusted: sizes are checked against the file's length before anything is allocated, and every
//! error names the file, the place in it and what to do.

mod batch;
mod csv;
mod fixed;
mod idx;
mod import;
mod input;
mod npy;
mod parquet;
mod selection;
mod texts;

use std::path::Path;

pub use batch::Batch;
pub use csv::Csv;
pub use idx::Idx;
pub use import::import;
pub use npy::Npy;
pub use parquet::Parquet;
pub use selection::{ReadOptions, Skipped};
pub use texts::{Speaker, speakers};

use crate::error::{Error, Place, Result};

/// A file that is read from front to back in batches of rows.
pub trait RowReader: Send {
    /// Names of the value columns, in the order of a row's values.
    fn names(&self) -> &[String];

    /// Columns that are left out because they hold no numbers.
    fn skipped(&self) -> &[Skipped] {
        &[]
    }

    /// The line of a last record that breaks off and was dropped, once the reader has come to it.
    fn torn(&self) -> Option<u64> {
        None
    }

    /// Replaces the batch by the next rows, at most `limit`, and returns how many there are; 0 at the end of the file.
    /// After an error the batch holds nothing of use.
    fn read(&mut self, limit: usize, batch: &mut Batch) -> Result<usize>;
}

/// Opens a file by what it contains: Parquet, npy and idx by their first bytes, anything else as CSV.
pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Box<dyn RowReader>> {
    let path = path.as_ref();
    let first = input::first_bytes(path)?;
    Ok(match first.as_slice() {
        [b'P', b'A', b'R', b'1', ..] => Box::new(Parquet::open(path, options)?),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Box::new(Npy::open(path, options)?),
        [0, 0, 0x08..=0x0e, 1..=8, ..] => Box::new(Idx::open(path, options)?),
        bytes if bytes.contains(&0) => {
            return Err(malformed(
                path,
                Place::Byte(0),
                "neither Parquet, npy, idx nor text",
                "convert it to one of these",
            ));
        }
        _ => Box::new(Csv::open(path, options)?),
    })
}

fn malformed(path: &Path, at: Place, problem: impl Into<String>, advice: &'static str) -> Error {
    Error::Malformed {
        path: path.to_path_buf(),
        at,
        problem: problem.into(),
        advice,
    }
}
