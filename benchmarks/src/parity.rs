//! Training from given weights and data, to be compared with another framework step for step.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use synod_nn::{Data, Loss, Optimizer, Trainer, zoo};

#[derive(Clone, Copy, ValueEnum)]
enum Rule {
    Rmsprop,
    Sgd,
    Adam,
}

/// Arguments of the parity workload.
#[derive(Args)]
pub(crate) struct Parity {
    /// Initial weights: layer0.weight [in, out], layer0.bias, layer1.weight, ...
    #[arg(long)]
    weights: PathBuf,
    /// Rows of f32 as a .npy file.
    #[arg(long)]
    data: PathBuf,
    /// Optimiser steps; batches are taken in order and wrap around.
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// Rows per step.
    #[arg(long, default_value_t = 10)]
    batch: usize,
    /// The optimiser, with PyTorch's defaults.
    #[arg(long, value_enum, default_value = "rmsprop")]
    optimizer: Rule,
    /// The learning rate.
    #[arg(long, default_value_t = 1e-3)]
    lr: f32,
    /// Where the trained weights go.
    #[arg(long)]
    out: PathBuf,
}

impl Parity {
    pub(crate) fn run(&self) -> Result<()> {
        let bytes =
            std::fs::read(&self.weights).with_context(|| format!("reading {}", self.weights.display()))?;
        let file = SafeTensors::deserialize(&bytes).with_context(|| format!("{}", self.weights.display()))?;
        let tensor = |name: &str| -> Result<(Vec<usize>, Vec<f32>)> {
            let view = file
                .tensor(name)
                .with_context(|| format!("{}", self.weights.display()))?;
            ensure!(view.dtype() == Dtype::F32, "{name} is not f32");
            let words = view
                .data()
                .chunks_exact(4)
                .map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]));
            Ok((view.shape().to_vec(), words.collect()))
        };
        let mut widths = vec![];
        for layer in 0.. {
            let name = format!("layer{layer}.weight");
            if file.tensor(&name).is_err() {
                break;
            }
            let (shape, _) = tensor(&name)?;
            let [inputs, outputs] = shape[..] else {
                bail!("{name} is not a matrix")
            };
            if widths.is_empty() {
                widths.push(inputs);
            }
            widths.push(outputs);
        }
        let mut model = zoo::autoencoder(&widths, 0)?;
        for entry in model.layout().entries().to_vec() {
            let (shape, values) = tensor(&entry.name)?;
            ensure!(
                shape == entry.shape.dims(),
                "{} is {shape:?}, not {}",
                entry.name,
                entry.shape
            );
            model.parameters_mut()[entry.range].copy_from_slice(&values);
        }
        let (rows, data) = read_npy(&self.data, widths[0])?;
        let optimizer = match self.optimizer {
            Rule::Rmsprop => Optimizer::rmsprop(self.lr),
            Rule::Sgd => Optimizer::sgd(self.lr),
            Rule::Adam => Optimizer::adam(self.lr),
        };
        let mut trainer = Trainer::new(&model, Loss::Rmse, optimizer, self.batch, true, 0)?;
        let data = Data::itself(&data, widths[0]);
        for step in 0..self.steps {
            let batch: Vec<u32> = (0..self.batch)
                .map(|i| ((step * self.batch + i) % rows) as u32)
                .collect();
            trainer.step(&data, &batch, self.lr)?;
        }
        let mut tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
        for entry in model.layout().entries() {
            let values = &trainer.parameters()[entry.range.clone()];
            let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            tensors.insert(entry.name.clone(), (entry.shape.dims().to_vec(), bytes));
        }
        let view = |(name, (shape, bytes))| Ok((name, TensorView::new(Dtype::F32, shape, bytes)?));
        let views = tensors
            .iter()
            .map(|(n, (s, b))| (n.clone(), (s.clone(), &b[..])))
            .map(view);
        let out = safetensors::serialize(
            views.collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?,
            None,
        )?;
        std::fs::write(&self.out, out).with_context(|| format!("writing {}", self.out.display()))
    }
}

/// Reads a version-1 .npy file of little-endian f32 in C order with two axes.
fn read_npy(path: &std::path::Path, width: usize) -> Result<(usize, Vec<f32>)> {
    let name = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("reading {name}"))?;
    ensure!(
        bytes.starts_with(b"\x93NUMPY\x01"),
        "{name} is not a version-1 .npy file"
    );
    let length = usize::from(u16::from_le_bytes([
        *bytes.get(8).context("cut short")?,
        *bytes.get(9).context("cut short")?,
    ]));
    let header = bytes
        .get(10..10 + length)
        .with_context(|| format!("{name} is cut short"))?;
    let header = String::from_utf8_lossy(header);
    ensure!(
        header.contains("'<f4'") && header.contains("'fortran_order': False"),
        "{name}: wanted C-ordered f32, got {header}"
    );
    let data: Vec<f32> = bytes[10 + length..]
        .chunks_exact(4)
        .map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]))
        .collect();
    ensure!(
        !data.is_empty() && data.len().is_multiple_of(width),
        "{name}: {} numbers are not rows of {width}",
        data.len()
    );
    Ok((data.len() / width, data))
}
