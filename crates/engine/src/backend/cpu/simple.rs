//! Reductions, literals, random numbers and users' own ops.

use std::sync::Arc;

use synod_kernels as kernels;

use super::super::{CallFrame, KernelCall};
use super::Context;
use crate::error::{Result, transform};
use crate::interpreter::random as random_number;
use crate::ops::{Custom, KEY, Random, Reduce, Reduction};

/// Reduces runs of neighbouring axes one after the other; a single run needs no working memory.
pub(super) fn reduce(c: &Context<'_>, op: &Reduce) -> Result<KernelCall> {
    let kind = match op.kind {
        Reduction::Sum => kernels::Reduction::Sum,
        Reduction::Mean => kernels::Reduction::Mean,
        Reduction::Max => kernels::Reduction::Max,
        Reduction::Min => kernels::Reduction::Min,
    };
    let dims = c.dims(0);
    if op.axes.is_empty() {
        return Ok(super::moves::reshape(c));
    }
    // Runs of axes, last first, as (outer, length, inner) of the tensor left by the runs before.
    let mut runs: Vec<(usize, usize)> = vec![];
    for &axis in &op.axes {
        match runs.last_mut() {
            Some((_, end)) if *end == axis => *end += 1,
            _ => runs.push((axis, axis + 1)),
        }
    }
    let mut shape = dims.to_vec();
    let mut stages = vec![];
    for &(from, to) in runs.iter().rev() {
        let (outer, len) = (
            shape[..from].iter().product::<usize>(),
            shape[from..to].iter().product::<usize>(),
        );
        let inner = shape[to..].iter().product::<usize>();
        stages.push((outer, len, inner));
        shape.drain(from..to);
    }
    let (simd, threads) = (c.simd, c.threads_for(dims.iter().product()));
    let largest = stages
        .iter()
        .map(|s| (s.0 * s.2).next_multiple_of(16))
        .max()
        .unwrap_or(0);
    let count = stages.len();
    let mut task = c.task(move |frame: CallFrame<'_>| {
        let (mut from, out, scratch) = (frame.arg(0), frame.out(0), frame.scratch());
        for (i, &(outer, len, inner)) in stages.iter().enumerate() {
            let half = kernels::Span {
                start: scratch.start + (i % 2) * largest,
                len: outer * inner,
            };
            let to = if i + 1 == stages.len() { out } else { half };
            let ([x], [y]) = frame.memory.floats.views([from], [to]);
            kernels::reduce_shared(simd, kind, [outer, len, inner], x, y, threads);
            from = to;
        }
    });
    task.scratch = if count > 1 { 2 * largest } else { 0 };
    Ok(task)
}

pub(super) fn full(c: &Context<'_>, value: f32) -> KernelCall {
    let mut task = c.task(move |mut frame: CallFrame<'_>| frame.with([], 0, |[], y| y.fill(value)));
    task.constant = true;
    task
}

pub(super) fn literal(c: &Context<'_>, data: Arc<[f32]>) -> KernelCall {
    let mut task =
        c.task(move |mut frame: CallFrame<'_>| frame.with([], 0, |[], y| y.copy_from_slice(&data)));
    task.constant = true;
    task
}

pub(super) fn random(c: &Context<'_>, op: &Random) -> KernelCall {
    let (distribution, salt, per_key) = (op.distribution, op.salt, op.shape.elements().max(1));
    c.task(move |mut frame: CallFrame<'_>| {
        frame.with([0], 0, |[keys], y| {
            for (key, part) in keys.chunks_exact(KEY).zip(y.chunks_mut(per_key)) {
                let key = std::array::from_fn(|j| key[j] as u32);
                part.iter_mut()
                    .enumerate()
                    .for_each(|(i, v)| *v = random_number(distribution, key, salt, i));
            }
        })
    })
}

pub(super) fn custom(c: &Context<'_>, op: &Custom) -> Result<KernelCall> {
    if c.node.args.len() > 64 || c.node.outs.len() > 64 {
        return Err(transform(
            "cpu",
            format!(
                "the custom op `{}` has more than 64 arguments or results",
                op.name
            ),
        ));
    }
    let evaluate = op.evaluate.clone();
    Ok(c.task(move |frame: CallFrame<'_>| {
        let mut spans = [kernels::Span::default(); 128];
        let (args, outs) = (frame.arg_count(), frame.outs.len());
        (0..args).for_each(|i| spans[i] = frame.arg(i));
        (0..outs).for_each(|i| spans[64 + i] = frame.out(i));
        let evaluate = &evaluate;
        frame
            .memory
            .floats
            .split_many(&spans[..args], &spans[64..64 + outs], &mut |x, y| evaluate(x, y));
    }))
}
