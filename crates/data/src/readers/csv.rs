//! Comma-separated values, and text separated by anything else, plain or gzip.

use std::{
    collections::VecDeque,
    io::{BufRead, Read},
    path::{Path, PathBuf},
};

use super::{
    Batch, ReadOptions, RowReader, Skipped,
    input::{self, Input},
    malformed,
    selection::{Role, Selection, unique},
};
use crate::error::{Place, Result};

/// Records looked at to tell columns of numbers from columns of text.
const SNIFFED: usize = 64;
/// Longer records are taken for a file that is not CSV.
const MAX_RECORD: usize = 16 << 20;
const MISSING: [&str; 6] = ["", "NA", "N/A", "null", "NULL", "None"];

/// A CSV file as rows. Empty fields and `NA`, `null`, `None` are NaN, `true` and `false` are 1 and 0.
///
/// A column whose first value is text is skipped. Text further down a column of numbers is an error that names its place.
/// A last line without its end and with too few fields was being written when it was copied; it is dropped, and
/// [`RowReader::torn`] tells.
pub struct Csv {
    records: Records,
    /// Records read ahead to tell the columns apart, with their line numbers.
    ahead: VecDeque<(u64, Vec<u8>)>,
    selection: Selection,
    record: Vec<u8>,
    fields: Vec<std::ops::Range<usize>>,
    torn: Option<u64>,
}

impl Csv {
    /// Opens a file, reads its header line unless `options.names` replaces it, and looks at the first records.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Csv> {
        let path = path.as_ref();
        let mut records = Records {
            path: path.to_path_buf(),
            input: input::open(path)?,
            delimiter: options.delimiter,
            line: 0,
            start: 0,
            ended: true,
        };
        let names = match &options.names {
            Some(names) => names.clone(),
            None => records.header()?,
        };
        let names = unique(names);
        let (mut ahead, mut fields, mut torn) = (VecDeque::new(), Vec::new(), None);
        let mut problems: Vec<Option<Option<String>>> = vec![None; names.len()];
        while ahead.len() < SNIFFED {
            let mut record = Vec::new();
            if !records.next(&mut record)? {
                break;
            }
            if records.breaks_off(&mut record, names.len(), &mut fields)? {
                torn = Some(records.start);
                break;
            }
            for (field, verdict) in fields.iter().zip(&mut problems) {
                sniff(&record[field.clone()], verdict);
            }
            // Kept as split, so that quotes are only resolved once.
            ahead.push_back((records.start, rejoin(&record, &fields)));
        }
        let problems: Vec<Option<String>> = problems.into_iter().map(Option::flatten).collect();
        Ok(Csv {
            selection: Selection::resolve(path, &names, &problems, options)?,
            records,
            ahead,
            record: Vec::new(),
            fields,
            torn,
        })
    }

    fn next(&mut self) -> Result<bool> {
        if let Some((line, record)) = self.ahead.pop_front() {
            self.records.start = line;
            unjoin(&record, &mut self.record, &mut self.fields);
            return Ok(true);
        }
        if !self.records.next(&mut self.record)? {
            return Ok(false);
        }
        let columns = self.selection.roles.len();
        let torn = self
            .records
            .breaks_off(&mut self.record, columns, &mut self.fields)?;
        if torn {
            self.torn = Some(self.records.start);
        }
        Ok(!torn)
    }

    fn convert(&self, batch: &mut Batch) -> Result<()> {
        let start = batch.values.len();
        batch.values.resize(start + self.selection.names.len(), f32::NAN);
        for (i, (field, role)) in self.fields.iter().zip(&self.selection.roles).enumerate() {
            if *role == Role::Unused {
                continue;
            }
            let text = String::from_utf8_lossy(&self.record[field.clone()]);
            let text = text.trim();
            let wrong = || {
                let shown: String = text.chars().take(40).collect();
                let at = Place::Field {
                    line: self.records.start,
                    column: i + 1,
                };
                let advice = "correct it, or choose columns of numbers";
                malformed(
                    &self.records.path,
                    at,
                    format!("{shown:?} is not a number"),
                    advice,
                )
            };
            match role {
                Role::Value(slot) => batch.values[start + slot] = number(text).ok_or_else(wrong)? as f32,
                Role::Label => batch.labels.push(number(text).ok_or_else(wrong)? as f32),
                Role::Time => batch.times.push(match text.parse::<i64>() {
                    Ok(whole) => self.selection.whole_time(whole),
                    Err(_) => self.selection.time(number(text).ok_or_else(wrong)?),
                }),
                Role::Unused => {}
            }
        }
        Ok(())
    }
}

impl RowReader for Csv {
    fn names(&self) -> &[String] {
        &self.selection.names
    }

    fn skipped(&self) -> &[Skipped] {
        &self.selection.skipped
    }

    fn torn(&self) -> Option<u64> {
        self.torn
    }

    fn read(&mut self, limit: usize, batch: &mut Batch) -> Result<usize> {
        batch.reset(self.selection.names.len());
        let mut rows = 0;
        while rows < limit && self.next()? {
            self.convert(batch)?;
            rows += 1;
        }
        batch.set_rows(rows);
        Ok(rows)
    }
}

/// A field as a number; none if it is text.
fn number(text: &str) -> Option<f64> {
    if MISSING.contains(&text) {
        return Some(f64::NAN);
    }
    text.parse().ok().or_else(|| {
        let truth = text.eq_ignore_ascii_case("true");
        (truth || text.eq_ignore_ascii_case("false")).then_some(f64::from(u8::from(truth)))
    })
}

/// The first field that is not missing decides whether a column is numbers (`Some(None)`) or text.
fn sniff(field: &[u8], verdict: &mut Option<Option<String>>) {
    let text = String::from_utf8_lossy(field);
    let text = text.trim();
    if verdict.is_none() && !MISSING.contains(&text) {
        let shown: String = text.chars().take(20).collect();
        *verdict = Some(
            number(text)
                .is_none()
                .then(|| format!("it holds text such as {shown:?}")),
        );
    }
}

/// Fields in one piece, each behind its length.
fn rejoin(record: &[u8], fields: &[std::ops::Range<usize>]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        out.extend((field.len() as u32).to_le_bytes());
        out.extend_from_slice(&record[field.clone()]);
    }
    out
}

fn unjoin(joined: &[u8], record: &mut Vec<u8>, fields: &mut Vec<std::ops::Range<usize>>) {
    record.clear();
    record.extend_from_slice(joined);
    fields.clear();
    let mut at = 0;
    while let Some(length) = record.get(at..at + 4).and_then(|b| b.try_into().ok()) {
        let length = u32::from_le_bytes(length) as usize;
        fields.push(at + 4..at + 4 + length);
        at += 4 + length;
    }
}

/// The records of a file: lines, unless a quoted field holds a line break.
struct Records {
    path: PathBuf,
    input: Input,
    delimiter: u8,
    /// The last line read, and the line on which the last record began, counted from 1.
    line: u64,
    start: u64,
    /// Whether the last record ended with a line break.
    ended: bool,
}

impl Records {
    fn header(&mut self) -> Result<Vec<String>> {
        let (mut record, mut fields) = (Vec::new(), Vec::new());
        if !self.next(&mut record)? {
            let advice = "it should begin with a line of column names";
            return Err(malformed(&self.path, Place::Whole, "the file is empty", advice));
        }
        if record.starts_with(b"\xef\xbb\xbf") {
            record.drain(..3);
        }
        if record.starts_with(b"#") {
            record.remove(0);
        }
        self.fields(&mut record, &mut fields)?;
        let name = |field: &std::ops::Range<usize>| {
            String::from_utf8_lossy(&record[field.clone()]).trim().to_owned()
        };
        Ok(fields.iter().map(name).collect())
    }

    /// Reads the next record that is not blank; false at the end of the file.
    fn next(&mut self, record: &mut Vec<u8>) -> Result<bool> {
        loop {
            record.clear();
            self.start = self.line + 1;
            let mut quotes = 0;
            loop {
                let begin = record.len();
                let room = (MAX_RECORD + 1 - begin) as u64;
                let read = (&mut self.input.reader).take(room).read_until(b'\n', record);
                let read =
                    read.map_err(|e| self.wrong(1, format!("cannot read on: {e}"), "fetch the file again"))?;
                if record.len() > MAX_RECORD {
                    let problem = format!("a record of more than {MAX_RECORD} bytes");
                    return Err(self.wrong(1, problem, "check for a quote that is never closed"));
                }
                self.line += 1;
                quotes += record[begin..].iter().filter(|&&b| b == b'"').count();
                if read == 0 && quotes % 2 == 1 {
                    return Err(self.wrong(1, "a quoted field is never closed", "add the missing quote"));
                }
                if read == 0 || quotes % 2 == 0 {
                    break;
                }
            }
            if record.is_empty() {
                return Ok(false);
            }
            self.ended = record.ends_with(b"\n");
            while matches!(record.last(), Some(b'\n' | b'\r')) {
                record.pop();
            }
            if !record.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Finds the fields of a record and checks their number; true if it is the last and was not written to its end.
    fn breaks_off(
        &self,
        record: &mut Vec<u8>,
        columns: usize,
        fields: &mut Vec<std::ops::Range<usize>>,
    ) -> Result<bool> {
        self.fields(record, fields)?;
        if fields.len() < columns && !self.ended {
            return Ok(true);
        }
        if fields.len() != columns {
            let problem = format!("{} fields where the header has {columns}", fields.len());
            let advice = "add or remove fields, or set the delimiter";
            return Err(self.wrong(fields.len().min(columns) + 1, problem, advice));
        }
        Ok(false)
    }

    /// Finds the fields of a record and takes their quotes away in place.
    fn fields(&self, record: &mut Vec<u8>, fields: &mut Vec<std::ops::Range<usize>>) -> Result<()> {
        fields.clear();
        let (mut from, mut to, mut begin, mut quoted) = (0, 0, 0, false);
        while from < record.len() {
            let byte = record[from];
            from += 1;
            if byte == b'"' && quoted && record.get(from) == Some(&b'"') {
                from += 1;
                record[to] = b'"';
                to += 1;
            } else if byte == b'"' {
                quoted = !quoted;
            } else if byte == self.delimiter && !quoted {
                fields.push(begin..to);
                // The delimiter's own place separates the fields, so ranges never touch.
                record[to] = byte;
                to += 1;
                begin = to;
            } else {
                record[to] = byte;
                to += 1;
            }
        }
        if quoted {
            return Err(self.wrong(
                fields.len() + 1,
                "a quoted field is never closed",
                "add the missing quote",
            ));
        }
        fields.push(begin..to);
        record.truncate(to);
        Ok(())
    }

    fn wrong(&self, column: usize, problem: impl Into<String>, advice: &'static str) -> crate::Error {
        let at = Place::Field {
            line: self.start,
            column,
        };
        malformed(&self.path, at, problem, advice)
    }
}
