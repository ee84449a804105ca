//! Parquet files: all columns of numbers, truth values and times, one row group after the other.

mod convert;
mod pages;

use std::{
    fs::File,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use parquet::{
    column::reader::ColumnReader,
    file::reader::{FileReader, SerializedFileReader},
};
use synod_kernels::Map;

use self::convert::{Kind, Scratch};
use super::{
    Batch, ReadOptions, RowReader, Skipped, malformed,
    selection::{Role, Selection, unique},
};
use crate::error::{Error, Place, Result, io_error, panic_message};

/// Rows decoded at a time, whatever the caller's limit.
const STEP: usize = 16 << 10;
const ADVICE: &str = "the file is damaged or uses a feature that is not supported; write it again";

/// A Parquet file as rows. Nulls are NaN. Timestamps are nanoseconds as time and seconds as values; strings, bytes and
/// lists are skipped.
///
/// Memory stays at one decoded page per column. The file is mapped, so nobody may truncate it meanwhile; see
/// [`synod_kernels::Map`]. The `parquet` crate may panic on hostile input; this reader catches that
/// and returns an error, though the process's panic hook still sees the message.
pub struct Parquet {
    path: PathBuf,
    bytes: Bytes,
    file: SerializedFileReader<Bytes>,
    selection: Selection,
    kinds: Vec<Kind>,
    /// The definition level of a value that is not null, per column.
    levels: Vec<i16>,
    prune: Vec<(usize, f64, f64)>,
    next_group: usize,
    groups_skipped: usize,
    open: Option<Group>,
    scratch: Scratch,
}

/// The row group that is being read.
struct Group {
    number: usize,
    rows_left: u64,
    columns: Vec<(usize, ColumnReader)>,
}

impl Parquet {
    /// Opens a file and reads its metadata.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Parquet> {
        let path = path.as_ref();
        let file = File::open(path).map_err(io_error("open the file", path))?;
        let map = Map::open(&file).map_err(io_error("map the file", path))?;
        let bytes = Bytes::from_owner(map);
        let file = guard(path, &Place::Whole, || SerializedFileReader::new(bytes.clone()))?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let names = unique(
            schema
                .columns()
                .iter()
                .map(|c| c.path().parts().join("."))
                .collect(),
        );
        let kinds: Vec<Result<Kind, String>> = schema.columns().iter().map(|c| Kind::of(c)).collect();
        let problems: Vec<Option<String>> = kinds.iter().map(|k| k.as_ref().err().cloned()).collect();
        Ok(Parquet {
            path: path.to_path_buf(),
            selection: Selection::resolve(path, &names, &problems, options)?,
            kinds: kinds.into_iter().map(|k| k.unwrap_or(Kind::Bool)).collect(),
            levels: schema.columns().iter().map(|c| c.max_def_level()).collect(),
            bytes,
            file,
            prune: Vec::new(),
            next_group: 0,
            groups_skipped: 0,
            open: None,
            scratch: Scratch::default(),
        })
    }

    /// Leaves out row groups whose statistics rule out that the column has a value between `low` and `high`. Rows of the
    /// other groups come as they are.
    pub fn prune(mut self, column: &str, low: f64, high: f64) -> Result<Parquet> {
        let schema = self.file.metadata().file_metadata().schema_descr_ptr();
        let index = schema
            .columns()
            .iter()
            .position(|c| c.path().parts().join(".") == column);
        let index = index.ok_or_else(|| {
            let problem = format!("there is no column {column:?}");
            malformed(&self.path, Place::Whole, problem, "check its spelling")
        })?;
        self.prune.push((index, low, high));
        Ok(self)
    }

    /// Rows in the file according to its metadata.
    pub fn rows(&self) -> u64 {
        self.file.metadata().file_metadata().num_rows().max(0) as u64
    }

    /// Row groups left out so far because of [`Parquet::prune`].
    pub fn groups_skipped(&self) -> usize {
        self.groups_skipped
    }

    fn ruled_out(&self, group: usize) -> bool {
        let columns = self.file.metadata().row_group(group).columns();
        self.prune.iter().any(|&(index, low, high)| {
            let statistics = columns.get(index).and_then(|c| c.statistics());
            let range = statistics.and_then(|s| self.kinds[index].range(s));
            range.is_some_and(|(min, max)| max < low || min > high)
        })
    }

    /// Opens the next row group that is not ruled out; false if there is none.
    fn advance(&mut self) -> Result<bool> {
        while self.next_group < self.file.metadata().num_row_groups() {
            let number = self.next_group;
            self.next_group += 1;
            if self.ruled_out(number) {
                self.groups_skipped += 1;
                continue;
            }
            self.open = Some(self.group(number)?);
            return Ok(true);
        }
        Ok(false)
    }

    fn group(&self, number: usize) -> Result<Group> {
        let metadata = self.file.metadata().row_group(number);
        let mut columns = Vec::new();
        for (index, role) in self.selection.roles.iter().enumerate() {
            if *role == Role::Unused {
                continue;
            }
            let at = self.place(number, index);
            let chunk = metadata.columns().get(index);
            let chunk =
                chunk.ok_or_else(|| malformed(&self.path, at.clone(), "the column is missing", ADVICE))?;
            pages::check(&self.bytes, chunk)
                .map_err(|problem| malformed(&self.path, at.clone(), problem, ADVICE))?;
            let reader = guard(&self.path, &at, || {
                self.file.get_row_group(number)?.get_column_reader(index)
            })?;
            columns.push((index, reader));
        }
        Ok(Group {
            number,
            rows_left: metadata.num_rows().max(0) as u64,
            columns,
        })
    }

    fn place(&self, group: usize, index: usize) -> Place {
        let schema = self.file.metadata().file_metadata().schema_descr_ptr();
        Place::RowGroup {
            group,
            column: schema
                .columns()
                .get(index)
                .map(|c| c.path().parts().join("."))
                .unwrap_or_default(),
        }
    }

    /// Decodes up to `limit` rows of the open group behind those in the batch, and returns how many.
    fn step(&mut self, group: &mut Group, limit: usize, batch: &mut Batch) -> Result<usize> {
        let rows = usize::try_from(group.rows_left)
            .unwrap_or(usize::MAX)
            .min(limit)
            .min(STEP);
        let width = self.selection.names.len();
        let start = batch.values.len();
        let mut grown = false;
        for (index, reader) in &mut group.columns {
            let at = self.place(group.number, *index);
            let (scratch, full) = (&mut self.scratch, self.levels[*index]);
            let read = guard(&self.path, &at, || scratch.read(reader, rows, full))?;
            if read != rows {
                let problem = format!("{read} rows where the metadata promise {rows}");
                return Err(malformed(&self.path, at, problem, ADVICE));
            }
            // Only after a column delivered its rows are they known to exist, and memory taken for all columns.
            if !grown {
                batch.values.resize(start + rows * width, f32::NAN);
                grown = true;
            }
            let kind = self.kinds[*index];
            match self.selection.roles[*index] {
                Role::Value(slot) => {
                    let to = batch.values[start..].iter_mut().skip(slot).step_by(width.max(1));
                    to.zip(scratch.numbers(kind))
                        .for_each(|(to, value)| *to = value as f32);
                }
                Role::Label => batch.labels.extend(scratch.numbers(kind).map(|v| v as f32)),
                Role::Time => batch.times.extend(scratch.times(kind, &self.selection)),
                Role::Unused => {}
            }
        }
        group.rows_left -= rows as u64;
        Ok(rows)
    }
}

impl RowReader for Parquet {
    fn names(&self) -> &[String] {
        &self.selection.names
    }

    fn skipped(&self) -> &[Skipped] {
        &self.selection.skipped
    }

    fn read(&mut self, limit: usize, batch: &mut Batch) -> Result<usize> {
        batch.reset(self.selection.names.len());
        if self.selection.roles.iter().all(|role| *role == Role::Unused) {
            return Ok(0);
        }
        let mut rows = 0;
        while rows < limit {
            match self.open.take() {
                Some(mut group) if group.rows_left > 0 => {
                    rows += self.step(&mut group, limit - rows, batch)?;
                    self.open = Some(group);
                }
                _ => {
                    if !self.advance()? {
                        break;
                    }
                }
            }
        }
        batch.set_rows(rows);
        Ok(rows)
    }
}

/// Calls into the `parquet` crate, and makes an error of its errors and its panics alike.
fn guard<T>(path: &Path, at: &Place, f: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T> {
    let problem = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(e)) => e.to_string(),
        Err(panic) => format!("the decoder gave up: {}", panic_message(&*panic)),
    };
    Err(Error::Malformed {
        path: path.to_path_buf(),
        at: at.clone(),
        problem,
        advice: ADVICE,
    })
}
