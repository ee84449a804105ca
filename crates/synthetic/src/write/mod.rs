//! The synthetic cluster as files.

mod frames;
mod raw;
mod truth;

use std::io;
use std::path::{Path, PathBuf};

use synod_core::Truth;
use synod_core::files::Whole;
use synod_telemetry::{Error, Result};

use super::cluster::Cluster;

pub use raw::{month_count, write_raw};
pub use truth::write_faults;

/// Days in memory at a time.
const PART: usize = 30;

/// How one node's windows are written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// As in the M100 aggregated data: `<node>.parquet` with `timestamp`, `<metric>_avg`, `_std`, `_min`, `_max` and the
    /// label as `value` (above zero is anomalous, null is unknown).
    Parquet,
    /// A record file `<node>.record`, which [`records::load`](synod_telemetry::sources::records::load) reads.
    Record,
}

/// What was written of one node.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Windows, without those that monitoring lost.
    pub windows: usize,
    /// Windows labelled anomalous.
    pub anomalous: usize,
    /// Windows without a label.
    pub unknown: usize,
    /// Columns, without time and label.
    pub columns: usize,
}

/// Writes one node into a folder, a month at a time, and gives the file and what is in it.
pub fn write_node(
    cluster: &Cluster,
    node: usize,
    folder: &Path,
    layout: FileFormat,
) -> Result<(PathBuf, Written)> {
    let extension = match layout {
        FileFormat::Parquet => "parquet",
        FileFormat::Record => "record",
    };
    let path = folder.join(format!("{}.{extension}", cluster.name(node)));
    let parts = cluster.parts(node, PART)?;
    let written = match layout {
        FileFormat::Parquet => frames::parquet(parts, &path)?,
        FileFormat::Record => frames::record(parts, &cluster.name(node), &path)?,
    };
    Ok((path, written))
}

impl Written {
    fn add(&mut self, truth: &[Truth]) {
        let count = |what| truth.iter().filter(|t| **t == what).count();
        self.windows += truth.len();
        self.anomalous += count(Truth::Anomalous);
        self.unknown += count(Truth::Unknown);
    }
}

/// Writes a file that is whole or absent.
fn whole<T>(path: &Path, write: impl FnOnce(&mut Whole) -> Result<T>) -> Result<T> {
    let mut file = Whole::create(path).map_err(io_error("create the file", path))?;
    let value = write(&mut file)?;
    name(file, path)?;
    Ok(value)
}

fn name(file: Whole, path: &Path) -> Result<()> {
    let named = file.commit();
    named.map_err(io_error("move the finished file into place", path))
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| synod_data::Error::Io { doing, path, source }.into()
}

fn parquet_error(path: &Path) -> impl Fn(parquet::errors::ParquetError) -> Error {
    let path = path.to_path_buf();
    move |e| Error::Source {
        path: path.clone(),
        problem: format!("the Parquet file could not be written: {e}"),
        advice: "see that the disk is not full and the folder writable, then generate again",
    }
}
