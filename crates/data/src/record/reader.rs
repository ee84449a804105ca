//! Rows and pages of a record file, read in place.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU8, Ordering},
};

use synod_kernels::Map;

use super::{
    filter::Filter,
    header,
    header::checksum,
    index::{self, Entry},
    page::{self, Head, Labels, Page, Parts, Zone},
    recover::{Recovered, walk},
    scan::Scan,
    schema::{Label, LabelKind, Schema},
};
use crate::error::{Error, Place, Result, io_error};

const HEAD_VERIFIED: u8 = 1;
const BODY_VERIFIED: u8 = 2;

/// An open record file. Rows and pages are borrowed from the file's memory map; nothing is copied.
///
/// Each page's checksum is verified once, when the page is first touched. A reader sees the rows that were there when it
/// was opened; writers may go on appending. See [`Map`] for what happens if others truncate the file.
pub struct Reader {
    path: PathBuf,
    map: Map,
    schema: Schema,
    pages: Vec<Slot>,
    rows: usize,
    recovered: Option<Recovered>,
}

struct Slot {
    entry: Entry,
    parts: Parts,
    verified: AtomicU8,
}

/// The parts of a file that a reader and an appending writer both need.
pub(super) struct Contents {
    pub(super) schema: Schema,
    pub(super) entries: Vec<Entry>,
    pub(super) pages_end: usize,
    pub(super) recovered: Option<Recovered>,
}

impl Contents {
    pub(super) fn of(path: &Path, bytes: &[u8]) -> Result<Contents> {
        let (schema, begin) = header::decode(bytes).map_err(|(offset, problem)| Error::Malformed {
            path: path.to_path_buf(),
            at: Place::Byte(offset),
            problem,
            advice: "no row can be read from it, so write it anew from its source",
        })?;
        let (entries, pages_end, recovered) = match index::decode(bytes, &schema, begin) {
            Some((entries, end)) => (entries, end, None),
            None => {
                let (entries, end, recovered) = walk(bytes, &schema, begin);
                (entries, end, Some(recovered))
            }
        };
        Ok(Contents {
            schema,
            entries,
            pages_end,
            recovered,
        })
    }
}

impl Reader {
    /// Opens a file. If its writer was interrupted, the whole pages are there and [`Reader::recovered`] says what is not.
    pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
        let path = path.as_ref();
        let file = File::open(path).map_err(io_error("open the record file", path))?;
        let map = Map::open(&file).map_err(io_error("map the record file", path))?;
        Reader::over(path, map)
    }

    fn over(path: &Path, map: Map) -> Result<Reader> {
        let contents = Contents::of(path, map.bytes())?;
        let schema = contents.schema;
        let slot = |entry: Entry| {
            Some(Slot {
                parts: Parts::of(&schema, entry.rows)?,
                entry,
                verified: AtomicU8::new(0),
            })
        };
        // Sizes that overflow were refused when the pages were found.
        let pages: Vec<Slot> = contents.entries.into_iter().map_while(slot).collect();
        Ok(Reader {
            path: path.to_path_buf(),
            rows: pages.last().map_or(0, |p| p.entry.first_row + p.entry.rows),
            map,
            schema,
            pages,
            recovered: contents.recovered,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was lost because the writer did not finish; none if the file is whole.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }

    /// Names of the columns, type of the labels and the writer's own keys.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values per row.
    pub fn columns(&self) -> usize {
        self.schema.columns.len()
    }

    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Row `i`, in place.
    #[inline]
    pub fn row(&self, i: usize) -> Result<&[f32]> {
        let (number, within) = self.locate(i)?;
        let slot = &self.pages[number];
        if slot.verified.load(Ordering::Acquire) & BODY_VERIFIED == 0 {
            self.verify(number)?;
        }
        let columns = self.columns();
        let start = slot.entry.offset + slot.parts.values + within * columns * 4;
        self.map
            .floats(start, columns)
            .ok_or_else(|| self.damaged(number, "it leaves the file"))
    }

    /// The time of row `i`.
    pub fn time(&self, i: usize) -> Result<i64> {
        let (number, within) = self.locate(i)?;
        Ok(self.page(number)?.times[within])
    }

    /// The label of row `i`; none if the file has no labels.
    pub fn label(&self, i: usize) -> Result<Option<Label>> {
        let (number, within) = self.locate(i)?;
        Ok(self.page(number)?.labels.get(within))
    }

    /// Page `number`, in place.
    pub fn page(&self, number: usize) -> Result<Page<'_>> {
        let slot = self.slot(number)?;
        self.verify(number)?;
        let (at, rows) = (slot.entry.offset, slot.entry.rows);
        let labels = match self.schema.label {
            LabelKind::None => Some(Labels::None),
            LabelKind::Int => self.map.ints(at + slot.parts.labels, rows).map(Labels::Int),
            LabelKind::Real => self.map.floats(at + slot.parts.labels, rows).map(Labels::Real),
        };
        let times = self.map.longs(at + slot.parts.times, rows);
        let values = self.map.floats(at + slot.parts.values, rows * self.columns());
        match (times, labels, values) {
            (Some(times), Some(labels), Some(values)) => Ok(Page {
                first_row: slot.entry.first_row,
                times,
                labels,
                values,
                columns: self.columns(),
            }),
            _ => Err(self.damaged(number, "it leaves the file")),
        }
    }

    /// What the values of a column lie between in a page. Reads only the page's head.
    pub fn zone(&self, number: usize, column: usize) -> Result<Zone> {
        let slot = self.slot(number)?;
        self.verified_head(number)?;
        if column >= self.columns() {
            return Err(self.out_of_range("column", column, self.columns()));
        }
        page::zone(self.map.bytes(), slot.entry.offset, column)
            .ok_or_else(|| self.damaged(number, "it leaves the file"))
    }

    /// Least and greatest time in a page. Reads nothing but the index.
    pub fn times(&self, number: usize) -> Result<(i64, i64)> {
        Ok(self.slot(number)?.entry.times)
    }

    /// Least and greatest label in a page, NaN aside. Reads nothing but the index.
    pub fn labels(&self, number: usize) -> Result<Option<(f64, f64)>> {
        let bits = self.slot(number)?.entry.labels;
        Ok(page::label_range(self.schema.label, bits))
    }

    /// The rows that match a filter, in order. Pages that cannot hold a match are not read.
    pub fn scan(&self, filter: &Filter) -> Result<Scan<'_>> {
        Scan::new(self, filter)
    }

    /// Tells the system that rows will be read in random order, so that it does not read ahead.
    pub fn expect_random_reads(&self) {
        self.map.expect_random_reads();
    }

    #[inline]
    fn locate(&self, i: usize) -> Result<(usize, usize)> {
        if i >= self.rows {
            return Err(self.out_of_range("row", i, self.rows));
        }
        let holds = |slot: &Slot| i.wrapping_sub(slot.entry.first_row) < slot.entry.rows;
        // Pages are full unless a writer flushed early, so the quotient is nearly always right.
        let guess = i / self.schema.rows_per_page as usize;
        let number = match self.pages.get(guess) {
            Some(slot) if holds(slot) => guess,
            _ => self.pages.partition_point(|slot| slot.entry.first_row <= i) - 1,
        };
        Ok((number, i - self.pages[number].entry.first_row))
    }

    fn slot(&self, number: usize) -> Result<&Slot> {
        self.pages
            .get(number)
            .ok_or_else(|| self.out_of_range("page", number, self.pages.len()))
    }

    fn verify(&self, number: usize) -> Result<()> {
        let slot = self.slot(number)?;
        if slot.verified.load(Ordering::Acquire) & BODY_VERIFIED != 0 {
            return Ok(());
        }
        let head = self.read_head(number)?;
        let (from, to) = (
            slot.entry.offset + slot.parts.times,
            slot.entry.offset + slot.parts.end,
        );
        let body = self
            .map
            .bytes()
            .get(from..to)
            .ok_or_else(|| self.damaged(number, "it leaves the file"))?;
        if checksum(&[body]) != head.body_checksum {
            return Err(self.damaged(number, "its rows do not match their checksum"));
        }
        slot.verified
            .fetch_or(HEAD_VERIFIED | BODY_VERIFIED, Ordering::AcqRel);
        Ok(())
    }

    fn verified_head(&self, number: usize) -> Result<()> {
        let slot = self.slot(number)?;
        if slot.verified.load(Ordering::Acquire) & HEAD_VERIFIED == 0 {
            self.read_head(number)?;
            slot.verified.fetch_or(HEAD_VERIFIED, Ordering::AcqRel);
        }
        Ok(())
    }

    fn read_head(&self, number: usize) -> Result<Head> {
        let entry = &self.slot(number)?.entry;
        let head = Head::read(self.map.bytes(), entry.offset, &self.schema)
            .map_err(|problem| self.damaged(number, problem))?;
        if head.number as usize != number || Entry::new(entry.offset, &head) != *entry {
            return Err(self.damaged(number, "its head contradicts the index"));
        }
        Ok(head)
    }

    fn damaged(&self, page: usize, problem: &str) -> Error {
        Error::Page {
            path: self.path.clone(),
            page,
            offset: self.pages[page].entry.offset as u64,
            problem: problem.to_owned(),
        }
    }

    fn out_of_range(&self, what: &'static str, index: usize, len: usize) -> Error {
        let path = self.path.clone();
        Error::OutOfRange {
            path,
            what,
            index,
            len,
        }
    }
}
