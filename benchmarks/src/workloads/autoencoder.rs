//! The paper's autoencoder, trained and used.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use synod_engine::ops::Rule;
use synod_nn::{Data, Loss, Optimizer, Shuffle, Trainer, zoo};

use super::{print, rows};
use crate::Common;

const ROWS: usize = 10_120;
const WIDTH: usize = 460;
const BATCH: usize = 10;
const RATE: f32 = 1e-4;

/// Operations of one training step: two products per layer forward and weight gradient, and one more for the input
/// gradient of all layers but the first.
fn step_flops(batch: usize) -> f64 {
    let weights: usize = zoo::PAPER.windows(2).map(|w| w[0] * w[1]).sum();
    let first = zoo::PAPER[0] * zoo::PAPER[1];
    (2 * batch * (3 * weights - first)) as f64
}

fn optimizer() -> Optimizer {
    Optimizer {
        rule: Rule::RmsProp {
            alpha: 0.9,
            eps: 1e-7,
        },
        rate: RATE,
        schedule: Default::default(),
    }
}

struct Client {
    trainer: Trainer,
    shuffle: Shuffle,
    data: Vec<f32>,
    epoch: usize,
}

impl Client {
    fn new(seed: u64) -> Result<Client> {
        let model = zoo::autoencoder(&zoo::PAPER, seed)?;
        let trainer = Trainer::new(&model, Loss::Rmse, optimizer(), BATCH, true, seed)?;
        Ok(Client {
            trainer,
            shuffle: Shuffle::new(ROWS, seed),
            data: vec![],
            epoch: 0,
        })
    }

    fn run_epoch(&mut self) -> Result<f32> {
        let data = Data::itself(&self.data, WIDTH);
        let mut last = 0.0;
        let order = self.shuffle.epoch(self.epoch);
        for (i, rows) in order.chunks_exact(BATCH).enumerate() {
            let next = order.chunks_exact(BATCH).nth(i + 1).unwrap_or_default();
            last = self.trainer.step_before(&data, rows, next, RATE)?;
        }
        self.epoch += 1;
        anyhow::ensure!(last.is_finite(), "the loss is {last}");
        Ok(last)
    }
}

pub(crate) fn train(started: Instant, common: Common) -> Result<()> {
    let compile = Instant::now();
    let mut first = Client::new(1)?;
    let compile_ms = compile.elapsed().as_secs_f64() * 1e3;
    let few = rows(BATCH * WIDTH, 1);
    first.trainer.step(
        &Data::itself(&few, WIDTH),
        &(0..BATCH as u32).collect::<Vec<_>>(),
        RATE,
    )?;
    let first_step_ms = started.elapsed().as_secs_f64() * 1e3;
    let mut clients = vec![first];
    for i in 1..common.threads.max(1) {
        clients.push(Client::new(1 + i as u64)?);
    }
    for (i, client) in clients.iter_mut().enumerate() {
        client.data = rows(ROWS * WIDTH, i as u64 + 1);
        client.run_epoch()?;
    }
    let mut seconds = vec![];
    let mut loss = 0.0;
    for _ in 0..common.reps.max(1) {
        let begin = Instant::now();
        loss = match &mut clients[..] {
            [only] => only.run_epoch()?,
            many => std::thread::scope(|scope| {
                let handles: Vec<_> = many.iter_mut().map(|c| scope.spawn(|| c.run_epoch())).collect();
                let losses = handles
                    .into_iter()
                    .map(|h| h.join().map_err(|_| anyhow::anyhow!("a client panicked"))?);
                losses.collect::<Result<Vec<f32>>>().map(|l| l[0])
            })?,
        };
        seconds.push(begin.elapsed().as_secs_f64());
    }
    let (clients, steps) = (clients.len() as f64, (ROWS / BATCH) as f64);
    let line = json!({
        "workload": "autoencoder", "first_step_ms": first_step_ms, "compile_ms": compile_ms, "loss": loss,
    });
    print(
        line,
        seconds,
        clients * ROWS as f64,
        clients * steps * step_flops(BATCH),
        common.threads,
    );
    Ok(())
}

pub(crate) fn inference(batch: usize, common: Common) -> Result<()> {
    let model = zoo::autoencoder(&zoo::PAPER, 1)?;
    let mut session = model.session(batch, common.threads)?;
    let input = model.layout().entries().len();
    session.param_mut(input).copy_from_slice(&rows(batch * WIDTH, 3));
    let mut run = |times: usize| {
        let begin = Instant::now();
        (0..times).for_each(|_| session.run());
        begin.elapsed().as_secs_f64()
    };
    run(10);
    // About half a second a repetition.
    let times = (0.5 / (run(100) / 100.0)).max(1.0) as usize;
    let seconds: Vec<f64> = (0..common.reps.max(1))
        .map(|_| run(times) / times as f64)
        .collect();
    let weights: usize = zoo::PAPER.windows(2).map(|w| w[0] * w[1]).sum();
    let line = json!({ "workload": "autoencoder-inference", "batch": batch });
    print(
        line,
        seconds,
        batch as f64,
        (2 * weights * batch) as f64,
        common.threads,
    );
    Ok(())
}
