//! Models of bytes as files: safetensors like every model of Synod's, the steps in its metadata.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use super::bytes::{ByteLayer, Quantised};
use super::grid::Grid;
use super::network::Network;
use crate::error::{Error, Result};

const FORMAT: &str = "synod.quantised";
const VERSION: &str = "1";
const STEPS: &str = "synod.steps";

/// What a file says beside its tensors.
#[derive(Serialize, Deserialize)]
struct Description {
    network: Network,
    grids: Vec<Option<Grid>>,
    /// The names of the layers, in order.
    layers: Vec<String>,
}

impl Quantised {
    /// Stores the model; the file is whole or absent.
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes()?;
        synod_core::files::write(path, &bytes).map_err(|e| Error::File {
            path: path.to_owned(),
            problem: format!("cannot be written: {e}"),
        })
    }

    /// Loads a stored model. A damaged or foreign file is an error that says what is wrong.
    pub fn load(path: &Path) -> Result<Quantised> {
        let fault = |problem: String| Error::File {
            path: path.to_owned(),
            problem,
        };
        let bytes = std::fs::read(path).map_err(|e| fault(format!("cannot be read: {e}")))?;
        Quantised::from_bytes(&bytes).map_err(fault)
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let description = Description {
            network: self.network.clone(),
            grids: self.own_grids(),
            layers: self.layers.iter().map(|l| l.name.clone()).collect(),
        };
        let fail = |e: &dyn std::fmt::Display| Error::Data(format!("the model cannot be stored: {e}"));
        let text = serde_json::to_string(&description).map_err(|e| fail(&e))?;
        let notes = HashMap::from([(FORMAT.into(), VERSION.into()), (STEPS.into(), text)]);
        let mut tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = vec![];
        for (layer, form) in self.layers.iter().zip(self.network.forms()) {
            let words = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            let name = |part: &str| format!("{}.{part}", layer.name);
            let weight = layer.weight.iter().map(|w| w.to_le_bytes()[0]).collect();
            tensors.push((name("weight"), Dtype::I8, form.weight(), weight));
            let outputs = vec![form.outputs()];
            tensors.push((name("scale"), Dtype::F32, outputs.clone(), words(&layer.scales)));
            tensors.push((name("bias"), Dtype::F32, outputs, words(&layer.bias)));
        }
        let views = tensors
            .iter()
            .map(|(name, kind, shape, data)| Ok((name, TensorView::new(*kind, shape.clone(), data)?)));
        let views: Vec<_> = views
            .collect::<Result<_, safetensors::SafeTensorError>>()
            .map_err(|e| fail(&e))?;
        let bytes = safetensors::serialize(views, Some(notes)).map_err(|e| fail(&e))?;
        synod_engine::sort_header(&bytes).ok_or_else(|| fail(&"the header just written cannot be read"))
    }

    /// Understands a file's bytes, which may come from anywhere.
    pub fn from_bytes(bytes: &[u8]) -> Result<Quantised, String> {
        let broken = |e: safetensors::SafeTensorError| format!("damaged or not a safetensors file ({e})");
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let notes = header.metadata().clone().unwrap_or_default();
        match notes.get(FORMAT).map(String::as_str) {
            Some(VERSION) => {}
            Some(other) => {
                return Err(format!(
                    "written by a newer Synod (quantised format {other}); this one reads {VERSION}"
                ));
            }
            None => return Err("a safetensors file, but not a quantised model of Synod's".into()),
        }
        let text = notes.get(STEPS).ok_or("the steps of the model are missing")?;
        let description: Description =
            serde_json::from_str(text).map_err(|e| format!("the steps of the model are damaged: {e}"))?;
        let file = SafeTensors::deserialize(bytes).map_err(broken)?;
        if file.len() != 3 * description.layers.len() {
            return Err(format!(
                "{} tensors for {} layers of three each",
                file.len(),
                description.layers.len()
            ));
        }
        // Shapes come first: what follows relies on them.
        description.network.shapes()?;
        let mut layers = vec![];
        for (name, form) in description.layers.into_iter().zip(description.network.forms()) {
            let outputs = [form.outputs()];
            layers.push(ByteLayer {
                weight: tensor(&file, &name, "weight", Dtype::I8, &form.weight())?
                    .iter()
                    .map(|&b| i8::from_le_bytes([b]))
                    .collect(),
                scales: numbers(tensor(&file, &name, "scale", Dtype::F32, &outputs)?),
                bias: numbers(tensor(&file, &name, "bias", Dtype::F32, &outputs)?),
                name,
            });
        }
        Quantised::from_parts(description.network, layers, &description.grids)
    }
}

fn tensor<'a>(
    file: &SafeTensors<'a>,
    layer: &str,
    part: &str,
    kind: Dtype,
    shape: &[usize],
) -> Result<&'a [u8], String> {
    let name = format!("{layer}.{part}");
    let view = file
        .tensor(&name)
        .map_err(|_| format!("the tensor `{name}` is missing"))?;
    match view.dtype() == kind && view.shape() == shape {
        true => Ok(view.data()),
        false => Err(format!(
            "the tensor `{name}` is {:?} {:?}, not {kind:?} {shape:?}",
            view.dtype(),
            view.shape()
        )),
    }
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    let word = |c: &[u8]| f32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    bytes.chunks_exact(4).map(word).collect()
}
