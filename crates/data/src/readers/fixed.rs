//! Rows of numbers of one type, one after the other: what idx and npy have behind their headers.

use std::{
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use super::{
    Batch, ReadOptions,
    input::Input,
    malformed,
    selection::{Role, Selection},
};
use crate::error::{Error, Place, Result, io_error};

const CHUNK: usize = 64 << 10;

/// Columns that any file may declare, and how many more a byte of it justifies: each gets a name before it is read.
const FREE_COLUMNS: u64 = 65_536;
const COLUMNS_PER_BYTE: u64 = 16;

/// The type of a number in a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Element {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

impl Element {
    pub(super) fn bytes(self) -> usize {
        match self {
            Element::U8 | Element::I8 => 1,
            Element::U16 | Element::I16 => 2,
            Element::U32 | Element::I32 | Element::F32 => 4,
            Element::U64 | Element::I64 | Element::F64 => 8,
        }
    }

    /// The number in the first bytes of `raw`, which are in little-endian order.
    fn number(self, raw: [u8; 8]) -> Number {
        let bits = u64::from_le_bytes(raw);
        match self {
            Element::U8 => Number::Whole(i64::from(bits as u8)),
            Element::I8 => Number::Whole(i64::from(bits as i8)),
            Element::U16 => Number::Whole(i64::from(bits as u16)),
            Element::I16 => Number::Whole(i64::from(bits as i16)),
            Element::U32 => Number::Whole(i64::from(bits as u32)),
            Element::I32 => Number::Whole(i64::from(bits as i32)),
            Element::U64 => i64::try_from(bits).map_or(Number::Real(bits as f64), Number::Whole),
            Element::I64 => Number::Whole(bits as i64),
            Element::F32 => Number::Real(f64::from(f32::from_bits(bits as u32))),
            Element::F64 => Number::Real(f64::from_bits(bits)),
        }
    }
}

enum Number {
    Whole(i64),
    Real(f64),
}

/// What a header says about the rows behind it.
pub(super) struct Shape {
    pub(super) element: Element,
    pub(super) big_endian: bool,
    pub(super) rows: u64,
    pub(super) columns: u64,
    /// Bytes before the first row.
    pub(super) begin: u64,
}

/// A stream of such rows.
pub(super) struct FixedRows {
    path: PathBuf,
    input: Input,
    element: Element,
    big_endian: bool,
    columns: usize,
    rows_left: u64,
    position: u64,
    pub(super) selection: Selection,
    /// Whether all columns are values in the order of the file.
    plain: bool,
    chunk: Vec<u8>,
}

impl FixedRows {
    pub(super) fn new(path: &Path, input: Input, shape: Shape, options: &ReadOptions) -> Result<FixedRows> {
        let too_large = || {
            let Shape { rows, columns, .. } = &shape;
            let problem =
                format!("the header declares {rows} rows of {columns} numbers, more than the file can hold");
            malformed(
                path,
                Place::Byte(0),
                problem,
                "the file is cut off or damaged; fetch it again",
            )
        };
        let row_bytes = shape.columns.checked_mul(shape.element.bytes() as u64);
        let row_bytes = row_bytes.ok_or_else(too_large)?;
        let total = shape
            .rows
            .checked_mul(row_bytes)
            .and_then(|b| b.checked_add(shape.begin));
        if total.is_none_or(|total| total > input.at_most) {
            return Err(too_large());
        }
        if shape.columns > FREE_COLUMNS.max(input.length.saturating_mul(COLUMNS_PER_BYTE)) {
            return Err(too_large());
        }
        let columns = usize::try_from(shape.columns).map_err(|_| too_large())?;
        let names: Vec<String> = (0..columns).map(|c| c.to_string()).collect();
        let selection = Selection::resolve(path, &names, &vec![None; columns], options)?;
        Ok(FixedRows {
            path: path.to_path_buf(),
            input,
            element: shape.element,
            big_endian: shape.big_endian,
            columns,
            // Rows without columns would be read for ever without getting anywhere.
            rows_left: if columns == 0 { 0 } else { shape.rows },
            position: shape.begin,
            plain: selection
                .roles
                .iter()
                .enumerate()
                .all(|(i, role)| *role == Role::Value(i)),
            selection,
            chunk: Vec::new(),
        })
    }

    pub(super) fn rows_left(&self) -> u64 {
        self.rows_left
    }

    pub(super) fn read(&mut self, limit: usize, batch: &mut Batch) -> Result<usize> {
        let width = self.selection.names.len();
        batch.reset(width);
        let row_bytes = self.columns * self.element.bytes();
        let rows = usize::try_from(self.rows_left).unwrap_or(usize::MAX).min(limit);
        let per_chunk = (CHUNK / row_bytes.max(1)).max(1);
        let mut done = 0;
        while done < rows {
            let now = per_chunk.min(rows - done);
            self.fill(now * row_bytes)?;
            let start = batch.values.len();
            batch.values.resize(start + now * width, 0.0);
            if !self.convert_plain(&mut batch.values[start..]) {
                for (r, values) in (0..now).map(|r| (r, start + r * width..start + (r + 1) * width)) {
                    let values = &mut batch.values[values];
                    self.convert(r, values, &mut batch.times, &mut batch.labels);
                }
            }
            done += now;
        }
        self.rows_left -= rows as u64;
        batch.set_rows(rows);
        Ok(rows)
    }

    /// Reads bytes in steps, so that memory is only taken for what is really there.
    fn fill(&mut self, bytes: usize) -> Result<()> {
        self.chunk.clear();
        let read = (&mut self.input.reader)
            .take(bytes as u64)
            .read_to_end(&mut self.chunk)
            .map_err(|e| self.broken(e))?;
        if read < bytes {
            return Err(self.broken(ErrorKind::UnexpectedEof.into()));
        }
        self.position += bytes as u64;
        Ok(())
    }

    fn broken(&self, e: std::io::Error) -> Error {
        match e.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData => malformed(
                &self.path,
                Place::Byte(self.position),
                if self.input.packed {
                    format!(
                        "the compressed data end or break here ({} rows missing)",
                        self.rows_left
                    )
                } else {
                    format!("the file ends here, {} rows early", self.rows_left)
                },
                "the file is cut off or damaged; fetch it again",
            ),
            _ => io_error("read the file", &self.path)(e),
        }
    }

    /// The common case of all columns in the order of the file, bytes or floats: one pass without roles.
    fn convert_plain(&self, values: &mut [f32]) -> bool {
        match (self.plain, self.element) {
            (true, Element::U8) => {
                values
                    .iter_mut()
                    .zip(&self.chunk)
                    .for_each(|(to, &byte)| *to = f32::from(byte));
            }
            (true, Element::F32) if !self.big_endian => {
                let raw = self
                    .chunk
                    .chunks_exact(4)
                    .map(|raw| [raw[0], raw[1], raw[2], raw[3]]);
                values
                    .iter_mut()
                    .zip(raw)
                    .for_each(|(to, raw)| *to = f32::from_le_bytes(raw));
            }
            _ => return false,
        }
        true
    }

    fn convert(&self, row: usize, values: &mut [f32], times: &mut Vec<i64>, labels: &mut Vec<f32>) {
        let size = self.element.bytes();
        let bytes = &self.chunk[row * self.columns * size..][..self.columns * size];
        for (raw, role) in bytes.chunks_exact(size).zip(&self.selection.roles) {
            let mut little = [0; 8];
            little[..size].copy_from_slice(raw);
            if self.big_endian {
                little[..size].reverse();
            }
            let number = self.element.number(little);
            let value = match number {
                Number::Whole(value) => value as f32,
                Number::Real(value) => value as f32,
            };
            match (role, number) {
                (Role::Value(slot), _) => values[*slot] = value,
                (Role::Time, Number::Whole(value)) => times.push(self.selection.whole_time(value)),
                (Role::Time, Number::Real(value)) => times.push(self.selection.time(value)),
                (Role::Label, _) => labels.push(value),
                (Role::Unused, _) => {}
            }
        }
    }
}
