//! Rounding to the levels of a byte.

use super::super::{CallFrame, KernelCall};
use super::Context;
use crate::ops::FakeQuant;

/// Added and taken away again, it leaves a smaller number rounded, halves to even: at 1.5 · 2²³ numbers are integers.
/// Unlike the function of the standard library it is one instruction on every processor.
const ROUND: f32 = 12_582_912.0;

pub(super) fn fake_quant(c: &Context<'_>, op: FakeQuant) -> KernelCall {
    let (_, scales, inner) = op.runs(c.graph.shape(c.node.args[0]));
    let (least, most) = (op.least as f32, op.most as f32);
    let quantised = move |x: f32, scale: f32| {
        let level = (x / scale).clamp(least, most);
        (level + ROUND - ROUND) * scale
    };
    c.task(move |mut frame: CallFrame<'_>| {
        frame.with([0, 1], 0, |[x, scale], y| {
            if inner == 1 {
                for (x, y) in x.chunks(scales.max(1)).zip(y.chunks_mut(scales.max(1))) {
                    for ((x, y), &s) in x.iter().zip(y).zip(scale) {
                        *y = quantised(*x, s);
                    }
                }
                return;
            }
            let runs = x.chunks(inner.max(1)).zip(y.chunks_mut(inner.max(1)));
            for ((x, y), &s) in runs.zip(scale.iter().cycle()) {
                x.iter().zip(y).for_each(|(x, y)| *y = quantised(*x, s));
            }
        });
    })
}
