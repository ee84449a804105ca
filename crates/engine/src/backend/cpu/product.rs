//! Matrix products that are not part of a fused layer.

use synod_kernels::{Dense, Epilogue, Gate, Matrix, Span, gemm, gemm_workspace};

use super::super::{CallFrame, KernelCall};
use super::Context;
use crate::error::{Error, Result};
use crate::ops::Dot;

/// Up to this many rows the small-batch kernels win over the blocked product.
pub(super) const SMALL: usize = 24;

/// Products below this many operations run on one thread.
pub(super) const THREADING: usize = 4_000_000;

/// Threads that pay for a product.
pub(super) fn useful_threads(threads: usize, m: usize, n: usize, k: usize) -> usize {
    if 2 * m * n * k < THREADING { 1 } else { threads }
}

pub(super) fn dot(c: &Context<'_>, dot: Dot) -> Result<KernelCall> {
    let shapes = (c.graph.shape(c.node.args[0]), c.graph.shape(c.node.args[1]));
    let e = dot.extents(shapes.0, shapes.1).map_err(Error::Internal)?;
    let epilogue = Epilogue {
        sum: c.sum(),
        ..Epilogue::default()
    };
    let (simd, threads) = (c.simd, useful_threads(c.threads, e.m, e.n, e.k));
    let layer = |rows, inputs, outputs| Dense {
        rows,
        inputs,
        outputs,
    };
    let small = match (dot.ta, dot.tb) {
        (false, false) => e.m <= SMALL,
        (false, true) => e.m <= SMALL,
        (true, false) => e.k <= SMALL,
        (true, true) => false,
    };
    let workspace = if small {
        0
    } else {
        gemm_workspace(simd, e.m, e.n, e.k, threads)
    };
    let mut task = c.task(move |frame: CallFrame<'_>| {
        let (a, b, out) = (frame.arg(0), frame.arg(1), frame.out(0));
        let part = |span: Span, i: usize, size: usize| Span {
            start: span.start + i * size,
            len: size,
        };
        for i in 0..e.batch {
            let reads = [part(a, i, e.m * e.k), part(b, i, e.k * e.n)];
            let writes = [part(out, i, e.m * e.n), frame.scratch()];
            let ([x, y], [z, workspace]) = frame.memory.floats.views(reads, writes);
            match (small, dot.ta, dot.tb) {
                (true, false, false) => {
                    layer(e.m, e.k, e.n).forward(simd, x, y, None, synod_kernels::Activation::Identity, z);
                }
                // dy · wᵀ with w of n rows and k columns.
                (true, false, true) => layer(e.m, e.n, e.k).input_gradient(simd, x, y, Gate::Open, z),
                (true, true, false) => layer(e.k, e.m, e.n).weight_gradient(simd, x, y, z),
                _ => {
                    let left = Matrix::row_major(x, if dot.ta { e.m } else { e.k });
                    let right = Matrix::row_major(y, if dot.tb { e.k } else { e.n });
                    let left = if dot.ta { left.transposed() } else { left };
                    let right = if dot.tb { right.transposed() } else { right };
                    gemm(simd, e.m, e.n, e.k, left, right, z, &epilogue, threads, workspace);
                }
            }
        }
    });
    task.scratch = workspace;
    Ok(task)
}
