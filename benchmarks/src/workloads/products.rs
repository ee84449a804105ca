//! Matrix products.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use synod_kernels::{Buffer, Epilogue, Matrix, Simd, gemm_workspace};

use super::{print, rows};
use crate::Common;

pub(crate) fn gemm(m: usize, n: usize, k: usize, common: Common) -> Result<()> {
    let simd = Simd::best();
    // In memory like a session's, where operands of products lie.
    let (mut a, mut b, mut c) = (
        Buffer::zeroed(m * k),
        Buffer::zeroed(k * n),
        Buffer::zeroed(m * n),
    );
    a.copy_from_slice(&rows(m * k, 1));
    b.copy_from_slice(&rows(k * n, 2));
    let mut workspace = Buffer::zeroed(gemm_workspace(simd, m, n, k, common.threads));
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
