//! Batch normalisation.

use synod_kernels::{self as kernels, BatchNormGiven, Span};

use super::super::{CallFrame, InPlace, KernelCall};
use super::Context;
use crate::ops::{BatchNorm, BatchNormRole};

pub(super) fn batch_norm(c: &Context<'_>, op: BatchNorm) -> KernelCall {
    let (channels, lead) = c
        .dims(0)
        .split_last()
        .map_or((0, &[][..]), |(&n, lead)| (n, lead));
    let kernel = kernels::BatchNorm {
        rows: lead.iter().product(),
        channels,
        eps: op.eps,
        relu: op.relu,
    };
    let (simd, threads) = (c.simd, c.threads_for(kernel.rows * channels));
    let mut task = match op.role {
        BatchNormRole::Forward => c.task(move |frame: CallFrame<'_>| {
            let reads = [0, 1, 2].map(|i| frame.arg(i));
            let writes = [frame.out(0), frame.out(1), frame.out(2), frame.scratch()];
            let (given, found) = frame.memory.floats.views(reads, writes);
            kernel.forward(simd, given, found, threads);
        }),
        BatchNormRole::Backward => c.task(move |frame: CallFrame<'_>| {
            let in_place = frame.arg(5) == frame.out(0);
            let mut reads = [0, 1, 2, 3, 4, 5].map(|i| frame.arg(i));
            if in_place {
                reads[5] = Span::default();
            }
            let writes = [frame.out(0), frame.out(1), frame.out(2), frame.scratch()];
            let ([x, scale, shift, mean, variance, d], found) = frame.memory.floats.views(reads, writes);
            let given = BatchNormGiven {
                x,
                scale,
                shift,
                mean,
                variance,
                d: (!in_place).then_some(d),
            };
            kernel.backward(simd, given, found, threads);
        }),
    };
    if op.role == BatchNormRole::Backward {
        task.in_place = vec![(0, 5, InPlace::May)];
    }
    task.scratch = kernel.workspace();
    task
}
