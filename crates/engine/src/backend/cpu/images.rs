//! Convolution and pooling as the interpreter does them, in place of kernels of their own.

use super::super::{Frame, Task};
use super::Context;
use crate::error::{Result, transform};
use crate::interpreter::images;
use crate::ops::{Conv, Pool, PoolRole};

pub(super) fn conv(c: &Context<'_>, op: Conv) -> Result<Task> {
    let shape = |i: usize| c.graph.shape(c.node.args[i]);
    let extents = op.extents(shape(0), shape(1)).map_err(|e| transform("cpu", e))?;
    Ok(c.task(move |mut frame: Frame<'_>| {
        frame.with([0, 1], 0, |[x, y], out| images::conv(&op, &extents, x, y, out));
    }))
}

pub(super) fn pool(c: &Context<'_>, op: Pool) -> Result<Task> {
    let shapes: Vec<_> = c.node.args.iter().map(|&a| c.graph.shape(a)).collect();
    let extents = op.extents(&shapes).map_err(|e| transform("cpu", e))?;
    Ok(match op.role {
        PoolRole::MaxPick | PoolRole::MaxSpread => c.task(move |mut frame: Frame<'_>| {
            frame.with([0, 1], 0, |args, out| images::pool(&op, extents, &args, out));
        }),
        PoolRole::Sum | PoolRole::SumSpread => c.task(move |mut frame: Frame<'_>| {
            frame.with([0], 0, |args, out| images::pool(&op, extents, &args, out));
        }),
    })
}
