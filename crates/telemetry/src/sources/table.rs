//! One file per node: Parquet, CSV or record files whose rows are windows.

use std::path::Path;

use synod_data::{
    readers::{self, Batch, ReadOptions, RowReader},
    record::Reader,
};

use super::{
    records, source,
    table_columns::{Choice, Columns, text_times},
    table_rows::Rows,
};
use crate::{
    Frame, align,
    error::{Error, Result},
};

/// Seconds between rows of a file that has no times.
const STEP: i64 = 60;
const BATCH: usize = 4096;
const EMPTY: &str = "record something first, or leave the file out";

/// How to read files of one node each.
///
/// The node's name is the file's name without its extension. Missing and infinite values, and the number that DCGM writes
/// for "blank", are NaN. Rows come out in the order of their times; of rows with the same time, the first of those with the
/// fewest missing values is kept. [`Loaded::notes`] says what was changed.
///
/// A record file says its own node, times, step and labels; of the settings below only the patterns apply to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The time column; without it, a column of type timestamp or of the name `timestamp` or `time`, if there is one.
    pub time: Option<String>,
    /// The label column: above zero is anomalous, missing is unknown. Without it, nothing is known of any window.
    pub label: Option<String>,
    /// Patterns with `*` of the columns to use; all if empty.
    pub include: Vec<String>,
    /// Patterns with `*` of the columns not to use, whatever `include` says.
    pub exclude: Vec<String>,
    /// Seconds between rows. Without it, the median distance of the times, or a minute if there are none.
    pub step: Option<i64>,
}

/// A frame, and what had to be done to make one of its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The windows.
    pub frame: Frame,
    /// What a person should know: rows sorted or dropped, values that were not numbers, a file that breaks off.
    pub notes: Vec<String>,
}

impl Table {
    /// Loads one file.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Loaded> {
        let path = path.as_ref();
        if let Some(step) = self.step.filter(|&step| step <= 0) {
            return Err(Error::Setting(format!(
                "step = {step} s makes no windows; give at least 1"
            )));
        }
        if records::is_record(path) {
            return self.record(path);
        }
        let mut notes = Vec::new();
        let columns = Columns::of(path)?;
        let choice = columns.choose(self, path, &mut notes)?;
        let mut rows = read(path, &choice, &mut notes)?;
        if let Some(name) = &choice.text_time {
            rows.times = text_times(path, name, rows.len())?;
        }
        if rows.len() == 0 {
            return Err(source(path, "it holds no rows", EMPTY));
        }
        rows.without_sentinels(&mut notes);
        let step = self.place_in_time(&mut rows, &choice, &mut notes);
        if rows.len() == 0 {
            return Err(source(
                path,
                "none of its rows has a time",
                "check the time column, or name another",
            ));
        }
        let node = node_name(path, &mut notes);
        let truth = rows.truth();
        let frame = Frame::new(node, step, rows.times, choice.metrics, rows.values)?.with_truth(truth)?;
        Ok(Loaded {
            frame: frame.with_dropped(choice.dropped),
            notes,
        })
    }

    /// Loads a record file, without the columns that are not wanted.
    fn record(&self, path: &Path) -> Result<Loaded> {
        let frame = records::load(path)?;
        if frame.rows() == 0 {
            return Err(source(path, "it holds no rows", EMPTY));
        }
        let mut notes = Vec::new();
        let lost = Reader::open(path)?.recovered().map(ToString::to_string);
        notes.extend(lost);
        let columns = Columns::plain(frame.metrics());
        let choice = columns.metrics(self, Choice::default(), path, &mut notes)?;
        let frame = match choice.dropped.is_empty() {
            true => frame,
            false => align::select(&frame, &choice.metrics)?,
        };
        Ok(Loaded {
            frame: frame.with_dropped(choice.dropped),
            notes,
        })
    }

    /// Gives rows without times some, sorts those with, and returns the step.
    fn place_in_time(&self, rows: &mut Rows, choice: &Choice, notes: &mut Vec<String>) -> i64 {
        let step = self.step.unwrap_or(STEP);
        if choice.time.is_none() && choice.text_time.is_none() {
            rows.times = (0..rows.len() as i64).map(|i| i.saturating_mul(step)).collect();
            return step;
        }
        if choice.text_time.is_none() {
            rows.times_to_seconds(choice.exact_time);
        }
        rows.sort(notes);
        self.step.or_else(|| rows.median_step()).unwrap_or_else(|| {
            notes.push(format!("one row has no step; {STEP} s is assumed"));
            STEP
        })
    }
}

fn read(path: &Path, choice: &Choice, notes: &mut Vec<String>) -> Result<Rows> {
    let options = ReadOptions {
        columns: Some(choice.metrics.clone()),
        time: choice.time.clone(),
        label: choice.label.clone(),
        ..ReadOptions::default()
    };
    let mut reader: Box<dyn RowReader> = readers::open(path, &options)?;
    let (mut batch, mut rows) = (Batch::new(), Rows::new(choice.metrics.len()));
    while reader.read(BATCH, &mut batch)? > 0 {
        rows.append(&batch);
    }
    if let Some(line) = reader.torn() {
        notes.push(format!("line {line} breaks off and was left out"));
    }
    Ok(rows)
}

fn node_name(path: &Path, notes: &mut Vec<String>) -> String {
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    let name = stem.to_string_lossy();
    if stem.to_str().is_none() {
        notes.push(format!("the file's name is not UTF-8; the node is called {name}"));
    }
    name.into_owned()
}
