//! The `timestamp, value, node` columns of one raw metric of M100, streamed.

use std::{
    fs::File,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use parquet::{
    basic::{ConvertedType, LogicalType, TimeUnit, Type},
    column::reader::{ColumnReader, ColumnReaderImpl},
    data_type::{ByteArray, DataType},
    errors::{ParquetError, Result as Decoded},
    file::reader::{FileReader, SerializedFileReader},
    schema::types::{ColumnDescriptor, SchemaDescriptor},
};

use super::{io, source};
use crate::error::Result;

/// Rows decoded at a time.
const STEP: usize = 16 << 10;
const ADVICE: &str = "the file is damaged or no raw metric of M100; fetch it again or leave it out";

/// Whether a file's values are numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// They were, and all rows have been given out.
    Numbers,
    /// They are text or bytes; no row was given out.
    Text,
}

/// Gives every row that has a time, a value and a node to `row`, as node, milliseconds since 1970 and value.
pub(super) fn each(path: &Path, row: &mut dyn FnMut(&str, i64, f64) -> Result<()>) -> Result<Contents> {
    each_where(path, None, row)
}

/// Like [`each`], but of a file with a column of that name only the rows in which it has that text.
pub(super) fn each_where(
    path: &Path,
    tag: Option<(&str, &str)>,
    row: &mut dyn FnMut(&str, i64, f64) -> Result<()>,
) -> Result<Contents> {
    let file = File::open(path).map_err(io("open the file", path))?;
    let mut refused = None;
    let mut give = |node: &str, time, value| match row(node, time, value) {
        Ok(()) => true,
        Err(e) => {
            refused = Some(e);
            false
        }
    };
    // The decoder may panic on hostile input.
    let decoded = catch_unwind(AssertUnwindSafe(|| decode(file, tag, &mut give)));
    if let Some(error) = refused {
        return Err(error);
    }
    match decoded {
        Ok(Ok(contents)) => Ok(contents),
        Ok(Err(e)) => Err(source(path, e.to_string(), ADVICE)),
        Err(_) => Err(source(path, "the decoder gave up", ADVICE)),
    }
}

fn decode(
    file: File,
    tag: Option<(&str, &str)>,
    give: &mut dyn FnMut(&str, i64, f64) -> bool,
) -> Decoded<Contents> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let (time, value, node) = (
        find(&schema, "timestamp")?,
        find(&schema, "value")?,
        find(&schema, "node")?,
    );
    if matches!(
        schema.column(value).physical_type(),
        Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY
    ) {
        return Ok(Contents::Text);
    }
    let unit = unit(&schema.column(time))?;
    let (tag, wanted) = match tag {
        Some((name, wanted)) => (Some(find(&schema, name)?), wanted.as_bytes()),
        None => (None, [].as_slice()),
    };
    let mut tags = Column::new(tag.map_or(0, |i| schema.column(i).max_def_level()));
    let full = [time, value, node].map(|i| schema.column(i).max_def_level());
    let (mut times, mut values, mut nodes) =
        (Column::new(full[0]), Column::new(full[1]), Column::new(full[2]));
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number)?;
        let mut columns = [time, value, node].map(|i| group.get_column_reader(i));
        let mut tagged = tag.map(|i| group.get_column_reader(i));
        loop {
            let [t, v, n] = &mut columns;
            let rows = times.wholes(t)?;
            if values.numbers(v)? != rows || nodes.texts(n)? != rows {
                return Err(ParquetError::General("the columns differ in length".to_owned()));
            }
            if let Some(column) = &mut tagged
                && tags.texts(column)? != rows
            {
                return Err(ParquetError::General("the columns differ in length".to_owned()));
            }
            if rows == 0 {
                break;
            }
            for (row, ((t, v), n)) in times.rows.iter().zip(&values.rows).zip(&nodes.rows).enumerate() {
                let fits = || match tags.rows.get(row) {
                    Some(text) => text.as_ref().is_some_and(|text| text.data() == wanted),
                    None => tag.is_none(),
                };
                if let (Some(t), Some(v), Some(n)) = (t, v, n)
                    && fits()
                    && let Ok(node) = std::str::from_utf8(n.data())
                    && !give(node, unit.milliseconds(*t), *v)
                {
                    return Ok(Contents::Numbers);
                }
            }
        }
    }
    Ok(Contents::Numbers)
}

fn find(schema: &SchemaDescriptor, name: &str) -> Decoded<usize> {
    let found = schema
        .columns()
        .iter()
        .position(|c| c.path().parts() == [name] && c.max_rep_level() == 0);
    found.ok_or_else(|| ParquetError::General(format!("there is no column {name:?}")))
}

/// How a stored time is made milliseconds.
#[derive(Copy, Clone)]
struct Unit {
    multiply: i64,
    divide: i64,
}

impl Unit {
    fn milliseconds(self, stored: i64) -> i64 {
        stored.saturating_mul(self.multiply).div_euclid(self.divide)
    }
}

fn unit(column: &ColumnDescriptor) -> Decoded<Unit> {
    let (multiply, divide) = match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Timestamp(t)), _) => match t.unit {
            TimeUnit::MILLIS => (1, 1),
            TimeUnit::MICROS => (1, 1000),
            TimeUnit::NANOS => (1, 1_000_000),
        },
        (_, ConvertedType::TIMESTAMP_MILLIS) => (1, 1),
        (_, ConvertedType::TIMESTAMP_MICROS) => (1, 1000),
        // Plain whole numbers are seconds.
        _ => (1000, 1),
    };
    Ok(Unit { multiply, divide })
}

/// Decoded rows of one column, null where there is none.
struct Column<T> {
    rows: Vec<Option<T>>,
    levels: Vec<i16>,
    full: i16,
}

impl<T> Column<T> {
    fn new(full: i16) -> Column<T> {
        Column {
            rows: Vec::new(),
            levels: Vec::new(),
            full,
        }
    }

    /// Decodes the next rows and returns how many there are.
    fn fill<D: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<D>,
        make: impl Fn(&D::T) -> T,
    ) -> Decoded<usize> {
        self.rows.clear();
        self.levels.clear();
        let mut stored = Vec::with_capacity(STEP);
        let (mut read, mut more) = (0, true);
        while read < STEP && more {
            let (records, _, _) =
                reader.read_records(STEP - read, Some(&mut self.levels), None, &mut stored)?;
            read += records;
            more = records > 0;
        }
        let mut stored = stored.iter();
        if self.full == 0 {
            self.rows.extend(stored.map(|value| Some(make(value))));
        } else {
            let present = self.levels.iter().map(|&level| level == self.full);
            self.rows
                .extend(present.map(|present| if present { stored.next().map(&make) } else { None }));
        }
        Ok(self.rows.len())
    }
}

impl Column<i64> {
    fn wholes(&mut self, reader: &mut Decoded<ColumnReader>) -> Decoded<usize> {
        match open(reader)? {
            ColumnReader::Int64ColumnReader(r) => self.fill(r, |v| *v),
            ColumnReader::Int32ColumnReader(r) => self.fill(r, |v| i64::from(*v)),
            _ => Err(ParquetError::General(
                "the column \"timestamp\" holds no times".to_owned(),
            )),
        }
    }
}

impl Column<f64> {
    fn numbers(&mut self, reader: &mut Decoded<ColumnReader>) -> Decoded<usize> {
        match open(reader)? {
            ColumnReader::Int32ColumnReader(r) => self.fill(r, |v| f64::from(*v)),
            ColumnReader::Int64ColumnReader(r) => self.fill(r, |v| *v as f64),
            ColumnReader::FloatColumnReader(r) => self.fill(r, |v| f64::from(*v)),
            ColumnReader::DoubleColumnReader(r) => self.fill(r, |v| *v),
            ColumnReader::BoolColumnReader(r) => self.fill(r, |v| f64::from(u8::from(*v))),
            _ => Err(ParquetError::General(
                "the column \"value\" holds no numbers".to_owned(),
            )),
        }
    }
}

impl Column<ByteArray> {
    fn texts(&mut self, reader: &mut Decoded<ColumnReader>) -> Decoded<usize> {
        match open(reader)? {
            ColumnReader::ByteArrayColumnReader(r) => self.fill(r, ByteArray::clone),
            ColumnReader::Int32ColumnReader(r) => {
                self.fill(r, |v| ByteArray::from(v.to_string().into_bytes()))
            }
            ColumnReader::Int64ColumnReader(r) => {
                self.fill(r, |v| ByteArray::from(v.to_string().into_bytes()))
            }
            _ => Err(ParquetError::General(
                "the column \"node\" holds no names".to_owned(),
            )),
        }
    }
}

fn open(reader: &mut Decoded<ColumnReader>) -> Decoded<&mut ColumnReader> {
    reader.as_mut().map_err(|e| ParquetError::General(e.to_string()))
}
