//! One file for trainer, agent and every other reader: safetensors, with the graphs in its metadata.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use synod_core::files;

use crate::error::{Error, Result};
use crate::template::Template;
use crate::types::Shape;

const FORMAT: &str = "synod.format";
const VERSION: &str = "1";
const GRAPH: &str = "synod.graph.";
const NOTE: &str = "synod.note.";

/// A tensor with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// The name, unique in a file.
    pub name: String,
    /// The shape.
    pub shape: Shape,
    /// The elements, row-major.
    pub data: Vec<f32>,
}

/// The contents of a model file. Readable from Python with the `safetensors` package like any other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFile {
    /// Parameters and other tensors, in file order.
    pub tensors: Vec<NamedTensor>,
    /// Graphs by name.
    pub graphs: BTreeMap<String, Template>,
    /// Anything else worth keeping, as text.
    pub notes: BTreeMap<String, String>,
}

impl ModelFile {
    /// Writes the file so that a crash leaves either the old or the new one, never a part.
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes().map_err(|p| fault(path, p))?;
        files::write(path, &bytes).map_err(|e| fault(path, format!("cannot be written: {e}")))
    }

    /// Reads a file. Whatever is wrong with it is an error that says so.
    pub fn load(path: &Path) -> Result<ModelFile> {
        let bytes = fs::read(path).map_err(|e| fault(path, format!("cannot be read: {e}")))?;
        ModelFile::from_bytes(&bytes).map_err(|p| fault(path, p))
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let mut notes: HashMap<String, String> = HashMap::from([(FORMAT.into(), VERSION.into())]);
        notes.extend(
            self.graphs
                .iter()
                .map(|(k, v)| (format!("{GRAPH}{k}"), v.to_text())),
        );
        notes.extend(self.notes.iter().map(|(k, v)| (format!("{NOTE}{k}"), v.clone())));
        // The order of the tensors matters to us and is not kept by the format.
        let order: Vec<&str> = self.tensors.iter().map(|t| t.name.as_str()).collect();
        notes.insert(
            "synod.order".into(),
            serde_json::to_string(&order).map_err(|e| e.to_string())?,
        );
        let bytes: Vec<Vec<u8>> = self
            .tensors
            .iter()
            .map(|t| t.data.iter().flat_map(|x| x.to_le_bytes()).collect())
            .collect();
        let views = self.tensors.iter().zip(&bytes).map(|(t, bytes)| {
            TensorView::new(Dtype::F32, t.shape.dims().to_vec(), bytes).map(|v| (t.name.clone(), v))
        });
        let views: Vec<_> = views.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        let bytes = safetensors::serialize(views, Some(notes)).map_err(|e| e.to_string())?;
        sort_header(&bytes).ok_or_else(|| "the header just written cannot be read".into())
    }

    /// Understands a file's bytes, which may come from anywhere.
    pub fn from_bytes(bytes: &[u8]) -> Result<ModelFile, String> {
        let broken = |e: safetensors::SafeTensorError| format!("damaged or not a safetensors file ({e})");
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let notes = header.metadata().clone().unwrap_or_default();
        match notes.get(FORMAT).map(String::as_str) {
            Some(VERSION) => {}
            Some(other) => {
                return Err(format!(
                    "written by a newer Synod (format {other}); this one reads {VERSION}"
                ));
            }
            None => return Err("a safetensors file, but not one of Synod's: it carries no graph".into()),
        }
        let file = SafeTensors::deserialize(bytes).map_err(broken)?;
        let order: Vec<String> = match notes.get("synod.order") {
            Some(text) => {
                serde_json::from_str(text).map_err(|e| format!("the order of tensors is damaged ({e})"))?
            }
            None => return Err("the order of tensors is missing".into()),
        };
        if order.len() != file.len() {
            return Err(format!("{} tensors listed, {} present", order.len(), file.len()));
        }
        let tensors = order.into_iter().map(|name| {
            let view = file.tensor(&name).map_err(broken)?;
            if view.dtype() != Dtype::F32 {
                return Err(format!("tensor `{name}` is {:?}; only F32 is used", view.dtype()));
            }
            let word = |c: &[u8]| f32::from_le_bytes([c[0], c[1], c[2], c[3]]);
            let data = view.data().chunks_exact(4).map(word).collect();
            Ok(NamedTensor {
                name,
                shape: view.shape().into(),
                data,
            })
        });
        let tensors: Vec<NamedTensor> = tensors.collect::<Result<_, _>>()?;
        let (mut graphs, mut kept) = (BTreeMap::new(), BTreeMap::new());
        for (key, text) in &notes {
            if let Some(name) = key.strip_prefix(GRAPH) {
                let template =
                    Template::from_text(text).map_err(|e| format!("graph `{name}` is damaged: {e}"))?;
                graphs.insert(name.to_owned(), template);
            } else if let Some(name) = key.strip_prefix(NOTE) {
                kept.insert(name.to_owned(), text.clone());
            }
        }
        Ok(ModelFile {
            tensors,
            graphs,
            notes: kept,
        })
    }
}

fn fault(path: &Path, problem: impl Into<String>) -> Error {
    Error::File {
        path: path.display().to_string(),
        problem: problem.into(),
    }
}

/// The same safetensors file with the entries of its header in order, so that equal models are equal files; `None` if it
/// is no such file.
pub fn sort_header(bytes: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (header, data) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let header: BTreeMap<String, serde_json::Value> = serde_json::from_slice(header).ok()?;
    let mut text = serde_json::to_vec(&header).ok()?;
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut file = Vec::with_capacity(8 + text.len() + data.len());
    file.extend_from_slice(&(text.len() as u64).to_le_bytes());
    file.extend_from_slice(&text);
    file.extend_from_slice(data);
    Some(file)
}
