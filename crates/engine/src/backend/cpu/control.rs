//! Branches, loops and their tapes. Inner graphs are programs of their own that run in this task's working memory.

use synod_kernels::Span;

use super::super::{CallFrame, InPlace, KernelCall, Memory, RowDependence};
use super::{Context, Cpu};
use crate::error::Result;
use crate::graph::Graph;
use crate::ops::{If, While};
use crate::program::{Options, Program, compile_as};
use crate::types::Type;

fn inner(
    cpu: &Cpu,
    rows: RowDependence,
    graph: &Graph,
    kept: usize,
    donate: Vec<(usize, usize)>,
) -> Result<Program> {
    // Inner graphs went through the passes with the graph around them.
    compile_as(
        graph,
        &Options {
            optimise: false,
            inner: true,
            kept,
            donate,
            ..Options::default()
        },
        rows,
        &[cpu],
    )
}

fn copy(memory: &mut Memory, from: Span, to: Span) {
    memory
        .floats
        .copy_within(from.start..from.start + from.len, to.start);
}

fn at(base: usize, span: Span) -> Span {
    Span {
        start: span.start + base,
        len: span.len,
    }
}

pub(super) fn branch(c: &Context<'_>, cpu: &Cpu, op: &If) -> Result<KernelCall> {
    let side = |graph: &Graph| inner(cpu, c.rows, graph, usize::MAX, vec![]);
    let (then, otherwise) = (side(&op.then)?, side(&op.otherwise)?);
    let scratch = then.memory().max(otherwise.memory());
    let mut task = c.task(move |frame: CallFrame<'_>| {
        let side = if frame.number(frame.arg(0)) != 0.0 {
            &then
        } else {
            &otherwise
        };
        let base = frame.scratch().start;
        for i in 1..frame.arg_count() {
            copy(frame.memory, frame.arg(i), at(base, side.param(i - 1)));
        }
        side.execute(frame.memory, base);
        for i in 0..frame.outs.len() {
            copy(frame.memory, at(base, side.output(i)), frame.out(i));
        }
    });
    task.scratch = scratch;
    Ok(task)
}

pub(super) fn repeat(c: &Context<'_>, cpu: &Cpu, op: &While) -> Result<KernelCall> {
    let k = op.carried();
    // The state stays where the body takes it, and is replaced there; what is captured is put in place once.
    let body = inner(cpu, c.rows, &op.body, k, (0..k).map(|i| (i, i)).collect())?;
    let cond = inner(cpu, c.rows, &op.cond, 0, vec![])?;
    let asked = reads(&op.cond);
    let body_at = cond.memory().next_multiple_of(16);
    let scratch = body_at + body.memory();
    let mut task = c.task(move |frame: CallFrame<'_>| {
        let cond_base = frame.scratch().start;
        let body_base = cond_base + body_at;
        for i in 0..frame.arg_count() {
            copy(frame.memory, frame.arg(i), at(body_base, body.param(i)));
        }
        for &i in asked.iter().filter(|&&i| i >= k) {
            copy(frame.memory, frame.arg(i), at(cond_base, cond.param(i)));
        }
        loop {
            for &i in asked.iter().filter(|&&i| i < k) {
                let (from, to) = (at(body_base, body.param(i)), at(cond_base, cond.param(i)));
                copy(frame.memory, from, to);
            }
            cond.execute(frame.memory, cond_base);
            if frame.memory.floats[cond_base + cond.output(0).start] == 0.0 {
                break;
            }
            body.execute(frame.memory, body_base);
        }
        for i in 0..k {
            copy(frame.memory, at(body_base, body.param(i)), frame.out(i));
        }
    });
    task.scratch = scratch;
    Ok(task)
}

/// The parameters that a graph reads or gives.
fn reads(graph: &Graph) -> Vec<usize> {
    let uses = graph.uses();
    let params = graph.params().iter().enumerate();
    params
        .filter(|(_, p)| uses[p.index()] > 0)
        .map(|(i, _)| i)
        .collect()
}

pub(super) fn empty(c: &Context<'_>) -> KernelCall {
    c.task(|mut frame: CallFrame<'_>| frame.with([], 0, |[], y| y[0] = 0.0))
}

pub(super) fn push(c: &Context<'_>) -> KernelCall {
    let mut task = c.task(|frame: CallFrame<'_>| {
        let (below, out) = (frame.number(frame.arg(0)), frame.out(0).start);
        let CallFrame {
            memory: Memory { floats, tapes },
            base,
            args,
            ..
        } = frame;
        let parts = args[1..]
            .iter()
            .map(|s| &floats[s.start + base..s.start + base + s.len]);
        let top = tapes.push(below, parts);
        floats[out] = top;
    });
    task.in_place = vec![(0, 0, InPlace::May)];
    task
}

pub(super) fn pop(c: &Context<'_>) -> KernelCall {
    c.task(|frame: CallFrame<'_>| {
        let tape = frame.number(frame.arg(0));
        let (below, mut at) = match frame.memory.tapes.top(tape) {
            Some((below, at)) => (below, Some(at)),
            None => (0.0, None),
        };
        let out = frame.out(0).start;
        frame.memory.floats[out] = below;
        for i in 1..frame.outs.len() {
            let span = frame.out(i);
            let Memory { floats, tapes } = &mut *frame.memory;
            let to = &mut floats[span.start..span.start + span.len];
            match &mut at {
                Some(at) => {
                    to.copy_from_slice(tapes.data(*at, span.len));
                    *at += span.len;
                }
                None => to.fill(0.0),
            }
        }
    })
}

pub(super) fn not_empty(c: &Context<'_>) -> KernelCall {
    c.task(|mut frame: CallFrame<'_>| {
        let some = frame.number(frame.arg(0)).to_bits() != 0;
        frame.with([], 0, |[], y| y[0] = f32::from(u8::from(some)));
    })
}

pub(super) fn merge(c: &Context<'_>) -> KernelCall {
    let types: Vec<Type> = match c.graph.ty(c.node.args[0]) {
        Type::Stack(frame) => frame.to_vec(),
        Type::Tensor(_) => vec![],
    };
    c.task(move |frame: CallFrame<'_>| {
        let (a, b) = (frame.number(frame.arg(0)), frame.number(frame.arg(1)));
        let sum = frame.memory.tapes.merge(a, b, &types);
        let out = frame.out(0).start;
        frame.memory.floats[out] = sum;
    })
}
