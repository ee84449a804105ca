//! Times one matrix product: `cargo run --release -p synod-kernels --example gemm -- M N K [threads]`.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::time::Instant;

use synod_kernels::{Buffer, Epilogue, Matrix, Simd, gemm, gemm_workspace};

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|x| x.parse().ok()).collect();
    let [m, n, k, ref rest @ ..] = sizes[..] else {
        println!("usage: gemm M N K [threads]");
        return;
    };
    let threads = rest.first().copied().unwrap_or(1);
    let simd = Simd::best();
    let filled = |len: usize| {
        let mut buffer = Buffer::zeroed(len);
        buffer
            .iter_mut()
            .enumerate()
            .for_each(|(i, x)| *x = (i % 17) as f32 - 8.0);
        buffer
    };
    let (a, b, mut c) = (filled(m * k), filled(k * n), Buffer::zeroed(m * n));
    let mut workspace = Buffer::zeroed(gemm_workspace(simd, m, n, k, threads));
    let flops = 2.0 * (m * n * k) as f64;
    let mut best = f64::INFINITY;
    let deadline = Instant::now();
    while deadline.elapsed().as_secs_f64() < 2.0 {
        let start = Instant::now();
        let (a, b) = (Matrix::row_major(&a, k), Matrix::row_major(&b, n));
        gemm(
            simd,
            m,
            n,
            k,
            a,
            b,
            &mut c,
            &Epilogue::default(),
            threads,
            &mut workspace,
        );
        best = best.min(start.elapsed().as_secs_f64());
    }
    let (level, speed) = (simd.level(), flops / best / 1e9);
    println!(
        "{level} gemm {m} x {n} x {k}, {threads} thread(s): {:.3} ms, {speed:.1} GFLOP/s",
        best * 1e3
    );
}
