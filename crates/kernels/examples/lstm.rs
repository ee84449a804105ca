//! Times an LSTM and the products around it: `cargo run --release -p synod-kernels --example lstm [-- time batch hidden]`.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::time::Instant;

use synod_kernels::{Buffer, Epilogue, Lstm, LstmCotangents, LstmInputs, Matrix, Simd, gemm, gemm_workspace};

fn filled(len: usize) -> Buffer {
    let mut buffer = Buffer::zeroed(len);
    for (i, x) in buffer.iter_mut().enumerate() {
        *x = ((i * 37 % 101) as f32 - 50.0) * 1e-3;
    }
    buffer
}

/// Milliseconds of the fastest of many runs.
fn fastest(mut run: impl FnMut()) -> f64 {
    let (begin, mut best) = (Instant::now(), f64::INFINITY);
    while begin.elapsed().as_secs_f64() < 1.5 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    1e3 * best
}

fn main() {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|x| x.parse().ok()).collect();
    let [time, batch, hidden] = given[..] else {
        return println!("usage: lstm TIME BATCH HIDDEN");
    };
    let (simd, lstm) = (Simd::best(), Lstm { time, batch, hidden });
    let (all, wide) = (time * batch * hidden, 4 * time * batch * hidden);
    let (inputs, weights) = (filled(wide), filled(4 * hidden * hidden));
    let [mut states, mut cells, d_states, d_cells] = [0; 4].map(|_| filled(all));
    let (mut gates, mut d_inputs) = (filled(wide), filled(wide));
    let [state, cell, mut d_state, mut d_cell] = [0; 4].map(|_| filled(batch * hidden));
    let flops = 2e-6 * (wide * hidden) as f64;
    let report = |what: &str, ms: f64| println!("{what:<40} {ms:>8.3} ms {:>8.1} GFLOP/s", flops / ms);

    let mut space = Buffer::zeroed(lstm.forward_workspace().max(lstm.backward_workspace()));
    let given = LstmInputs {
        inputs: &inputs,
        weights: &weights,
        state: &state,
        cell: &cell,
    };
    let forward = fastest(|| lstm.forward(simd, given, &mut states, &mut cells, &mut gates, &mut space));
    report("forward", forward);
    let given = LstmCotangents {
        gates: &gates,
        cells: &cells,
        weights: &weights,
        cell: &cell,
        d_states: &d_states,
        d_cells: &d_cells,
    };
    let backward =
        fastest(|| lstm.backward(simd, given, &mut d_inputs, &mut d_state, &mut d_cell, &mut space));
    report("backward", backward);

    let rows = time * batch;
    let x = Matrix::row_major(&states, hidden);
    let w = Matrix::row_major(&weights, 4 * hidden);
    let d = Matrix::row_major(&d_inputs, 4 * hidden);
    let products = [
        ("inputs of all times", [rows, 4 * hidden, hidden], x, w),
        ("their gradient", [rows, hidden, 4 * hidden], d, w.transposed()),
        (
            "the weights' gradient",
            [hidden, 4 * hidden, rows],
            x.transposed(),
            d,
        ),
    ];
    for (what, [m, n, k], a, b) in products {
        let mut space = Buffer::zeroed(gemm_workspace(simd, m, n, k, 1));
        let mut c = Buffer::zeroed(m * n);
        let ms = fastest(|| gemm(simd, m, n, k, a, b, &mut c, &Epilogue::default(), 1, &mut space));
        report(what, ms);
    }
}
