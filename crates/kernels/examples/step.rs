//! Times a whole training step of the telemetry autoencoder, batch 10, RMSprop, called by hand, and its inference.
//!
//! `cargo run --release -p synod-kernels --example step [rounds]`

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::{hint::black_box, time::Instant};

use synod_kernels::{
    Access, Activation, Bias, Binary, Buffer, Chain, Dense, Epilogue, Gate, Hyper, Instr, Matrix, Reduction,
    Rule, Simd, Source, Unary, bias_update, gemm, gemm_workspace, reduce,
};

const WIDTHS: [usize; 10] = [460, 80, 60, 40, 20, 40, 60, 80, 100, 460];
const LAYERS: usize = WIDTHS.len() - 1;
const ROWS: usize = 10;
const RULE: Rule = Rule::RmsProp {
    alpha: 0.9,
    eps: 1e-7,
};
const HYPER: Hyper = Hyper {
    rate: 1e-3,
    more: [1.0, 0.9],
};

struct Layer {
    w: Buffer,
    v: Buffer,
    bias: Buffer,
    bias_v: Buffer,
}

struct Network {
    layers: Vec<Layer>,
    activations: Vec<Buffer>,
    gradients: Vec<Buffer>,
    error: Chain,
    factor: Chain,
    product: Chain,
}

fn random(len: usize, scale: f32, seed: &mut u32) -> Buffer {
    let mut buffer = Buffer::zeroed(len);
    for x in buffer.iter_mut() {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *x = ((*seed >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale;
    }
    buffer
}

fn activation(layer: usize) -> Activation {
    if layer + 1 < LAYERS {
        Activation::Relu
    } else {
        Activation::Identity
    }
}

fn shape(layer: usize, rows: usize) -> Dense {
    Dense {
        rows,
        inputs: WIDTHS[layer],
        outputs: WIDTHS[layer + 1],
    }
}

impl Network {
    fn new() -> Network {
        let mut seed = 1;
        let layer = |pair: &[usize]| Layer {
            w: random(
                pair[0] * pair[1],
                (6.0 / (pair[0] + pair[1]) as f32).sqrt(),
                &mut seed,
            ),
            v: Buffer::zeroed(pair[0] * pair[1]),
            bias: Buffer::zeroed(pair[1]),
            bias_v: Buffer::zeroed(pair[1]),
        };
        let layers = WIDTHS.windows(2).map(layer).collect();
        let rows = |width: &usize| Buffer::zeroed(ROWS * width);
        let error = vec![
            Instr::Binary(Binary::Sub, 0, 0, 1),
            Instr::Binary(Binary::Mul, 1, 0, 0),
        ];
        let factor = vec![
            Instr::Unary(Unary::Sqrt, 1, 0),
            Instr::Splat(2, (ROWS * WIDTHS[LAYERS]) as f32),
            Instr::Binary(Binary::Mul, 1, 1, 2),
            Instr::Unary(Unary::Recip, 0, 1),
        ];
        let product = vec![Instr::Binary(Binary::Mul, 0, 0, 1)];
        Network {
            layers,
            activations: WIDTHS.iter().map(rows).collect(),
            gradients: WIDTHS.iter().map(rows).collect(),
            error: Chain::new(vec![Access::Full; 2], error, vec![0, 1]).expect("a valid chain"),
            factor: Chain::new(vec![Access::Full], factor, vec![0]).expect("a valid chain"),
            product: Chain::new(vec![Access::Full, Access::Scalar], product, vec![0]).expect("a valid chain"),
        }
    }

    fn step(&mut self, simd: Simd, laps: &mut [u128; 4]) -> f32 {
        let mut clock = Instant::now();
        let mut lap = |laps: &mut [u128; 4], phase: usize| {
            laps[phase] += clock.elapsed().as_nanos();
            clock = Instant::now();
        };
        for (i, layer) in self.layers.iter().enumerate() {
            let (before, after) = self.activations.split_at_mut(i + 1);
            shape(i, ROWS).forward(
                simd,
                &before[i],
                &layer.w,
                Some(&layer.bias),
                activation(i),
                &mut after[0],
            );
        }
        lap(laps, 0);
        let len = ROWS * WIDTHS[LAYERS];
        let mut mean = [0.0];
        let (input, output) = self.activations.split_at_mut(LAYERS);
        let gradient = &mut self.gradients[LAYERS];
        let sources = [Source::Output(1), Source::Slice(&input[0])];
        self.error
            .run(simd, len, &sources, &mut [gradient, &mut output[0]]);
        reduce(simd, Reduction::Mean, 1, len, 1, &output[0], &mut mean);
        let mut factor = [0.0];
        self.factor
            .run(simd, 1, &[Source::Slice(&mean)], &mut [&mut factor]);
        self.product.run(
            simd,
            len,
            &[Source::Output(0), Source::Slice(&factor)],
            &mut [gradient],
        );
        lap(laps, 1);
        for (i, layer) in self.layers.iter_mut().enumerate().rev() {
            let (dx, dy) = self.gradients.split_at_mut(i + 1);
            let (x, dy) = (&self.activations[i], &dy[0]);
            let Layer { w, v, bias, bias_v } = layer;
            let states: [&mut [f32]; 2] = [v, &mut []];
            if i == 0 {
                shape(i, ROWS).weight_update(simd, x, dy, &RULE, HYPER, w, states);
                lap(laps, 3);
            } else {
                let gate = Gate::Relu(x);
                shape(i, ROWS).backward(simd, x, dy, gate, &mut dx[i], &RULE, HYPER, w, states);
            }
            bias_update(simd, ROWS, dy, &RULE, HYPER, bias, [bias_v, &mut []]);
            if i == 1 {
                lap(laps, 2);
            }
        }
        mean[0].sqrt()
    }

    fn infer(&mut self, simd: Simd, rows: usize) {
        for (i, layer) in self.layers.iter().enumerate() {
            let (before, after) = self.activations.split_at_mut(i + 1);
            let (x, y) = (
                &before[i][..rows * WIDTHS[i]],
                &mut after[0][..rows * WIDTHS[i + 1]],
            );
            shape(i, rows).forward(simd, x, &layer.w, Some(&layer.bias), activation(i), y);
        }
    }
}

/// Minimum and median of many runs, in microseconds.
fn time(rounds: usize, mut f: impl FnMut()) -> (f64, f64) {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_nanos() as f64 / 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[rounds / 2])
}

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .and_then(|x| x.parse().ok())
        .unwrap_or(20_000);
    let simd = Simd::best();
    let parameters: usize = WIDTHS.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let flops = 2 * ROWS * (3 * parameters - WIDTHS[0] * WIDTHS[1]);
    let mut network = Network::new();
    let mut seed = 9;
    network.activations[0] = random(ROWS * WIDTHS[0], 1.0, &mut seed);
    let mut laps = [0; 4];
    let mut loss = [0.0; 2];
    let mut best = [u128::MAX; 4];
    let (min, median) = time(rounds, || {
        laps = [0; 4];
        loss[1] = network.step(simd, &mut laps);
        if loss[0] == 0.0 {
            loss[0] = loss[1];
        }
        for (best, lap) in best.iter_mut().zip(laps) {
            *best = (*best).min(lap);
        }
    });
    let speed = flops as f64 / min / 1e3;
    println!(
        "{} step, batch {ROWS}: min {min:.1} us, median {median:.1} us, {speed:.1} GFLOP/s",
        simd.level()
    );
    println!(
        "  forward, error, backward, first layer: {:?} ns at best; loss {:.4} -> {:.4}",
        best, loss[0], loss[1]
    );
    let (min, median) = time(rounds, || network.infer(simd, 1));
    let gigabytes = parameters as f64 * 4.0 / min / 1e3;
    println!("inference, 1 row: min {min:.1} us, median {median:.1} us, {gigabytes:.0} GB/s");

    let rows = 1024;
    let mut values: Vec<Buffer> = WIDTHS
        .iter()
        .map(|width| random(rows * width, 1.0, &mut seed))
        .collect();
    let mut workspace = Buffer::zeroed(gemm_workspace(simd, rows, 460, 460, 1));
    let (min, median) = time(rounds / 20 + 1, || {
        for (i, layer) in network.layers.iter().enumerate() {
            let (before, after) = values.split_at_mut(i + 1);
            let bias = Bias::PerColumn(&layer.bias);
            let epilogue = Epilogue {
                bias,
                activation: activation(i),
                ..Epilogue::default()
            };
            let [inputs, outputs] = [WIDTHS[i], WIDTHS[i + 1]];
            gemm(
                simd,
                rows,
                outputs,
                inputs,
                Matrix::row_major(&before[i], inputs),
                Matrix::row_major(&layer.w, outputs),
                &mut after[0],
                &epilogue,
                1,
                &mut workspace,
            );
        }
        black_box(&values);
    });
    let speed = (2 * rows * parameters) as f64 / min / 1e3;
    println!("inference, {rows} rows: min {min:.1} us, median {median:.1} us, {speed:.1} GFLOP/s");
}
