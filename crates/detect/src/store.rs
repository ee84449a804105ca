//! A fitted detector as a file: safetensors for the numbers, JSON in its metadata for the rest.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Number, Value};
use synod_core::{Digest, Hasher, files};

use crate::detector::Method;
use crate::error::{Error, Result};
use crate::model::NodeModel;

/// The metadata entry that holds the JSON.
const ENTRY: &str = "synod.detector";

/// The metadata entry that holds a digest of the JSON and of all numbers.
const DIGEST: &str = "synod.digest";

/// Lists of numbers at least this long are stored as tensors.
const LONG: usize = 16;

/// A file larger than this is no detector.
const LARGEST: u64 = 1 << 30;

impl NodeModel {
    /// Writes the detector, with a digest of all of it; the file is whole or absent.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let stored = |problem: String| Error::Stored {
            path: path.to_path_buf(),
            problem,
        };
        let mut value = serde_json::to_value(self).map_err(|e| stored(format!("cannot be written: {e}")))?;
        let mut lists: Vec<(String, Vec<u8>, usize)> = vec![];
        hoist(&mut value, "", &mut lists);
        let views: Result<Vec<_>, _> = lists
            .iter()
            .map(|(name, bytes, len)| Ok((name, TensorView::new(Dtype::F32, vec![*len], bytes)?)))
            .collect();
        let text = value.to_string();
        let digest = digest(
            &text,
            lists
                .iter()
                .map(|(name, bytes, _)| (name.as_str(), bytes.as_slice())),
        );
        let metadata = HashMap::from([(ENTRY.to_owned(), text), (DIGEST.to_owned(), digest.to_string())]);
        let written = |e: safetensors::SafeTensorError| stored(format!("cannot be written: {e}"));
        let bytes = safetensors::serialize(views.map_err(written)?, Some(metadata)).map_err(written)?;
        files::write(path, &bytes).map_err(|source| Error::Io {
            doing: "write the detector",
            path: path.to_path_buf(),
            source,
        })
    }

    /// Reads what [`NodeModel::save`] wrote.
    pub fn load(path: impl AsRef<Path>) -> Result<NodeModel> {
        NodeModel::load_with(path, &[])
    }

    /// The same, of a detector that has members of other methods than Synod's own.
    pub fn load_with(path: impl AsRef<Path>, methods: &[&dyn Method]) -> Result<NodeModel> {
        let path = path.as_ref();
        let io = |source| Error::Io {
            doing: "read the detector",
            path: path.to_path_buf(),
            source,
        };
        let damaged = |problem: String| Error::Stored {
            path: path.to_path_buf(),
            problem: format!("it is no detector or it is damaged: {problem}; train it again"),
        };
        let length = fs::metadata(path).map_err(io)?.len();
        if length > LARGEST {
            return Err(damaged(format!("{length} bytes are too many")));
        }
        let bytes = fs::read(path).map_err(io)?;
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| damaged(e.to_string()))?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|e| damaged(e.to_string()))?;
        let text = header.metadata().as_ref().and_then(|m| m.get(ENTRY));
        let text = text.ok_or_else(|| damaged("it says nothing of a detector".to_owned()))?;
        let stored = tensors.iter().map(|(name, tensor)| (name, tensor.data()));
        let metadata = header.metadata().as_ref();
        if metadata.and_then(|m| m.get(DIGEST)) != Some(&digest(text, stored).to_string()) {
            return Err(damaged("its digest is not that of what it holds".to_owned()));
        }
        let mut value: Value = serde_json::from_str(text).map_err(|e| damaged(e.to_string()))?;
        lower(&mut value, "", &tensors).map_err(damaged)?;
        let mut model: NodeModel = serde_json::from_value(value).map_err(|e| damaged(e.to_string()))?;
        model.revive(methods).map_err(damaged)?;
        model.check().map_err(damaged)?;
        Ok(model)
    }
}

/// The digest of the JSON and of tensors, by their names.
fn digest<'a>(text: &str, tensors: impl Iterator<Item = (&'a str, &'a [u8])>) -> Digest {
    let tensors: BTreeMap<&str, &[u8]> = tensors.collect();
    let mut hasher = Hasher::new();
    hasher.update(text.as_bytes());
    for (name, bytes) in tensors {
        hasher.update(name.as_bytes());
        hasher.update(bytes);
    }
    hasher.finish()
}

/// Moves long lists of real numbers out of a value, by their places in it.
fn hoist(value: &mut Value, place: &str, lists: &mut Vec<(String, Vec<u8>, usize)>) {
    match value {
        Value::Array(items) if items.len() >= LONG && items.iter().all(Value::is_f64) => {
            let number = |v: &Value| v.as_f64().unwrap_or(0.0) as f32;
            let bytes = items.iter().flat_map(|v| number(v).to_le_bytes()).collect();
            lists.push((place.to_owned(), bytes, items.len()));
            *value = Value::String(format!("tensor {place}"));
        }
        Value::Array(items) => {
            items
                .iter_mut()
                .enumerate()
                .for_each(|(i, v)| hoist(v, &format!("{place}/{i}"), lists));
        }
        Value::Object(entries) => {
            entries
                .iter_mut()
                .for_each(|(k, v)| hoist(v, &format!("{place}/{k}"), lists));
        }
        _ => {}
    }
}

/// Puts lists back.
fn lower(value: &mut Value, place: &str, tensors: &SafeTensors<'_>) -> std::result::Result<(), String> {
    match value {
        Value::String(text) if *text == format!("tensor {place}") => {
            let tensor = tensors.tensor(place).map_err(|e| e.to_string())?;
            if tensor.dtype() != Dtype::F32 {
                return Err(format!("{place} is not of single precision"));
            }
            let number = |b: &[u8]| {
                let array: [u8; 4] = b.try_into().map_err(|_| format!("{place} breaks off"))?;
                let number = Number::from_f64(f64::from(f32::from_le_bytes(array)));
                number
                    .map(Value::Number)
                    .ok_or_else(|| format!("{place} holds what is no number"))
            };
            *value = Value::Array(tensor.data().chunks(4).map(number).collect::<Result<_, _>>()?);
        }
        Value::Array(items) => {
            for (i, v) in items.iter_mut().enumerate() {
                lower(v, &format!("{place}/{i}"), tensors)?;
            }
        }
        Value::Object(entries) => {
            for (k, v) in entries.iter_mut() {
                lower(v, &format!("{place}/{k}"), tensors)?;
            }
        }
        _ => {}
    }
    Ok(())
}
