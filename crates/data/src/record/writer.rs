//! Making record files and adding to them.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use synod_core::files::Whole;
use synod_kernels::Map;

use super::{
    header,
    index::{self, Entry},
    page::{Parts, Pending},
    reader::Contents,
    recover::{Reason, Recovered},
    schema::{Label, Schema},
};
use crate::error::{Error, Place, Result, io_error};

/// Appends rows to a record file. Only one writer may have a file open at a time; a second is refused where the file
/// system can lock files.
///
/// Rows are kept in memory until a page is full. [`Writer::flush`] makes the rows so far durable; [`Writer::finish`] does
/// so and adds the index. A writer that is dropped finishes too, but cannot say whether that worked.
pub struct Writer {
    path: PathBuf,
    output: Output,
    schema: Schema,
    entries: Vec<Entry>,
    /// Where the next page begins.
    end: u64,
    rows: u64,
    pending: Pending,
    scratch: Vec<u8>,
    recovered: Option<Recovered>,
    finished: bool,
}

impl Writer {
    /// Makes an empty file, in place of an old one of that name if there is one.
    pub fn create(path: impl AsRef<Path>, schema: &Schema) -> Result<Writer> {
        let path = path.as_ref();
        let (mut whole, end) = Writer::begin(path, schema)?;
        // The header is complete before the file has its name, so no crash leaves a file without one.
        whole
            .name()
            .map_err(io_error("write the record file's header", path))?;
        Ok(Writer::over(path, Output::New(whole), schema.clone(), end))
    }

    /// Makes a file that gets its name when [`Writer::finish`] has synced it, once: for many files that are written from
    /// front to back. A writer that is dropped before leaves nothing, and an old file of that name as it was.
    pub fn create_whole(path: impl AsRef<Path>, schema: &Schema) -> Result<Writer> {
        let path = path.as_ref();
        let (whole, end) = Writer::begin(path, schema)?;
        Ok(Writer::over(path, Output::New(whole), schema.clone(), end))
    }

    /// A file without its name, with a header that is not yet synced, and where the first page goes. It is locked.
    fn begin(path: &Path, schema: &Schema) -> Result<(Whole, u64)> {
        let header = header::encode(schema)?;
        if Parts::of(schema, schema.rows_per_page as usize).is_none() {
            return Err(Error::Setting(format!(
                "pages of {} rows are too large",
                schema.rows_per_page
            )));
        }
        let mut whole = Whole::create(path).map_err(io_error("create the record file", path))?;
        whole
            .write_all(&header)
            .map_err(io_error("write the record file's header", path))?;
        Ok((whole, header.len() as u64))
    }

    /// Opens a file to add rows. Cuts off what an interrupted writer left torn, which [`Writer::recovered`] then tells.
    ///
    /// Refuses a file with whole pages behind a damaged one, since cutting would lose them; see
    /// [`Writer::append_dropping_damage`].
    pub fn append(path: impl AsRef<Path>) -> Result<Writer> {
        Writer::reopen(path.as_ref(), false)
    }

    /// Like [`Writer::append`], but gives up everything behind the first damaged page head.
    pub fn append_dropping_damage(path: impl AsRef<Path>) -> Result<Writer> {
        Writer::reopen(path.as_ref(), true)
    }

    fn reopen(path: &Path, drop_damage: bool) -> Result<Writer> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(io_error("open the record file for appending", path))?;
        lock(&file, path)?;
        let map = Map::open(&file).map_err(io_error("map the record file", path))?;
        let contents = Contents::of(path, map.bytes())?;
        drop(map);
        if let Some(Recovered { reason, .. }) = &contents.recovered {
            refuse_damage(path, reason, drop_damage)?;
        }
        let end = contents.pages_end as u64;
        file.set_len(end)
            .and_then(|()| file.sync_all())
            .map_err(io_error("cut the index off the record file", path))?;
        let mut writer = Writer::over(path, Output::Old(file), contents.schema, end);
        writer.rows = contents
            .entries
            .last()
            .map_or(0, |e| (e.first_row + e.rows) as u64);
        writer.entries = contents.entries;
        writer.recovered = contents.recovered;
        Ok(writer)
    }

    fn over(path: &Path, output: Output, schema: Schema, end: u64) -> Writer {
        Writer {
            path: path.to_path_buf(),
            output,
            schema,
            entries: Vec::new(),
            end,
            rows: 0,
            pending: Pending::default(),
            scratch: Vec::new(),
            recovered: None,
            finished: false,
        }
    }

    /// What an earlier, interrupted writer lost; none if the file was whole.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }

    /// What the file holds.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Rows in the file, those in memory included.
    pub fn rows(&self) -> u64 {
        self.rows + self.pending.times.len() as u64
    }

    /// Adds a row to a file without labels. After an error the row is not in the file and may be pushed again.
    pub fn push(&mut self, time: i64, row: &[f32]) -> Result<()> {
        self.add(time, None, row)
    }

    /// Adds a row to a file with labels. After an error the row is not in the file and may be pushed again.
    pub fn push_labelled(&mut self, time: i64, label: Label, row: &[f32]) -> Result<()> {
        self.add(time, Some(label), row)
    }

    fn add(&mut self, time: i64, label: Option<Label>, row: &[f32]) -> Result<()> {
        let columns = self.schema.columns.len();
        let kind = label.map_or(super::LabelKind::None, Label::kind);
        if row.len() != columns || kind != self.schema.label {
            return Err(Error::Setting(format!(
                "{}: a row of {} values with label {kind:?}, but the file has {columns} columns and label {:?}",
                self.path.display(),
                row.len(),
                self.schema.label
            )));
        }
        // A full page is written before the row is taken, so that a failed push may simply be repeated.
        if self.pending.times.len() == self.schema.rows_per_page as usize {
            self.write_page()?;
        }
        self.pending.times.push(time);
        self.pending.labels.extend(label);
        self.pending.values.extend_from_slice(row);
        Ok(())
    }

    /// Makes all rows so far durable. Ends the page early, so call it every few seconds rather than for every row.
    pub fn flush(&mut self) -> Result<()> {
        self.write_page()?;
        self.output
            .file()
            .sync_data()
            .map_err(io_error("sync the record file", &self.path))
    }

    /// Makes all rows durable and adds the index.
    pub fn finish(mut self) -> Result<()> {
        self.close()
    }

    fn close(&mut self) -> Result<()> {
        if self.finished {
            return Ok(());
        }
        self.write_page()?;
        self.finished = true;
        let index = index::encode(&self.entries, self.end);
        self.write_at_end(&index)?;
        let closed = match &mut self.output {
            Output::New(whole) => whole.name(),
            Output::Old(file) => file.sync_all(),
        };
        closed.map_err(io_error("sync and name the record file", &self.path))
    }

    fn write_page(&mut self) -> Result<()> {
        let rows = self.pending.times.len();
        if rows == 0 {
            return Ok(());
        }
        let number = u32::try_from(self.entries.len()).ok();
        let (Some(number), Some(parts)) = (number, Parts::of(&self.schema, rows)) else {
            let path = self.path.display();
            return Err(Error::Setting(format!("{path}: the file is full; start another")));
        };
        let mut page = std::mem::take(&mut self.scratch);
        let head = self
            .pending
            .encode(&self.schema, parts, number, self.rows, &mut page);
        let written = self.write_at_end(&page);
        self.scratch = page;
        written?;
        self.entries.push(Entry::new(self.end as usize, &head));
        self.end += parts.end as u64;
        self.rows += rows as u64;
        self.pending.clear();
        Ok(())
    }

    fn write_at_end(&mut self, bytes: &[u8]) -> Result<()> {
        let mut file = self.output.file();
        let written = file
            .seek(SeekFrom::Start(self.end))
            .and_then(|_| file.write_all(bytes));
        written.map_err(|e| {
            // Half a page at the end is legal, but a full disk should not keep it.
            let _ = self.output.file().set_len(self.end);
            io_error("append to the record file", &self.path)(e)
        })
    }
}

/// A file that this writer made, which may not have its name yet, or one that was there.
enum Output {
    New(Whole),
    Old(File),
}

impl Output {
    fn file(&self) -> &File {
        match self {
            Output::New(whole) => whole.file(),
            Output::Old(file) => file,
        }
    }

    fn is_named(&self) -> bool {
        match self {
            Output::New(whole) => whole.is_named(),
            Output::Old(_) => true,
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.output.is_named() {
            let _ = self.close();
        }
    }
}

fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(fs::TryLockError::WouldBlock) => Err(Error::Setting(format!(
            "{}: another writer has the file open; wait for it or write to another file",
            path.display()
        ))),
        Err(fs::TryLockError::Error(e)) if cannot_lock(&e) => Ok(()),
        Err(fs::TryLockError::Error(e)) => Err(io_error("lock the record file", path)(e)),
    }
}

/// Whether a file system has no locks at all, as is common for parallel ones.
fn cannot_lock(e: &std::io::Error) -> bool {
    // Linux: no locks available, not implemented, not supported.
    const NO_LOCKS: [i32; 3] = [37, 38, 95];
    e.kind() == std::io::ErrorKind::Unsupported
        || e.raw_os_error().is_some_and(|code| NO_LOCKS.contains(&code))
}

fn refuse_damage(path: &Path, reason: &Reason, drop_damage: bool) -> Result<()> {
    match reason {
        Reason::Damaged {
            offset,
            pages_behind: true,
            problem,
            ..
        } if !drop_damage => Err(Error::Malformed {
            path: path.to_path_buf(),
            at: Place::Byte(*offset),
            problem: format!("{problem}, with whole pages behind it"),
            advice: "restore the file, or give those pages up with Writer::append_dropping_damage",
        }),
        _ => Ok(()),
    }
}
