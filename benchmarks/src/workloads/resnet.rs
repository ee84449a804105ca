//! ResNet-50 (version 1.5) on images of 224 x 224, trained and used.

use anyhow::{Result, ensure};
use serde_json::json;
use synod_nn::quantise::Quantised;
use synod_nn::zoo::{self, Version};
use synod_nn::{Loss, Model, Optimizer};

use super::profile::session;
use super::{print, rows, timed};
use crate::Common;

const CLASSES: usize = 1000;
const RATE: f32 = 0.01;

/// One repetition is one step of SGD with momentum.
pub(crate) fn train(batch: usize, common: Common) -> Result<()> {
    let model = zoo::resnet50(Version::V15, CLASSES, 1)?;
    let optimizer = Optimizer::momentum(RATE, 0.9);
    let graph = model.step_graph(Loss::CrossEntropy, optimizer, batch, false)?;
    let mut session = session(&model, Loss::CrossEntropy, optimizer, batch, common.threads)?;
    let hyper_at = session.program().param_count() - 4;
    let mut step = 0;
    let seconds = timed(common, 1, || {
        step += 1;
        let hyper = optimizer.rule.hyper(RATE, step);
        session.param_mut(hyper_at).copy_from_slice(&hyper);
        session.run();
        let loss = session.output(0)[0];
        ensure!(loss.is_finite(), "the loss is {loss}");
        Ok(())
    })?;
    let planned = session.program().memory() as f64 * 4e-6;
    let line = json!({ "workload": "resnet50-train", "batch": batch, "planned_memory_mb": planned });
    let flops = graph.cost().flops as f64;
    print(line, seconds, batch as f64, flops, common.threads);
    Ok(())
}

pub(crate) fn infer(batch: usize, common: Common) -> Result<()> {
    let model = zoo::resnet50(Version::V15, CLASSES, 1)?;
    let mut session = model.session(batch, common.threads)?;
    let input = session.program().param_count() - 1;
    let images = rows(batch * model.input_shape().elements(), 1);
    session.param_mut(input).copy_from_slice(&images);
    time_calls(&model, "resnet50-inference", batch, common, || {
        session.run();
        Ok(session.output(0)[0])
    })
}

/// The same with weights and activations of bytes, their ranges taken from one of the images.
pub(crate) fn infer_bytes(batch: usize, common: Common) -> Result<()> {
    let model = zoo::resnet50(Version::V15, CLASSES, 1)?;
    let width = model.input_shape().elements();
    let images = rows(batch * width, 1);
    let bytes = Quantised::calibrated(&model, &images[..width])?;
    time_calls(&model, "resnet50-inference-int8", batch, common, || {
        let scores = bytes.predict_on(&images, common.threads)?;
        Ok(scores[0])
    })
}

fn time_calls(
    model: &Model,
    name: &str,
    batch: usize,
    common: Common,
    mut call: impl FnMut() -> Result<f32>,
) -> Result<()> {
    // Several calls a repetition, so that one disturbance does not decide it.
    let calls = 8usize.div_ceil(batch);
    let seconds = timed(common, 2, || {
        for _ in 0..calls {
            ensure!(call()?.is_finite(), "the outputs are not finite");
        }
        Ok(())
    })?;
    let seconds = seconds.into_iter().map(|s| s / calls as f64).collect();
    let line = json!({ "workload": name, "batch": batch });
    let flops = model.graph(batch)?.cost().flops as f64;
    print(line, seconds, batch as f64, flops, common.threads);
    Ok(())
}
