//! PyTorch's weights for models of the zoo: a state dict, stored as safetensors.
//!
//! Modules are matched by name: those of Synod's own layers, torchvision's for residual networks, those of PyTorch's
//! examples for the variational autoencoder. Kinds of modules that are not all named so are matched in the natural order of
//! their names, as `0`, `2`, `4` of an `nn.Sequential` or `conv1`, `conv2`.

mod names;
mod tensors;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use synod_nn::Model;

use crate::error::{Error, Result, fault};
use names::{Kind, Module, matched};
use tensors::Array;

/// Fills a model with the tensors of a safetensors file. All misfits are listed in one error, and then nothing is changed.
pub fn load(model: &mut Model, path: &Path) -> Result<()> {
    let bytes = std::fs::read(path).map_err(|e| fault(path, format!("cannot be read: {e}")))?;
    load_bytes(model, &bytes, path)
}

/// [`load`] from bytes; `name` stands in errors.
pub fn load_bytes(model: &mut Model, bytes: &[u8], name: &Path) -> Result<()> {
    let tensors = tensors::read(bytes).map_err(|p| fault(name, p))?;
    let (parameters, buffers) = filled(model, &tensors).map_err(|problems| Error::Misfits {
        path: name.to_owned(),
        problems,
    })?;
    model.parameters_mut().copy_from_slice(&parameters);
    model.buffers_mut().copy_from_slice(&buffers);
    Ok(())
}

type Tensors = BTreeMap<String, Array>;

/// The parameters and buffers that the tensors make, or all that does not fit.
fn filled(model: &Model, tensors: &Tensors) -> Result<(Vec<f32>, Vec<f32>), Vec<String>> {
    let theirs = names::theirs(tensors);
    let ours = names::ours(model);
    let mut problems = vec![];
    let mut used: BTreeSet<String> = BTreeSet::new();
    let pairs = matched(&ours, &theirs, &mut problems);
    let mut values = (model.parameters().to_vec(), model.buffers().to_vec());
    let flattened = flattened_channels(model);
    for (layouts, values, rows) in [
        (model.layout(), &mut values.0, flattened),
        (model.buffer_layout(), &mut values.1, None),
    ] {
        for entry in layouts.entries() {
            let (prefix, leaf) = entry.name.rsplit_once('.').unwrap_or(("", &entry.name));
            let Some(module) = pairs.get(prefix) else {
                continue;
            };
            let wanted = module.tensors(leaf);
            let found: Vec<&Array> = wanted.iter().filter_map(|n| tensors.get(n)).collect();
            if found.len() != wanted.len() {
                problems.push(format!("`{}` needs `{}`", entry.name, wanted.join("` and `")));
                continue;
            }
            used.extend(wanted.iter().cloned());
            let channels = rows.filter(|_| entry.name == "dense0.weight");
            match arranged(&found, module.kind, leaf, entry.shape.dims(), channels) {
                Ok(made) => values[entry.range.clone()].copy_from_slice(&made),
                Err(problem) => problems.push(format!(
                    "`{}` {} from `{}`: {problem}",
                    entry.name,
                    entry.shape,
                    wanted.join("` and `")
                )),
            }
        }
    }
    let counter = |name: &str| name.ends_with("num_batches_tracked");
    let unused = tensors.keys().filter(|n| !used.contains(*n) && !counter(n));
    problems.extend(unused.map(|n| format!("`{n}` belongs to nothing in the model")));
    match problems.is_empty() {
        true => Ok(values),
        false => Err(problems),
    }
}

/// The zoo's convolutional network flattens images before its first dense layer; PyTorch's rows then run by channel.
fn flattened_channels(model: &Model) -> Option<usize> {
    let entries = model.layout().entries();
    let last = entries.iter().find(|e| e.name == "conv1.weight")?;
    last.shape.dims().last().copied()
}

/// PyTorch's tensors in Synod's order, their extents checked.
fn arranged(
    found: &[&Array],
    kind: Kind,
    leaf: &str,
    dims: &[usize],
    flattened: Option<usize>,
) -> Result<Vec<f32>, String> {
    let [first, rest @ ..] = found else {
        return Err("there are no tensors".into());
    };
    let order: &[usize] = match (kind, leaf) {
        (Kind::Conv, "weight") => &[2, 3, 1, 0],
        (Kind::Dense, "weight") | (Kind::Lstm | Kind::Gru, "from_input" | "from_state") => &[1, 0],
        _ => &[0, 1][..dims.len().min(2)],
    };
    let fits =
        |a: &Array| a.dims.len() == order.len() && order.iter().map(|&i| a.dims[i]).eq(dims.iter().copied());
    if let Some(bad) = found.iter().find(|a| !fits(a)) {
        return Err(format!("its extents are {:?}", bad.dims));
    }
    let mut values = first.values.clone();
    for more in rest {
        // PyTorch's two biases of an LSTM only ever occur as a sum.
        values.iter_mut().zip(&more.values).for_each(|(v, m)| *v += m);
    }
    let (_, values) = crate::export::transposed(&first.dims, &values.into(), order);
    Ok(match (flattened, dims) {
        (Some(channels), &[inputs, outputs]) if channels > 0 && inputs.is_multiple_of(channels) => {
            let places = inputs / channels;
            let row = |i: usize| (i % channels) * places + i / channels;
            let rows = (0..inputs).flat_map(|i| &values[row(i) * outputs..(row(i) + 1) * outputs]);
            rows.copied().collect()
        }
        _ => values.to_vec(),
    })
}

impl Module {
    /// The names of PyTorch's tensors that make up a parameter or buffer.
    fn tensors(&self, leaf: &str) -> Vec<String> {
        let full = |leaf: &str| match self.prefix.as_str() {
            "" => leaf.to_owned(),
            prefix => format!("{prefix}.{leaf}"),
        };
        let layer = |name: &str| full(&format!("{name}_l{}", self.layer));
        match (self.kind, leaf) {
            (Kind::Lstm | Kind::Gru, "from_input") => vec![layer("weight_ih")],
            (Kind::Lstm | Kind::Gru, "from_state") => vec![layer("weight_hh")],
            (Kind::Lstm, "bias") => vec![layer("bias_ih"), layer("bias_hh")],
            (Kind::Gru, "input_bias") => vec![layer("bias_ih")],
            (Kind::Gru, "state_bias") => vec![layer("bias_hh")],
            (Kind::Norm, "scale") => vec![full("weight")],
            (Kind::Norm, "shift") => vec![full("bias")],
            (Kind::Norm, "running_variance") => vec![full("running_var")],
            (Kind::Embedding, "table") => vec![full("weight")],
            (_, leaf) => vec![full(leaf)],
        }
    }
}
