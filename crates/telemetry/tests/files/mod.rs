//! Small files for tests, written as the real ones are.
#![allow(dead_code, reason = "each test binary uses some of them")]

use std::{path::PathBuf, sync::Arc};

use parquet::{
    data_type::{ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use tempfile::TempDir;

/// A column of a Parquet file; NaN is written as null.
pub(crate) enum Column {
    /// Milliseconds, as timestamps.
    Stamp(Vec<i64>),
    Int(Vec<i32>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Text(Vec<&'static str>),
}

impl Column {
    fn declaration(&self, name: &str) -> String {
        match self {
            Column::Stamp(_) => format!("required int64 {name} (TIMESTAMP(MILLIS,true));"),
            Column::Int(_) => format!("required int32 {name};"),
            Column::Float(_) => format!("optional float {name};"),
            Column::Double(_) => format!("optional double {name};"),
            Column::Text(_) => format!("required binary {name} (UTF8);"),
        }
    }
}

pub(crate) fn parquet(columns: &[(&str, Column)]) -> Vec<u8> {
    let fields: String = columns
        .iter()
        .map(|(name, column)| column.declaration(name))
        .collect();
    let schema = parse_message_type(&format!("message m {{ {fields} }}")).expect("a schema");
    let mut bytes = Vec::new();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(&mut bytes, Arc::new(schema), properties).expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    for (_, column) in columns {
        let mut out = group.next_column().expect("a column").expect("a column");
        match column {
            Column::Stamp(v) => out.typed::<Int64Type>().write_batch(v, None, None),
            Column::Int(v) => out.typed::<Int32Type>().write_batch(v, None, None),
            Column::Float(v) => {
                let levels: Vec<i16> = v.iter().map(|x| i16::from(!x.is_nan())).collect();
                let present: Vec<f32> = v.iter().copied().filter(|x| !x.is_nan()).collect();
                out.typed::<FloatType>()
                    .write_batch(&present, Some(&levels), None)
            }
            Column::Double(v) => {
                let levels: Vec<i16> = v.iter().map(|x| i16::from(!x.is_nan())).collect();
                let present: Vec<f64> = v.iter().copied().filter(|x| !x.is_nan()).collect();
                out.typed::<DoubleType>()
                    .write_batch(&present, Some(&levels), None)
            }
            Column::Text(v) => {
                let texts: Vec<ByteArray> = v.iter().map(|t| ByteArray::from(*t)).collect();
                out.typed::<ByteArrayType>().write_batch(&texts, None, None)
            }
        }
        .expect("written");
        out.close().expect("closed");
    }
    group.close().expect("closed");
    writer.close().expect("closed");
    bytes
}

pub(crate) fn write(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    (folder, path)
}
