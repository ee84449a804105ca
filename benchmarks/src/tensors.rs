//! Files of named `f32` tensors.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use synod_nn::Layout;

/// A tensor: its extents and its elements, row-major.
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

/// All tensors of a safetensors file.
pub(crate) struct Tensors {
    path: String,
    arrays: BTreeMap<String, Array>,
}

impl Tensors {
    pub(crate) fn read(path: &Path) -> Result<Tensors> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).with_context(|| format!("reading {name}"))?;
        let file = SafeTensors::deserialize(&bytes).with_context(|| format!("reading {name}"))?;
        let mut arrays = BTreeMap::new();
        for (key, view) in file.tensors() {
            ensure!(view.dtype() == Dtype::F32, "{key} of {name} is not f32");
            let words = view.data().chunks_exact(4);
            let values = words.map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]));
            let array = Array {
                shape: view.shape().to_vec(),
                values: values.collect(),
            };
            arrays.insert(key, array);
        }
        Ok(Tensors { path: name, arrays })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.arrays.contains_key(name)
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Array> {
        match self.arrays.get(name) {
            Some(array) => Ok(array),
            None => bail!("{} has no tensor {name}", self.path),
        }
    }

    /// Copies every tensor of a layout into its place of a flat buffer.
    pub(crate) fn fill(&self, layout: &Layout, flat: &mut [f32]) -> Result<()> {
        for entry in layout.entries() {
            let found = self.get(&entry.name)?;
            ensure!(
                found.shape == entry.shape.dims(),
                "{} is {:?}, not {}",
                entry.name,
                found.shape,
                entry.shape
            );
            flat[entry.range.clone()].copy_from_slice(&found.values);
        }
        Ok(())
    }
}

/// Writes flat buffers as the named tensors of their layouts.
pub(crate) fn write(path: &Path, parts: &[(&Layout, &[f32])]) -> Result<()> {
    let entries = parts
        .iter()
        .flat_map(|(layout, flat)| layout.entries().iter().map(move |e| (e, &flat[e.range.clone()])));
    let bytes: Vec<_> = entries
        .map(|(e, values)| {
            (
                e,
                values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>(),
            )
        })
        .collect();
    let views = bytes.iter().map(|(e, b)| {
        let view = TensorView::new(Dtype::F32, e.shape.dims().to_vec(), b)?;
        Ok((e.name.clone(), view))
    });
    let views = views.collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    let file = safetensors::serialize(views, None)?;
    std::fs::write(path, file).with_context(|| format!("writing {}", path.display()))
}
