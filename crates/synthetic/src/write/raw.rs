//! The cluster's readings one by one, in the layout of the raw M100 data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use synod_core::Truth;
use synod_core::files::Whole;
use synod_core::time::Timestamp;
use synod_telemetry::Result;

use super::frames::{label, timestamp};
use super::{io_error, name, parquet_error};
use crate::catalogue::Metric;
use crate::cluster::Cluster;
use crate::labels;
use crate::node::NodeCourse;
use crate::options::STEP;
use crate::sampling::Sampler;

/// Writes `year_month=YY-MM/plugin=<plugin>/metric=<metric>/a_0.parquet` files: every reading with its time and node, and
/// the labels as the Nagios state `batchs::client::state` (2 is critical). Calls `each` after every node of every month.
///
/// Months are written one after another and nodes are computed anew for each, so that one node's month is in memory.
pub fn write_raw(cluster: &Cluster, folder: &Path, mut each: impl FnMut()) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for (name, from, to) in months(cluster) {
        let mut month = Month {
            folder: folder.join(format!("year_month={name}")),
            files: BTreeMap::new(),
        };
        for node in 0..cluster.options().nodes {
            month.node(cluster, node, from..to)?;
            each();
        }
        paths.extend(month.close()?);
    }
    Ok(paths)
}

/// The calendar months that a cluster's days touch: [`write_raw`] calls back once for each and every node.
pub fn month_count(cluster: &Cluster) -> usize {
    months(cluster).len()
}

/// The months' names and windows.
fn months(cluster: &Cluster) -> Vec<(String, usize, usize)> {
    let options = cluster.options();
    let mut all: Vec<(String, usize, usize)> = Vec::new();
    for day in 0..options.days {
        let start = Timestamp::from_seconds(options.start + 86_400 * day as i64);
        let date = start.calendar().expect("a cluster's ten years begin before 2100");
        let name = format!("{:02}-{:02}", date.year % 100, date.month);
        match all.last_mut() {
            Some(last) if last.0 == name => last.2 = (day + 1) * 96,
            _ => all.push((name, day * 96, (day + 1) * 96)),
        }
    }
    all
}

type Out = SerializedFileWriter<Whole>;

/// The open files of one month.
struct Month {
    folder: PathBuf,
    files: BTreeMap<String, (PathBuf, Out)>,
}

/// One metric's readings on one node.
#[derive(Default)]
struct Readings {
    times: Vec<i64>,
    values: Vec<f64>,
}

impl Month {
    fn node(&mut self, cluster: &Cluster, index: usize, windows: std::ops::Range<usize>) -> Result<()> {
        let node = cluster.make(index)?;
        let truth = labels::written(cluster.options(), index, &node.plans, cluster.room());
        let mut sampler = Sampler::new(&node.metrics);
        let mut course = NodeCourse::new(cluster.options(), cluster.room(), node);
        let mut all: Vec<Readings> = course.node.metrics.iter().map(|_| Readings::default()).collect();
        let mut states = Readings::default();
        while let Some(mut moment) = course.advance().filter(|m| m.window < windows.end) {
            if moment.window < windows.start || moment.is_lost() {
                continue;
            }
            let begin = cluster.options().start + moment.window as i64 * STEP;
            if let Some(state) = label(truth.get(moment.window).copied().unwrap_or(Truth::Unknown)) {
                states.times.push(1000 * begin);
                states.values.push(2.0 * state);
            }
            let (metrics, held) = (&course.node.metrics, course.held());
            moment.readings(metrics, held, &mut sampler, |i, readings| {
                let (Some(metric), Some(kept)) = (metrics.get(i), all.get_mut(i)) else {
                    return;
                };
                for (k, value) in readings.enumerate() {
                    kept.times.push(1000 * (begin + k as i64 * metric.period));
                    kept.values.push(value);
                }
            });
        }
        let name = cluster.name(index);
        for (metric, readings) in course.node.metrics.iter().zip(&all) {
            self.put(metric, &name, readings)?;
        }
        self.put_states(&name, &states)
    }

    fn put(&mut self, metric: &Metric, node: &str, readings: &Readings) -> Result<()> {
        let plugin = if metric.is_ganglia() {
            "ganglia_pub"
        } else {
            "ipmi_pub"
        };
        let whole_numbers = metric.quantum.fract() == 0.0;
        let place = format!("plugin={plugin}/metric={}", metric.name);
        let (path, file) = self.file(&place, whole_numbers, &["node"])?;
        let tags = [node];
        group(file, readings, whole_numbers, &tags).map_err(parquet_error(path))
    }

    fn put_states(&mut self, node: &str, readings: &Readings) -> Result<()> {
        let (path, file) = self.file("plugin=nagios_pub/metric=state", true, &["node", "description"])?;
        let tags = [node, "batchs::client::state"];
        group(file, readings, true, &tags).map_err(parquet_error(path))
    }

    fn file(&mut self, place: &str, whole_numbers: bool, tags: &[&str]) -> Result<(&Path, &mut Out)> {
        if !self.files.contains_key(place) {
            let folder = self.folder.join(place);
            std::fs::create_dir_all(&folder).map_err(io_error("create the folder", &folder))?;
            let path = folder.join("a_0.parquet");
            let file = Whole::create(&path).map_err(io_error("create the file", &path))?;
            let made = open(file, whole_numbers, tags).map_err(parquet_error(&path))?;
            self.files.insert(place.to_owned(), (path, made));
        }
        match self.files.get_mut(place) {
            Some((path, file)) => Ok((path, file)),
            None => Err(synod_telemetry::Error::Setting(format!("{place} is not open"))),
        }
    }

    fn close(self) -> Result<Vec<PathBuf>> {
        let close = |(path, file): (PathBuf, Out)| {
            let file = file.into_inner().map_err(parquet_error(&path))?;
            name(file, &path)?;
            Ok(path)
        };
        self.files.into_values().map(close).collect()
    }
}

fn open(file: Whole, whole_numbers: bool, tags: &[&str]) -> ParquetResult<Out> {
    let kind = if whole_numbers {
        Physical::INT32
    } else {
        Physical::FLOAT
    };
    let value = Type::primitive_type_builder("value", kind)
        .with_repetition(Repetition::REQUIRED)
        .build()?;
    let mut fields = vec![Arc::new(timestamp()?), Arc::new(value)];
    for tag in tags {
        let tag = Type::primitive_type_builder(tag, Physical::BYTE_ARRAY)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::String))
            .build()?;
        fields.push(Arc::new(tag));
    }
    let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_created_by("synod".to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .build();
    SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
}

fn group(file: &mut Out, readings: &Readings, whole_numbers: bool, tags: &[&str]) -> ParquetResult<()> {
    if readings.times.is_empty() {
        return Ok(());
    }
    let mut group = file.next_row_group()?;
    if let Some(mut column) = group.next_column()? {
        column
            .typed::<Int64Type>()
            .write_batch(&readings.times, None, None)?;
        column.close()?;
    }
    if let Some(mut column) = group.next_column()? {
        match whole_numbers {
            true => {
                let values: Vec<i32> = readings.values.iter().map(|v| *v as i32).collect();
                column.typed::<Int32Type>().write_batch(&values, None, None)?
            }
            false => {
                let values: Vec<f32> = readings.values.iter().map(|v| *v as f32).collect();
                column.typed::<FloatType>().write_batch(&values, None, None)?
            }
        };
        column.close()?;
    }
    for tag in tags {
        let values = vec![ByteArray::from(*tag); readings.times.len()];
        if let Some(mut column) = group.next_column()? {
            column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            column.close()?;
        }
    }
    group.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterOptions;

    #[test]
    fn days_have_the_months_of_the_calendar() -> Result<()> {
        let cluster = Cluster::new(ClusterOptions {
            nodes: 1,
            days: 35,
            // 28 February 2020.
            start: 86_400 * 18_320,
            ..ClusterOptions::default()
        })?;
        let expected = [("20-02", 0, 2), ("20-03", 2, 33), ("20-04", 33, 35)];
        let expected = expected.map(|(name, from, to)| (name.to_owned(), 96 * from, 96 * to));
        assert_eq!(months(&cluster), expected);
        Ok(())
    }
}
