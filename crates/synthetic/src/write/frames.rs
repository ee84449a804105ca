//! One node's frames as one file.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{DoubleType, FloatType, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use synod_core::files::Whole;
use synod_core::{Frame, Truth};
use synod_data::record::Writer;
use synod_telemetry::Result;
use synod_telemetry::sources::records;

use super::{Written, parquet_error, whole};
use crate::{cluster::NodeParts, options::STEP};

/// A Parquet file with a row group per frame.
pub(super) fn parquet(parts: NodeParts<'_>, path: &Path) -> Result<Written> {
    let schema = schema(parts.columns()).map_err(parquet_error(path))?;
    let mut written = Written {
        columns: parts.columns().len(),
        ..Written::default()
    };
    whole(path, |file| {
        let mut writer =
            SerializedFileWriter::new(file, schema, Arc::new(properties()?)).map_err(parquet_error(path))?;
        for frame in parts {
            let frame = frame?;
            written.add(frame.truth());
            group(&mut writer, &frame).map_err(parquet_error(path))?;
        }
        writer.close().map_err(parquet_error(path))?;
        Ok(())
    })?;
    Ok(written)
}

fn schema(columns: &[String]) -> ParquetResult<Arc<Type>> {
    let mut fields = vec![Arc::new(timestamp()?)];
    for name in columns {
        fields.push(Arc::new(optional(name, Physical::FLOAT)?));
    }
    fields.push(Arc::new(optional("value", Physical::DOUBLE)?));
    Ok(Arc::new(
        Type::group_type_builder("schema").with_fields(fields).build()?,
    ))
}

/// Milliseconds since 1970, UTC.
pub(super) fn timestamp() -> ParquetResult<Type> {
    let kind = LogicalType::timestamp(true, TimeUnit::MILLIS);
    Type::primitive_type_builder("timestamp", Physical::INT64)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(kind))
        .build()
}

fn optional(name: &str, kind: Physical) -> ParquetResult<Type> {
    Type::primitive_type_builder(name, kind)
        .with_repetition(Repetition::OPTIONAL)
        .build()
}

/// Values are split into byte streams, which suits sensors: their high bytes hardly change.
fn properties() -> Result<WriterProperties> {
    let level = ZstdLevel::try_new(1).map_err(parquet_error(Path::new("")))?;
    let time = ColumnPath::from("timestamp");
    Ok(WriterProperties::builder()
        .set_created_by("synod".to_owned())
        .set_compression(Compression::ZSTD(level))
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::BYTE_STREAM_SPLIT)
        .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .build())
}

fn group(writer: &mut SerializedFileWriter<&mut Whole>, frame: &Frame) -> ParquetResult<()> {
    let mut group = writer.next_row_group()?;
    let times: Vec<i64> = frame.times().iter().map(|t| 1000 * t).collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int64Type>().write_batch(&times, None, None)?;
        column.close()?;
    }
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for c in 0..frame.width() {
        let Some(mut column) = group.next_column()? else {
            break;
        };
        values.clear();
        levels.clear();
        for value in frame.values().iter().skip(c).step_by(frame.width()) {
            levels.push(i16::from(!value.is_nan()));
            if !value.is_nan() {
                values.push(*value);
            }
        }
        column
            .typed::<FloatType>()
            .write_batch(&values, Some(&levels), None)?;
        column.close()?;
    }
    let labels: Vec<f64> = frame.truth().iter().filter_map(|t| label(*t)).collect();
    let levels: Vec<i16> = frame
        .truth()
        .iter()
        .map(|t| i16::from(label(*t).is_some()))
        .collect();
    if let Some(mut column) = group.next_column()? {
        column
            .typed::<DoubleType>()
            .write_batch(&labels, Some(&levels), None)?;
        column.close()?;
    }
    group.close()?;
    Ok(())
}

pub(super) fn label(truth: Truth) -> Option<f64> {
    match truth {
        Truth::Healthy => Some(0.0),
        Truth::Anomalous => Some(1.0),
        Truth::Unknown => None,
    }
}

/// A record file, as imports write them.
pub(super) fn record(parts: NodeParts<'_>, node: &str, path: &Path) -> Result<Written> {
    let mut writer = Writer::create_whole(path, &records::schema(node, STEP, parts.columns()))?;
    let mut written = Written {
        columns: parts.columns().len(),
        ..Written::default()
    };
    for frame in parts {
        let frame = frame?;
        written.add(frame.truth());
        for (row, (time, truth)) in frame.times().iter().zip(frame.truth()).enumerate() {
            records::push(&mut writer, *time, *truth, frame.row(row))?;
        }
    }
    writer.finish()?;
    Ok(written)
}
