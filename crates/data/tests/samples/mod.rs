//! Small files of every format, and ways to write and read them.
#![allow(dead_code, reason = "each test binary uses some of them")]

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use parquet::{
    data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use synod_data::readers::{self, Batch, ReadOptions};
use tempfile::TempDir;

pub(crate) fn write(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    (folder, path)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("packed");
    encoder.finish().expect("packed")
}

pub(crate) fn idx(kind: u8, extents: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, kind, extents.len() as u8];
    bytes.extend(extents.iter().flat_map(|e| e.to_be_bytes()));
    bytes.extend_from_slice(data);
    bytes
}

pub(crate) fn npy(version: u8, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut bytes = vec![0x93, b'N', b'U', b'M', b'P', b'Y', version, 0];
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// Three row groups of 20 rows. Row `i`: time in milliseconds, int `i - 5`, real `i / 2` or null, flag, text.
pub(crate) fn parquet_file() -> Vec<u8> {
    parquet_with(parquet::basic::Compression::SNAPPY)
}

pub(crate) fn parquet_with(compression: parquet::basic::Compression) -> Vec<u8> {
    let schema = "message m {
        required int64 time (TIMESTAMP(MILLIS,true));
        required int32 int;
        optional double real;
        required boolean flag;
        required binary text (UTF8);
    }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).expect("a writer");
    for group in 0..3i64 {
        let rows = group * 20..group * 20 + 20;
        let mut out = writer.next_row_group().expect("a group");
        for column in 0..5 {
            let mut next = out.next_column().expect("a column").expect("a column");
            match column {
                0 => {
                    let times: Vec<i64> = rows.clone().map(|i| 1_662_000_000_000 + i).collect();
                    next.typed::<Int64Type>()
                        .write_batch(&times, None, None)
                        .expect("written");
                }
                1 => {
                    let ints: Vec<i32> = rows.clone().map(|i| i as i32 - 5).collect();
                    next.typed::<Int32Type>()
                        .write_batch(&ints, None, None)
                        .expect("written");
                }
                2 => {
                    let levels: Vec<i16> = rows.clone().map(|i| i16::from(i % 3 != 0)).collect();
                    let reals: Vec<f64> = rows
                        .clone()
                        .filter(|i| i % 3 != 0)
                        .map(|i| i as f64 / 2.0)
                        .collect();
                    next.typed::<DoubleType>()
                        .write_batch(&reals, Some(&levels), None)
                        .expect("written");
                }
                3 => {
                    let flags: Vec<bool> = rows.clone().map(|i| i % 2 == 0).collect();
                    next.typed::<BoolType>()
                        .write_batch(&flags, None, None)
                        .expect("written");
                }
                _ => {
                    let texts: Vec<ByteArray> = rows
                        .clone()
                        .map(|i| ByteArray::from(format!("row {i}").into_bytes()))
                        .collect();
                    next.typed::<ByteArrayType>()
                        .write_batch(&texts, None, None)
                        .expect("written");
                }
            }
            next.close().expect("closed");
        }
        out.close().expect("closed");
    }
    writer.close().expect("closed");
    bytes
}

/// All values of a file, read in batches.
pub(crate) fn batchwise(path: &Path, limit: usize) -> synod_data::Result<Vec<f32>> {
    let mut reader = readers::open(path, &ReadOptions::default())?;
    let (mut batch, mut values) = (Batch::new(), Vec::new());
    while reader.read(limit, &mut batch)? > 0 {
        values.extend_from_slice(&batch.values);
    }
    Ok(values)
}
