//! Rows from a record file: scanned, and fed to training.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use synod_data::pipeline::Pipeline;
use synod_data::record::{Filter, Label, LabelKind, Reader, Schema, Writer};

use super::{classes, print, rows, timed};
use crate::Common;

const ROWS: usize = 1_000_000;
const COLUMNS: usize = 40;
const LABELS: usize = 10;
/// What the scan looks for: a tenth of the times, one label of ten.
const TIMES: std::ops::Range<i64> = 450_000..550_000;
const LABEL: u8 = 3;
const FILE: &str = "rows.synod";

/// Writes a million labelled rows, one a second, as a record file, and the same as .npy files for the rivals.
pub(crate) fn make(directory: &Path) -> Result<()> {
    let place = || format!("writing to {}", directory.display());
    std::fs::create_dir_all(directory).with_context(place)?;
    let (values, labels) = (rows(ROWS * COLUMNS, 1), classes(ROWS, LABELS, 2));
    let names = (0..COLUMNS).map(|c| format!("c{c}"));
    let schema = Schema::new(names).labelled(LabelKind::Int);
    let mut writer = Writer::create(directory.join(FILE), &schema)?;
    for (i, (row, label)) in values.chunks_exact(COLUMNS).zip(&labels).enumerate() {
        writer.push_labelled(i as i64, Label::Int(*label as i32), row)?;
    }
    writer.finish()?;
    let shape = format!("({ROWS}, {COLUMNS})");
    npy(&directory.join("labels.npy"), &format!("({ROWS},)"), &labels).with_context(place)?;
    npy(&directory.join("values.npy"), &shape, &values).with_context(place)
}

/// Writes a version-1 .npy file.
fn npy(path: &Path, shape: &str, values: &[f32]) -> std::io::Result<()> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    // The header ends in a new line at a multiple of 64 bytes.
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&(header.len() as u16).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for x in values {
        file.write_all(&x.to_le_bytes())?;
    }
    file.flush()
}

/// Opens the file, finds the rows of a time range and a label, and sums each of their columns.
pub(crate) fn scan(directory: &Path, common: Common) -> Result<()> {
    let path = directory.join(FILE);
    let filter = Filter::all()
        .time(TIMES)
        .label(f64::from(LABEL)..=f64::from(LABEL));
    let (mut sums, mut matches) = ([0.0f64; COLUMNS], 0usize);
    let seconds = timed(common, 2, || {
        let reader = Reader::open(&path)?;
        (sums, matches) = ([0.0; COLUMNS], 0);
        for found in reader.scan(&filter)? {
            let row = found?.values;
            sums.iter_mut().zip(row).for_each(|(s, x)| *s += f64::from(*x));
            matches += 1;
        }
        ensure!(matches > 0, "no row matches");
        Ok(())
    })?;
    let total: f64 = sums.iter().sum();
    let line = json!({ "workload": "record-scan", "matches": matches, "total": total });
    print(line, seconds, ROWS as f64, 0.0, common.threads);
    Ok(())
}

/// One epoch of shuffled batches.
pub(crate) fn pipeline(directory: &Path, batch: usize, common: Common) -> Result<()> {
    let reader = Arc::new(Reader::open(directory.join(FILE))?);
    let rows = reader.rows();
    let builder = Pipeline::over(reader).batch(batch).seed(1);
    let mut pipeline = builder.workers(1..=common.threads.max(1)).start()?;
    let mut first = 0.0;
    let seconds = timed(common, 2, || {
        let mut seen = 0;
        while let Some(batch) = pipeline.next_batch()? {
            seen += batch.rows().len();
            first += batch.values()[0];
        }
        ensure!(seen == rows, "{seen} rows of {rows}");
        Ok(())
    })?;
    let (workers, depth) = pipeline.effort();
    let line = json!({
        "workload": "pipeline", "batch": batch, "workers": workers, "depth": depth, "first": first,
    });
    print(line, seconds, rows as f64, 0.0, common.threads);
    Ok(())
}
