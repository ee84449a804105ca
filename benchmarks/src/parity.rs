//! Training from given weights and data, to be compared with another framework step for step.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use synod_nn::zoo::{self, Resnet, Version};
use synod_nn::{Data, Loss, Model, Optimizer, Trainer};

use crate::tensors::{self, Tensors};

#[derive(Clone, Copy, ValueEnum)]
enum Rule {
    Rmsprop,
    Sgd,
    Adam,
}

/// Arguments of the parity workload.
#[derive(Args)]
pub(crate) struct Parity {
    /// A model of the zoo; ResNets are for images of 64 x 64.
    #[arg(long, default_value = "autoencoder")]
    model: String,
    /// Initial parameters and buffers, by the model's names.
    #[arg(long)]
    weights: PathBuf,
    /// `inputs` and, unless they are their own targets, `targets`: one row per example.
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
        let weights = Tensors::read(&self.weights)?;
        let mut model = make(&self.model, &weights)?;
        let layout = model.layout().clone();
        weights.fill(&layout, model.parameters_mut())?;
        let layout = model.buffer_layout().clone();
        weights.fill(&layout, model.buffers_mut())?;
        let trainer = self.trained(&model)?;
        let parts = [
            (model.layout(), trainer.parameters()),
            (model.buffer_layout(), trainer.buffers()),
        ];
        tensors::write(&self.out, &parts)
    }

    fn trained(&self, model: &Model) -> Result<Trainer> {
        let file = Tensors::read(&self.data)?;
        let itself = !file.has("targets");
        let loss = if itself { Loss::Rmse } else { Loss::CrossEntropy };
        let (width, target) = (
            model.input_shape().elements(),
            loss.target_width(model.output_shape()),
        );
        let inputs = &file.get("inputs")?.values;
        let data = match itself {
            true => Data::itself(inputs, width),
            false => Data::new(inputs, width, &file.get("targets")?.values, target),
        };
        let rows = data.rows();
        ensure!(
            rows > 0 && rows * width == inputs.len(),
            "the inputs are not rows of {width}"
        );
        ensure!(
            itself || file.get("targets")?.values.len() == rows * target,
            "the targets are not {rows} rows of {target}"
        );
        let optimizer = match self.optimizer {
            Rule::Rmsprop => Optimizer::rmsprop(self.lr),
            Rule::Sgd => Optimizer::sgd(self.lr),
            Rule::Adam => Optimizer::adam(self.lr),
        };
        let mut trainer = Trainer::new(model, loss, optimizer, self.batch, itself, 0)?;
        for step in 0..self.steps {
            let row = |i| ((step * self.batch + i) % rows) as u32;
            let batch: Vec<u32> = (0..self.batch).map(row).collect();
            trainer.step(&data, &batch, self.lr)?;
        }
        Ok(trainer)
    }
}

/// The model, with extents as the weights have them where they may vary.
fn make(name: &str, weights: &Tensors) -> Result<Model> {
    let version = match name {
        "autoencoder" => return Ok(zoo::autoencoder(&widths(weights)?, 0)?),
        "resnet50" => Version::V15,
        "resnet50-v1" => Version::V1,
        other => return Ok(zoo::by_name(other, 0)?),
    };
    let settings = Resnet {
        version,
        blocks: vec![3, 4, 6, 3],
        width: 64,
        image: [64, 64],
        classes: weights.get("logits.bias")?.values.len(),
    };
    Ok(zoo::resnet(&settings, 0)?)
}

/// The widths of a chain of dense layers.
fn widths(weights: &Tensors) -> Result<Vec<usize>> {
    let mut widths = vec![];
    for layer in 0.. {
        let name = format!("layer{layer}.weight");
        if !weights.has(&name) {
            break;
        }
        let [inputs, outputs] = weights.get(&name)?.shape[..] else {
            bail!("{name} is not a matrix")
        };
        if widths.is_empty() {
            widths.push(inputs);
        }
        widths.push(outputs);
    }
    Ok(widths)
}
