//! The idx format of MNIST and its kin, plain or gzip.

use std::{io::Read, path::Path};

use super::{
    Batch, ReadOptions, RowReader,
    fixed::{Element, FixedRows, Shape},
    input, malformed,
};
use crate::error::{Error, Place, Result};

const ADVICE: &str = "it should be an idx file such as MNIST's train-images-idx3-ubyte, plain or .gz";

/// An idx file as rows: the first dimension counts rows, the others make up a row. Columns are called `0`, `1`, ….
pub struct Idx {
    rows: FixedRows,
    labels: Option<(FixedRows, Batch)>,
}

impl Idx {
    /// Opens a file and reads its header.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Idx> {
        Ok(Idx {
            rows: rows(path.as_ref(), options)?,
            labels: None,
        })
    }

    /// Adds the labels from a second file, which must have one number for each row of the first.
    pub fn with_labels(mut self, path: impl AsRef<Path>) -> Result<Idx> {
        let path = path.as_ref();
        let labels = rows(path, &ReadOptions::default())?;
        if labels.selection.names.len() != 1 || labels.rows_left() != self.rows.rows_left() {
            let problem = format!(
                "{} rows of {} numbers cannot be the labels of {} rows",
                labels.rows_left(),
                labels.selection.names.len(),
                self.rows.rows_left()
            );
            let advice = "choose the label file that belongs to the images";
            return Err(malformed(path, Place::Byte(4), problem, advice));
        }
        self.labels = Some((labels, Batch::new()));
        Ok(self)
    }

    /// Rows not yet read.
    pub fn rows_left(&self) -> u64 {
        self.rows.rows_left()
    }
}

impl RowReader for Idx {
    fn names(&self) -> &[String] {
        &self.rows.selection.names
    }

    fn read(&mut self, limit: usize, batch: &mut Batch) -> Result<usize> {
        let rows = self.rows.read(limit, batch)?;
        if let Some((labels, own)) = &mut self.labels {
            labels.read(rows, own)?;
            batch.labels.clear();
            batch.labels.extend_from_slice(&own.values);
        }
        Ok(rows)
    }
}

fn rows(path: &Path, options: &ReadOptions) -> Result<FixedRows> {
    let mut input = input::open(path)?;
    let mut offset = 0;
    let mut word = |what: &str| -> Result<[u8; 4]> {
        let mut bytes = [0; 4];
        input.reader.read_exact(&mut bytes).map_err(|e| {
            malformed(
                path,
                Place::Byte(offset),
                format!("cannot read {what}: {e}"),
                ADVICE,
            )
        })?;
        offset += 4;
        Ok(bytes)
    };
    let wrong = |problem: String| -> Error { malformed(path, Place::Byte(0), problem, ADVICE) };
    let [zero, also_zero, kind, dimensions] = word("the header")?;
    if zero != 0 || also_zero != 0 || dimensions == 0 {
        return Err(wrong("the header is not that of an idx file".to_owned()));
    }
    let element = match kind {
        0x08 => Element::U8,
        0x09 => Element::I8,
        0x0b => Element::I16,
        0x0c => Element::I32,
        0x0d => Element::F32,
        0x0e => Element::F64,
        other => return Err(wrong(format!("type {other:#04x} is not one of idx"))),
    };
    let rows = u64::from(u32::from_be_bytes(word("the number of rows")?));
    let mut columns = 1u64;
    for _ in 1..dimensions {
        let extent = u64::from(u32::from_be_bytes(word("the dimensions")?));
        columns = columns
            .checked_mul(extent)
            .ok_or_else(|| wrong("the dimensions multiply to more than 64 bits".to_owned()))?;
    }
    let shape = Shape {
        element,
        big_endian: true,
        rows,
        columns,
        begin: offset,
    };
    FixedRows::new(path, input, shape, options)
}
