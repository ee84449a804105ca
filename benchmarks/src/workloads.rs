//! The workloads and how they are timed.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};
use synod_engine::ops::Rule;
use synod_kernels::{Epilogue, Matrix, Simd, gemm_workspace};
use synod_nn::{Data, Loss, Optimizer, Shuffle, Trainer, zoo};

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

/// Uniform rows that cost nothing to make; their values do not change what a step costs.
fn rows(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..n).map(|_| next()).collect()
}

fn print(mut line: Value, mut seconds: Vec<f64>, samples: f64, flops: f64, threads: usize) {
    let written = seconds.clone();
    seconds.sort_by(f64::total_cmp);
    let n = seconds.len();
    let median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2.0;
    line["seconds"] = json!(written);
    line["median"] = json!(median);
    line["samples_per_second"] = json!(samples / median);
    line["gflops"] = json!(flops / median / 1e9);
    line["threads"] = json!(threads);
    line["simd"] = json!(Simd::best().level().name());
    #[allow(clippy::print_stdout, reason = "the result of the program")]
    {
        println!("{line}");
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
            self.trainer
                .prefetch(&data, order.chunks_exact(BATCH).nth(i + 1).unwrap_or_default());
            last = self.trainer.step(&data, rows, RATE)?;
        }
        self.epoch += 1;
        anyhow::ensure!(last.is_finite(), "the loss is {last}");
        Ok(last)
    }
}

pub(crate) fn autoencoder(started: Instant, common: Common) -> Result<()> {
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

pub(crate) fn gemm(m: usize, n: usize, k: usize, common: Common) -> Result<()> {
    let simd = Simd::best();
    let (a, b, mut c) = (rows(m * k, 1), rows(k * n, 2), vec![0.0; m * n]);
    let mut workspace = vec![0.0; gemm_workspace(simd, m, n, k, common.threads)];
    let mut run = || {
        let begin = Instant::now();
        let (a, b) = (Matrix::row_major(&a, k), Matrix::row_major(&b, n));
        synod_kernels::gemm(
            simd,
            m,
            n,
            k,
            a,
            b,
            &mut c,
            &Epilogue::default(),
            common.threads,
            &mut workspace,
        );
        begin.elapsed().as_secs_f64()
    };
    run();
    let seconds: Vec<f64> = (0..common.reps.max(1)).map(|_| run()).collect();
    let line = json!({ "workload": "gemm", "m": m, "n": n, "k": k });
    print(line, seconds, 1.0, 2.0 * (m * n * k) as f64, common.threads);
    Ok(())
}
