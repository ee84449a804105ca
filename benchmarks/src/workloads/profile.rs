//! Where the time of a training step goes, op by op.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use synod_engine::{Options, Session, compile};
use synod_nn::zoo::{self, Version};
use synod_nn::{Loss, Model, Optimizer};

use super::{classes, rows};
use crate::Common;

/// Runs a few steps and prints what their ops took, the longest first.
#[allow(clippy::print_stdout, reason = "a program that reports to people")]
pub(crate) fn profile(name: &str, batch: usize, common: Common) -> Result<()> {
    let (model, loss, optimizer) = match name {
        "resnet50" => (
            zoo::resnet50(Version::V15, 1000, 1)?,
            Loss::CrossEntropy,
            Optimizer::momentum(0.01, 0.9),
        ),
        "autoencoder" => (zoo::by_name(name, 1)?, Loss::Rmse, Optimizer::rmsprop(1e-4)),
        _ => (zoo::by_name(name, 1)?, Loss::CrossEntropy, Optimizer::sgd(0.05)),
    };
    let mut session = session(&model, loss, optimizer, batch, common.threads)?;
    let reps = common.reps.max(1);
    session.run();
    let mut found: BTreeMap<String, (usize, Duration)> = BTreeMap::new();
    for (task, took) in (0..reps).flat_map(|_| session.run_timed()) {
        let entry = found.entry(task).or_default();
        *entry = (entry.0 + 1, entry.1 + took);
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, (_, took))| std::cmp::Reverse(*took));
    let all: Duration = found.iter().map(|(_, (_, took))| *took).sum();
    println!("share %  ms/step  calls  op and its sizes");
    for (task, (calls, took)) in found {
        let (share, took) = (
            took.as_secs_f64() / all.as_secs_f64(),
            took.as_secs_f64() / reps as f64,
        );
        println!(
            "{:7.2} {:8.3} {:6}  {task}",
            share * 100.0,
            took * 1e3,
            calls / reps
        );
    }
    println!("{:7.2} {:8.3}", 100.0, all.as_secs_f64() / reps as f64 * 1e3);
    Ok(())
}

/// A session of training steps with random examples.
pub(crate) fn session(
    model: &Model,
    loss: Loss,
    optimizer: Optimizer,
    batch: usize,
    threads: usize,
) -> Result<Session> {
    let graph = model.step_graph(loss, optimizer, batch, false)?;
    let options = Options {
        threads,
        ..model.step_options(optimizer)
    };
    let mut session = Session::new(Arc::new(compile(&graph, &options)?));
    // Parameters, states, buffers, hyper, key, input, target.
    let target = session.program().param_count() - 1;
    let parameters = model.layout().entries().len();
    let buffers = target - 3 - model.buffer_layout().entries().len()..target - 3;
    session
        .params_between_mut(0..parameters)
        .copy_from_slice(model.parameters());
    session
        .params_between_mut(buffers)
        .copy_from_slice(model.buffers());
    let kinds = model.output_shape().dims().last().copied().unwrap_or(1);
    let inputs = session.param(target - 1).len();
    // Characters are whole numbers.
    let inputs = match model.input_shape().rank() {
        1 if model.output_shape().rank() == 2 => classes(inputs, kinds, 1),
        _ => rows(inputs, 1),
    };
    session.param_mut(target - 1).copy_from_slice(&inputs);
    let targets = session.param(target).len();
    let targets = match loss {
        Loss::CrossEntropy => classes(targets, kinds, 2),
        _ => rows(targets, 1),
    };
    session.param_mut(target).copy_from_slice(&targets);
    session
        .param_mut(target - 3)
        .copy_from_slice(&optimizer.rule.hyper(optimizer.rate, 1));
    Ok(session)
}
