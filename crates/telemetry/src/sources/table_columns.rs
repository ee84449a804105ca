//! Which columns of a table are metrics, time and label.

use std::{
    fs::{self, File},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use parquet::{
    basic::{ConvertedType, LogicalType, Type},
    file::reader::{FileReader, SerializedFileReader},
};
use synod_data::readers::{self, ReadOptions};

use super::{Table, io, source};
use crate::{Dropped, error::Result, parse_time, pattern::matches};

/// Names that a column of times has, when nobody says which it is.
const TIME_NAMES: [&str; 2] = ["timestamp", "time"];
const SHOWN: usize = 40;

/// What a file offers.
pub(super) struct Columns {
    /// Columns of numbers.
    numbers: Vec<String>,
    /// Columns of something else, and of what.
    others: Vec<(String, String)>,
    /// Columns of numbers that the file itself calls times.
    stamps: Vec<String>,
    parquet: bool,
}

/// What is taken from a file.
#[derive(Default)]
pub(super) struct Choice {
    pub(super) metrics: Vec<String>,
    pub(super) time: Option<String>,
    /// Whether times are exact nanoseconds, rather than numbers in some unit.
    pub(super) exact_time: bool,
    /// A column of times written as text.
    pub(super) text_time: Option<String>,
    pub(super) label: Option<String>,
    pub(super) dropped: Vec<Dropped>,
}

impl Columns {
    pub(super) fn of(path: &Path) -> Result<Columns> {
        let reader = readers::open(path, &ReadOptions::default())?;
        let stamps = stamps(path);
        Ok(Columns {
            numbers: reader.names().to_vec(),
            others: reader
                .skipped()
                .iter()
                .map(|s| (s.name.clone(), s.reason.clone()))
                .collect(),
            parquet: stamps.is_some(),
            stamps: stamps.unwrap_or_default(),
        })
    }

    /// Columns of numbers, none of which is a time or a label.
    pub(super) fn plain(names: &[String]) -> Columns {
        Columns {
            numbers: names.to_vec(),
            others: Vec::new(),
            parquet: false,
            stamps: Vec::new(),
        }
    }

    pub(super) fn choose(&self, table: &Table, path: &Path, notes: &mut Vec<String>) -> Result<Choice> {
        let time = match &table.time {
            Some(name) => Some(self.known(name, "time", path)?),
            None => self.guess_time(notes),
        };
        if let Some(label) = &table.label {
            self.known(label, "label", path)?;
        }
        let is_text = |name: &String| !self.parquet && self.others.iter().any(|(other, _)| other == name);
        let (text_time, time) = match time {
            Some(name) if is_text(&name) => (Some(name), None),
            other => (None, other),
        };
        let choice = Choice {
            exact_time: time.as_ref().is_some_and(|name| self.stamps.contains(name)),
            time,
            text_time,
            label: table.label.clone(),
            ..Choice::default()
        };
        self.metrics(table, choice, path, notes)
    }

    /// The choice with its metrics; an error if there are none.
    pub(super) fn metrics(
        &self,
        table: &Table,
        mut choice: Choice,
        path: &Path,
        notes: &mut Vec<String>,
    ) -> Result<Choice> {
        self.sort_out(table, &mut choice);
        for pattern in &table.include {
            if !self.numbers.iter().any(|name| matches(pattern, name)) {
                notes.push(format!("no column fits the included {pattern:?}"));
            }
        }
        if choice.metrics.is_empty() {
            let problem = format!("no metric is left of the columns {}", self.shown());
            return Err(source(path, problem, "include more columns, or exclude fewer"));
        }
        Ok(choice)
    }

    /// Puts every column that is not time or label among the metrics or the dropped.
    fn sort_out(&self, table: &Table, choice: &mut Choice) {
        let taken = [&choice.time, &choice.text_time, &choice.label];
        let taken: Vec<String> = taken.into_iter().flatten().cloned().collect();
        let drop = |metric: &String, reason: String| Dropped {
            metric: metric.clone(),
            reason,
        };
        for name in self.numbers.iter().filter(|name| !taken.contains(name)) {
            let excluded = table.exclude.iter().find(|pattern| matches(pattern, name));
            if let Some(pattern) = excluded {
                choice
                    .dropped
                    .push(drop(name, format!("excluded by {pattern:?}")));
            } else if table.include.is_empty() || table.include.iter().any(|pattern| matches(pattern, name)) {
                choice.metrics.push(name.clone());
            } else {
                choice
                    .dropped
                    .push(drop(name, "not among the included".to_owned()));
            }
        }
        let others = self.others.iter().filter(|(name, _)| !taken.contains(name));
        choice
            .dropped
            .extend(others.map(|(name, reason)| drop(name, reason.clone())));
    }

    fn guess_time(&self, notes: &mut Vec<String>) -> Option<String> {
        let all = || {
            self.numbers
                .iter()
                .chain(self.others.iter().map(|(name, _)| name))
        };
        let named = TIME_NAMES
            .iter()
            .find_map(|wanted| all().find(|name| name.trim_start_matches('#').eq_ignore_ascii_case(wanted)));
        // Text in Parquet cannot be read as times, so its name alone must not choose it.
        let named = named.filter(|name| !self.parquet || self.numbers.contains(name));
        let chosen = named.filter(|name| self.stamps.is_empty() || self.stamps.contains(name));
        let chosen = chosen.or(self.stamps.first()).or(named)?;
        if self.stamps.len() > 1 {
            notes.push(format!(
                "of {} columns of times, {chosen:?} is used",
                self.stamps.len()
            ));
        }
        Some(chosen.clone())
    }

    fn known(&self, name: &String, what: &str, path: &Path) -> Result<String> {
        if self.numbers.contains(name) || self.others.iter().any(|(other, _)| other == name) {
            return Ok(name.clone());
        }
        let problem = format!("there is no {what} column {name:?} among {}", self.shown());
        Err(source(
            path,
            problem,
            "name one of these, or leave the setting out",
        ))
    }

    fn shown(&self) -> String {
        let all = self
            .numbers
            .iter()
            .chain(self.others.iter().map(|(name, _)| name));
        let count = self.numbers.len() + self.others.len();
        let names: Vec<&str> = all.take(SHOWN).map(String::as_str).collect();
        let more = if count > SHOWN {
            format!(" and {} more", count - SHOWN)
        } else {
            String::new()
        };
        format!("{}{more}", names.join(", "))
    }
}

/// The columns of type timestamp of a Parquet file; none if it is no Parquet file.
fn stamps(path: &Path) -> Option<Vec<String>> {
    let file = File::open(path).ok()?;
    // The decoder may panic on damaged metadata; the reader proper reports what is wrong with them.
    let opened = catch_unwind(AssertUnwindSafe(|| SerializedFileReader::new(file).ok()));
    let reader = opened.ok().flatten()?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let is_stamp = |column: &&parquet::schema::types::ColumnDescPtr| {
        let logical = matches!(
            column.logical_type_ref(),
            Some(LogicalType::Timestamp(_) | LogicalType::Date)
        );
        let converted = matches!(
            column.converted_type(),
            ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS | ConvertedType::DATE
        );
        column.max_rep_level() == 0 && (logical || converted || column.physical_type() == Type::INT96)
    };
    let names = schema
        .columns()
        .iter()
        .filter(is_stamp)
        .map(|c| c.path().parts().join("."));
    Some(names.collect())
}

/// The times, in seconds, of a column of text of a CSV file: one for each of the first `rows` records.
pub(super) fn text_times(path: &Path, name: &str, rows: usize) -> Result<Vec<i64>> {
    let bytes = fs::read(path).map_err(io("read the file", path))?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let problem = format!("the times in column {name:?} are text in a packed file");
        return Err(source(
            path,
            problem,
            "unpack the file, or write times as seconds",
        ));
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut records = Records {
        rest: text.trim_start_matches('\u{feff}'),
    };
    let header = records.next().unwrap_or_default();
    let column = header
        .iter()
        .position(|field| field.trim().trim_start_matches('#') == name.trim_start_matches('#'));
    let column = column.ok_or_else(|| {
        source(
            path,
            format!("column {name:?} is not in its header"),
            "name it differently",
        )
    })?;
    let mut times = Vec::with_capacity(rows);
    for (i, record) in records.take(rows).enumerate() {
        let field = record.get(column).map_or("", |field| field.trim());
        match (parse_time(field), field) {
            (Some(time), _) => times.push(time.div_euclid(1000)),
            (None, "" | "NA" | "N/A" | "null" | "NULL" | "None") => times.push(i64::MIN),
            (None, _) => {
                let shown: String = field.chars().take(40).collect();
                let problem = format!("row {}: {shown:?} in column {name:?} is no time", i + 1);
                return Err(source(
                    path,
                    problem,
                    "write times as 2025-06-03T00:00:01Z or as seconds since 1970",
                ));
            }
        }
    }
    if times.len() < rows {
        let problem = format!("{} times for {rows} rows", times.len());
        return Err(source(path, problem, "check for quotes that are never closed"));
    }
    Ok(times)
}

/// The records of comma-separated text, blank lines left out.
struct Records<'a> {
    rest: &'a str,
}

impl Iterator for Records<'_> {
    type Item = Vec<String>;

    fn next(&mut self) -> Option<Vec<String>> {
        self.rest = self.rest.trim_start_matches(['\n', '\r']);
        if self.rest.is_empty() {
            return None;
        }
        let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
        let mut end = self.rest.len();
        let mut chars = self.rest.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' if quoted && chars.peek().is_some_and(|(_, next)| *next == '"') => {
                    chars.next();
                    field.push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(std::mem::take(&mut field)),
                '\n' if !quoted => {
                    end = i;
                    break;
                }
                _ => field.push(c),
            }
        }
        self.rest = self.rest.get(end..).unwrap_or_default();
        fields.push(field);
        Some(fields)
    }
}
