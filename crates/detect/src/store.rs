//! A fitted detector as a file: safetensors for the numbers, JSON in its metadata for the rest.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Number, Value};

use crate::error::{Error, Result};
use crate::model::NodeModel;

/// The metadata entry that holds the JSON.
const ENTRY: &str = "synod.detector";

/// Lists of numbers at least this long are stored as tensors.
const LONG: usize = 16;

/// A file larger than this is no detector.
const LARGEST: u64 = 1 << 30;

impl NodeModel {
    /// Writes the detector beside, syncs, and renames: the file is whole or absent.
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
        let metadata = HashMap::from([(ENTRY.to_owned(), value.to_string())]);
        let written = |e: safetensors::SafeTensorError| stored(format!("cannot be written: {e}"));
        let bytes = safetensors::serialize(views.map_err(written)?, Some(metadata)).map_err(written)?;
        let beside = path.with_extension("partial");
        let io = |doing| {
            move |source| Error::Io {
                doing,
                path: path.to_path_buf(),
                source,
            }
        };
        let mut file = fs::File::create(&beside).map_err(io("create the file"))?;
        file.write_all(&bytes).map_err(io("write the file"))?;
        file.sync_all().map_err(io("write the file to disk"))?;
        fs::rename(&beside, path).map_err(io("put the file in its place"))
    }

    /// Reads what [`NodeModel::save`] wrote.
    pub fn load(path: impl AsRef<Path>) -> Result<NodeModel> {
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
        let mut value: Value = serde_json::from_str(text).map_err(|e| damaged(e.to_string()))?;
        lower(&mut value, "", &tensors).map_err(damaged)?;
        let model: NodeModel = serde_json::from_value(value).map_err(|e| damaged(e.to_string()))?;
        model.check().map_err(damaged)?;
        Ok(model)
    }
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
