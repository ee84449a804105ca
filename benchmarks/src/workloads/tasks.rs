//! Models of the zoo, trained by SGD on random examples: one repetition is an epoch.

use anyhow::{Result, ensure};
use serde_json::json;
use synod_nn::{Data, Loss, Model, Optimizer, Shuffle, Trainer, zoo};

use super::{classes, print, rows, timed};
use crate::Common;

/// What an epoch is made of.
struct Task {
    rows: usize,
    rate: f32,
}

fn task(name: &str) -> Task {
    match name {
        "mlp-2nn" => Task {
            rows: 10_000,
            rate: 0.05,
        },
        "char-lstm" => Task { rows: 100, rate: 0.5 },
        _ => Task {
            rows: 1_000,
            rate: 0.05,
        },
    }
}

pub(crate) fn train(name: &str, batch: usize, common: Common) -> Result<()> {
    let model = zoo::by_name(name, 1)?;
    let task = task(name);
    let (inputs, targets) = examples(name, &model, task.rows);
    let (width, target) = (model.input_shape().elements(), targets.len() / task.rows);
    let data = Data::new(&inputs, width, &targets, target);
    let optimizer = Optimizer::sgd(task.rate);
    let mut trainer = Trainer::new(&model, Loss::CrossEntropy, optimizer, batch, false, 1)?;
    let (mut shuffle, mut epoch, mut loss) = (Shuffle::new(task.rows, 1), 0, 0.0);
    let seconds = timed(common, 2, || {
        let order = shuffle.epoch(epoch);
        for (i, rows) in order.chunks_exact(batch).enumerate() {
            let next = order.chunks_exact(batch).nth(i + 1).unwrap_or_default();
            loss = trainer.step_before(&data, rows, next, task.rate)?;
        }
        epoch += 1;
        ensure!(loss.is_finite(), "the loss is {loss}");
        Ok(())
    })?;
    let steps = task.rows / batch;
    let step = model.step_graph(Loss::CrossEntropy, optimizer, batch, false)?;
    let line = json!({ "workload": name, "batch": batch, "loss": loss });
    let flops = steps as f64 * step.cost().flops as f64;
    print(line, seconds, (steps * batch) as f64, flops, 1);
    Ok(())
}

/// Random inputs and classes; characters are whole numbers.
fn examples(name: &str, model: &Model, count: usize) -> (Vec<f32>, Vec<f32>) {
    let width = model.input_shape().elements();
    let targets = Loss::CrossEntropy.target_width(model.output_shape());
    let kinds = model.output_shape().dims().last().copied().unwrap_or(1);
    let inputs = match name {
        "char-lstm" => classes(count * width, zoo::CHARACTERS, 1),
        _ => rows(count * width, 1),
    };
    (inputs, classes(count * targets, kinds, 2))
}
