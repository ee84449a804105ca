//! Frames as record files: one node's windows, with times in nanoseconds and what is known of them as the label.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use synod_data::record::{Label, LabelKind, Reader, Schema, Writer};

use super::source;
use crate::{
    Frame, Truth,
    error::{Error, Result},
};

const SECOND: i64 = 1_000_000_000;
/// What every record file begins with.
const MAGIC: &[u8; 8] = b"SYNODREC";

/// The file of a node in a folder, `<node>.record`. An error if the name could lead elsewhere: it may come from anyone who
/// can send telemetry.
pub fn file(folder: &Path, node: &str) -> Result<PathBuf> {
    match is_name(node) {
        true => Ok(folder.join(format!("{node}.record"))),
        false => Err(Error::Setting(format!(
            "{node:?} cannot be the name of a node; names are up to 200 letters, digits, dots, dashes and underscores"
        ))),
    }
}

/// Whether a node may be called so: its name becomes that of files.
pub(super) fn is_name(node: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=200).contains(&node.len()) && !node.starts_with('.') && node.chars().all(plain)
}

/// Whether a file begins like a record file.
pub fn is_record(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == *MAGIC
}

/// The layout of a node's record file: its metrics, and under free keys its name and its step in seconds.
pub fn schema(node: &str, step: i64, metrics: &[String]) -> Schema {
    let schema = Schema::new(metrics.iter().cloned()).labelled(LabelKind::Real);
    schema.with("node", node).with("step", step.to_string())
}

/// Appends one window to a node's record file, starting at `time` seconds.
pub fn push(writer: &mut Writer, time: i64, truth: Truth, row: &[f32]) -> Result<()> {
    let label = match truth {
        Truth::Healthy => 0.0,
        Truth::Anomalous => 1.0,
        Truth::Unknown => f32::NAN,
    };
    Ok(writer.push_labelled(time.saturating_mul(SECOND), Label::Real(label), row)?)
}

/// Writes a frame. The file is whole or absent.
pub fn save(frame: &Frame, path: impl AsRef<Path>) -> Result<()> {
    let mut writer = Writer::create_whole(path, &schema(frame.node(), frame.step(), frame.metrics()))?;
    for (i, (&time, &truth)) in frame.times().iter().zip(frame.truth()).enumerate() {
        push(&mut writer, time, truth, frame.row(i))?;
    }
    Ok(writer.finish()?)
}

/// Reads a frame that [`save`] or an import wrote.
pub fn load(path: impl AsRef<Path>) -> Result<Frame> {
    let path = path.as_ref();
    let reader = Reader::open(path)?;
    let key = |name: &str| reader.schema().user.get(name);
    let missing = |what: &str| {
        source(
            path,
            format!("it does not say its {what}"),
            "is it a record file of windows?",
        )
    };
    let node = key("node")
        .filter(|node| is_name(node))
        .ok_or_else(|| missing("node"))?;
    let step = key("step")
        .and_then(|step| step.parse().ok())
        .ok_or_else(|| missing("step"))?;
    let (mut times, mut truth, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..reader.pages() {
        let page = reader.page(number)?;
        for row in 0..page.rows() {
            times.push(
                page.times
                    .get(row)
                    .copied()
                    .unwrap_or_default()
                    .div_euclid(SECOND),
            );
            let label = page
                .labels
                .get(row)
                .map_or(f32::NAN, |label| label.value() as f32);
            truth.push(Truth::from_label(label));
            values.extend_from_slice(page.row(row).unwrap_or_default());
        }
    }
    let frame = Frame::new(node.clone(), step, times, reader.schema().columns.clone(), values)?;
    Ok(frame.with_truth(truth)?)
}
