//! How fast nodes are learnt and scored.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use synod_detect::detector::{Kind, Training};
use synod_detect::{NodeModel, Recipe, Rows};
use synod_nn::{Data, Loss, Optimizer, Trainer, zoo};
use synod_telemetry::Frame;

const WIDTH: usize = 460;

/// A node of 460 metrics that follow a few causes.
fn node(rows: usize, salt: u64) -> Result<Frame> {
    let mut state = salt.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let mut causes = [0.0f32; 12];
    let mut values = Vec::with_capacity(rows * WIDTH);
    for _ in 0..rows {
        causes.iter_mut().for_each(|c| *c = 0.95 * *c + noise());
        values.extend((0..WIDTH).map(|m| causes[m % 12] + 0.5 * causes[m % 7] + 0.3 * noise()));
    }
    let times = (0..rows as i64).map(|i| i * 900).collect();
    let metrics = (0..WIDTH).map(|m| format!("metric{m:03}")).collect();
    Ok(Frame::new(format!("node{salt}"), 900, times, metrics, values)?)
}

/// Scores one window of each of `nodes` nodes, every node with a detector of its own, on one thread.
pub(crate) fn score(nodes: usize, repetitions: usize) -> Result<()> {
    let recipe = Recipe::standard(1);
    let model = NodeModel::fit(&node(2000, 1)?, &recipe)?;
    // Each detector in memory of its own, as it is in use.
    let models: Vec<NodeModel> = (0..nodes).map(|_| model.clone()).collect();
    let windows: Vec<Frame> = (0..nodes)
        .map(|n| node(1, 100 + n as u64))
        .collect::<Result<_>>()?;
    let mut milliseconds = vec![];
    let mut sum = 0.0f64;
    for _ in 0..repetitions {
        let started = Instant::now();
        for (model, window) in models.iter().zip(&windows) {
            sum += model
                .score(window)
                .total
                .iter()
                .map(|s| f64::from(*s))
                .sum::<f64>();
        }
        milliseconds.push(started.elapsed().as_secs_f64() * 1e3);
    }
    milliseconds.sort_by(f64::total_cmp);
    let line = json!({
        "workload": "watch-score", "nodes": nodes, "metrics": WIDTH, "milliseconds": milliseconds[0],
        "median_milliseconds": milliseconds[milliseconds.len() / 2], "checksum": sum,
    });
    emit(&line)
}

/// Trains detectors on two threads: the default, and the autoencoder against the engine's own step.
pub(crate) fn train(nodes: usize, rows: usize) -> Result<()> {
    let frame = node(rows, 1)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(2);
    let fit = |recipe: &Recipe| -> Result<f64> {
        let started = Instant::now();
        let failed = std::sync::Mutex::new(None);
        std::thread::scope(|scope| {
            for share in 0..threads {
                let (failed, frame) = (&failed, &frame);
                scope.spawn(move || {
                    for _ in (share..nodes).step_by(threads) {
                        if let Err(e) = NodeModel::fit(frame, recipe) {
                            *failed.lock().unwrap_or_else(|p| p.into_inner()) = Some(e);
                        }
                    }
                });
            }
        });
        match failed.into_inner().unwrap_or_else(|p| p.into_inner()) {
            Some(error) => Err(error.into()),
            None => Ok(started.elapsed().as_secs_f64()),
        }
    };
    let standard = fit(&Recipe::standard(1))?;
    let mut recipe = Recipe::named("paper", 1)?;
    recipe.members.iter_mut().for_each(|m| {
        let paper = Training {
            rate: 1e-3,
            ..Training::paper()
        };
        m.kind = Kind::Autoencoder(paper);
    });
    let network = fit(&recipe)?;
    let steps = 10 * rows.div_ceil(10);
    let step = engine_step(&Rows::new(WIDTH, frame.values().to_vec()))?;
    let alone = step * steps as f64 * nodes as f64 / threads as f64;
    let line = json!({
        "workload": "watch-train", "nodes": nodes, "windows": rows, "metrics": WIDTH, "threads": threads,
        "default_seconds": standard, "autoencoder_seconds": network, "autoencoder_steps_per_node": steps,
        "engine_step_microseconds": step * 1e6, "autoencoder_over_engine": network / alone,
    });
    emit(&line)
}

/// Seconds of one training step of the paper's network in the engine alone, with as many copies at work as there are threads.
fn engine_step(rows: &Rows) -> Result<f64> {
    let run = || -> Result<f64> {
        let model = zoo::autoencoder(&zoo::PAPER, 1)?;
        let mut trainer = Trainer::new(&model, Loss::Rmse, Optimizer::rmsprop(1e-3), 10, true, 1)?;
        let data = Data::itself(rows.values(), WIDTH);
        let order: Vec<u32> = (0..rows.len() as u32 / 10 * 10).collect();
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let started = Instant::now();
            for rows in order.chunks(10) {
                trainer.step(&data, rows, 1e-3)?;
            }
            best = best.min(started.elapsed().as_secs_f64() / (order.len() / 10) as f64);
        }
        Ok(best)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(run);
        let own = run()?;
        let other = other
            .join()
            .map_err(|_| anyhow::anyhow!("a measuring thread failed"))??;
        Ok((own + other) / 2.0)
    })
}

#[expect(clippy::print_stdout, reason = "the result of the program")]
pub(crate) fn emit(line: &serde_json::Value) -> Result<()> {
    println!("{line}");
    Ok(())
}
