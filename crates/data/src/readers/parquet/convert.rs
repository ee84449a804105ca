//! Parquet's physical and logical types as numbers and times.

use parquet::{
    basic::{ConvertedType, LogicalType, TimeUnit, Type},
    column::reader::{ColumnReader, ColumnReaderImpl},
    data_type::{DataType, Int96},
    file::statistics::Statistics,
    schema::types::ColumnDescriptor,
};

use crate::readers::selection::Selection;

const DAY: i64 = 86_400_000_000_000;

/// How the stored values of a column are to be understood.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Bool,
    Int,
    /// Signed storage of numbers without sign.
    Unsigned,
    /// Whole numbers to be divided by this.
    Decimal(f64),
    /// Whole numbers of this many nanoseconds since 1970.
    Timestamp(i64),
    Date,
    Real,
}

impl Kind {
    /// The kind of a column, or why it is not numbers.
    pub(super) fn of(column: &ColumnDescriptor) -> Result<Kind, String> {
        if column.max_rep_level() > 0 {
            return Err("it holds lists".to_owned());
        }
        match column.physical_type() {
            Type::BOOLEAN => Ok(Kind::Bool),
            Type::FLOAT | Type::DOUBLE => Ok(Kind::Real),
            Type::INT96 => Ok(Kind::Timestamp(1)),
            Type::INT32 | Type::INT64 => Ok(Kind::of_whole(column)),
            Type::BYTE_ARRAY => Err("it holds text or bytes".to_owned()),
            Type::FIXED_LEN_BYTE_ARRAY => Err("it holds bytes of fixed length".to_owned()),
        }
    }

    fn of_whole(column: &ColumnDescriptor) -> Kind {
        match column.logical_type_ref() {
            Some(LogicalType::Timestamp(t)) => {
                return Kind::Timestamp(match t.unit {
                    TimeUnit::MILLIS => 1_000_000,
                    TimeUnit::MICROS => 1_000,
                    TimeUnit::NANOS => 1,
                });
            }
            Some(LogicalType::Date) => return Kind::Date,
            Some(LogicalType::Integer(int)) if !int.is_signed => return Kind::Unsigned,
            Some(LogicalType::Decimal(d)) => return Kind::Decimal(10f64.powi(d.scale)),
            _ => {}
        }
        match column.converted_type() {
            ConvertedType::TIMESTAMP_MILLIS => Kind::Timestamp(1_000_000),
            ConvertedType::TIMESTAMP_MICROS => Kind::Timestamp(1_000),
            ConvertedType::DATE => Kind::Date,
            ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64 => Kind::Unsigned,
            ConvertedType::DECIMAL => Kind::Decimal(10f64.powi(column.type_scale())),
            _ => Kind::Int,
        }
    }

    /// Least and greatest value by the statistics, where they can be relied on.
    pub(super) fn range(self, statistics: &Statistics) -> Option<(f64, f64)> {
        if statistics.is_min_max_deprecated() && self == Kind::Unsigned {
            return None;
        }
        let number = |stored: Stored| self.number(stored);
        let (min, max) = match statistics {
            Statistics::Boolean(s) => (Stored::bool(*s.min_opt()?), Stored::bool(*s.max_opt()?)),
            Statistics::Int32(s) => (Stored::int(*s.min_opt()?), Stored::int(*s.max_opt()?)),
            Statistics::Int64(s) => (Stored::long(*s.min_opt()?), Stored::long(*s.max_opt()?)),
            Statistics::Float(s) => (
                Stored::Real(f64::from(*s.min_opt()?)),
                Stored::Real(f64::from(*s.max_opt()?)),
            ),
            Statistics::Double(s) => (Stored::Real(*s.min_opt()?), Stored::Real(*s.max_opt()?)),
            _ => return None,
        };
        let (min, max) = (number(min), number(max));
        (min <= max).then_some((min, max))
    }

    fn number(self, stored: Stored) -> f64 {
        match (self, stored) {
            (_, Stored::Null) => f64::NAN,
            (_, Stored::Real(value)) => value,
            (Kind::Unsigned, Stored::Whole(_, bits)) => bits as f64,
            (Kind::Decimal(divisor), Stored::Whole(value, _)) => value as f64 / divisor,
            (Kind::Timestamp(unit), Stored::Whole(value, _)) => value as f64 * (unit as f64 / 1e9),
            (_, Stored::Whole(value, _)) => value as f64,
        }
    }

    fn time(self, stored: Stored, selection: &Selection) -> i64 {
        match (self, stored) {
            (Kind::Timestamp(unit), Stored::Whole(value, _)) => value.saturating_mul(unit),
            (Kind::Date, Stored::Whole(value, _)) => value.saturating_mul(DAY),
            (Kind::Int | Kind::Bool, Stored::Whole(value, _)) => selection.whole_time(value),
            (kind, stored) => selection.time(kind.number(stored)),
        }
    }
}

/// A value as it lies in the file: whole numbers with their sign and, beside it, without.
#[derive(Copy, Clone, Debug)]
enum Stored {
    Null,
    Whole(i64, u64),
    Real(f64),
}

impl Stored {
    fn bool(value: bool) -> Stored {
        Stored::Whole(i64::from(value), u64::from(value))
    }

    fn int(value: i32) -> Stored {
        Stored::Whole(i64::from(value), u64::from(value as u32))
    }

    fn long(value: i64) -> Stored {
        Stored::Whole(value, value as u64)
    }
}

/// Decoded rows of one column, and the memory that decoding needs again and again.
#[derive(Default)]
pub(super) struct Scratch {
    levels: Vec<i16>,
    rows: Vec<Stored>,
    bools: Vec<bool>,
    ints: Vec<i32>,
    longs: Vec<i64>,
    stamps: Vec<Int96>,
    floats: Vec<f32>,
    doubles: Vec<f64>,
}

impl Scratch {
    /// Decodes up to `rows` rows and returns how many there were. `full` is the level of a value that is not null.
    pub(super) fn read(
        &mut self,
        reader: &mut ColumnReader,
        rows: usize,
        full: i16,
    ) -> parquet::errors::Result<usize> {
        let Scratch {
            levels, rows: out, ..
        } = self;
        let mut want = Want {
            rows,
            full,
            levels,
            out,
        };
        match reader {
            ColumnReader::BoolColumnReader(r) => want.decode(r, &mut self.bools, |v| Stored::bool(*v)),
            ColumnReader::Int32ColumnReader(r) => want.decode(r, &mut self.ints, |v| Stored::int(*v)),
            ColumnReader::Int64ColumnReader(r) => want.decode(r, &mut self.longs, |v| Stored::long(*v)),
            ColumnReader::Int96ColumnReader(r) => {
                want.decode(r, &mut self.stamps, |v| Stored::long(v.to_nanos()))
            }
            ColumnReader::FloatColumnReader(r) => {
                want.decode(r, &mut self.floats, |v| Stored::Real(f64::from(*v)))
            }
            ColumnReader::DoubleColumnReader(r) => want.decode(r, &mut self.doubles, |v| Stored::Real(*v)),
            _ => Ok(0),
        }
    }

    pub(super) fn numbers(&self, kind: Kind) -> impl Iterator<Item = f64> + '_ {
        self.rows.iter().map(move |&stored| kind.number(stored))
    }

    pub(super) fn times<'a>(
        &'a self,
        kind: Kind,
        selection: &'a Selection,
    ) -> impl Iterator<Item = i64> + 'a {
        self.rows.iter().map(move |&stored| kind.time(stored, selection))
    }
}

/// What to decode, and where to.
struct Want<'a> {
    rows: usize,
    full: i16,
    levels: &'a mut Vec<i16>,
    out: &'a mut Vec<Stored>,
}

impl Want<'_> {
    fn decode<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        values: &mut Vec<T::T>,
        stored: impl Fn(&T::T) -> Stored,
    ) -> parquet::errors::Result<usize> {
        self.levels.clear();
        self.out.clear();
        values.clear();
        let (mut read, mut more) = (0, true);
        while read < self.rows && more {
            let (records, _, _) = reader.read_records(self.rows - read, Some(self.levels), None, values)?;
            read += records;
            more = records > 0;
        }
        if self.full == 0 {
            self.out.extend(values.iter().map(stored));
        } else {
            let mut present = values.iter();
            self.out
                .extend(self.levels.iter().map(|&level| match level == self.full {
                    true => present.next().map_or(Stored::Null, &stored),
                    false => Stored::Null,
                }));
        }
        Ok(read.min(self.out.len()))
    }
}
