//! Copies: reshape, broadcast, transpose, slice, pad, concatenate, gather, scatter.

use synod_kernels as kernels;

use super::super::{CallFrame, InPlace, KernelCall};
use super::Context;
use crate::error::{Result, transform};
use crate::interpreter::row_of;
use crate::ops::{Op, Pad};
use crate::types::Shape;

/// The most axes a strided copy walks over.
const AXES: usize = 8;

pub(super) fn reshape(c: &Context<'_>) -> KernelCall {
    let mut task = c.task(|mut frame: CallFrame<'_>| {
        let (from, to) = (frame.arg(0), frame.out(0));
        frame.copy(from, to);
    });
    task.in_place = vec![(0, 0, InPlace::May)];
    task
}

/// A copy whose element `(i0, i1, ..)` in row-major order of `dims` lies at `start + Σ i·stride` on the strided side.
#[derive(Clone)]
struct Strided {
    dims: Vec<usize>,
    strides: Vec<usize>,
    start: usize,
}

impl Strided {
    /// Joins neighbouring axes that are one run in memory, and drops axes of extent 1.
    fn new(dims: &[usize], strides: &[usize], start: usize) -> Strided {
        let mut joined: Vec<(usize, usize)> = vec![];
        for (&d, &s) in dims.iter().zip(strides).filter(|(d, _)| **d != 1) {
            match joined.last_mut() {
                Some((extent, stride)) if *stride == s * d => (*extent, *stride) = (*extent * d, s),
                _ => joined.push((d, s)),
            }
        }
        let (dims, strides) = joined.into_iter().unzip();
        Strided { dims, strides, start }
    }

    /// Calls `f(linear, strided, length, stride)` for each run along the last axis.
    fn runs(&self, mut f: impl FnMut(usize, usize, usize, usize)) {
        let Some((&length, outer)) = self.dims.split_last() else {
            return f(0, self.start, 1, 1);
        };
        let stride = self.strides[outer.len()];
        if self.dims.contains(&0) {
            return;
        }
        let mut index = [0usize; AXES];
        let (mut linear, mut at) = (0, self.start);
        loop {
            f(linear, at, length, stride);
            linear += length;
            let mut axis = outer.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                at += self.strides[axis];
                if index[axis] < outer[axis] {
                    break;
                }
                at -= self.strides[axis] * outer[axis];
                index[axis] = 0;
            }
        }
    }
}

fn strided(c: &Context<'_>, dims: &[usize], strides: &[usize], start: usize) -> Result<Strided> {
    let strided = Strided::new(dims, strides, start);
    match strided.dims.len() <= AXES {
        true => Ok(strided),
        false => Err(transform(
            "cpu",
            format!("{}: `{}` moves more than {AXES} axes", c.node.site, c.node.op),
        )),
    }
}

pub(super) fn read(c: &Context<'_>) -> Result<KernelCall> {
    let from = Shape::from(c.dims(0));
    let own = from.strides();
    let (strides, start): (Vec<usize>, usize) = match &c.node.op {
        Op::Broadcast(b) => {
            let mut strides = vec![0; b.shape.rank()];
            b.axes.iter().zip(&own).for_each(|(&a, &s)| strides[a] = s);
            (strides, 0)
        }
        Op::Transpose(t) => (t.order.iter().map(|&a| own[a]).collect(), 0),
        Op::Slice(s) => {
            let start = own.iter().zip(&s.start).map(|(a, b)| a * b).sum();
            (own.iter().zip(&s.step).map(|(a, b)| a * b).collect(), start)
        }
        _ => (own, 0),
    };
    let simd = c.simd;
    if let (Op::Transpose(t), &[rows, columns]) = (&c.node.op, c.dims(0))
        && t.order == [1, 0]
    {
        return Ok(c.task(move |mut frame: CallFrame<'_>| {
            frame.with([0], 0, |[x], y| kernels::transpose(simd, rows, columns, x, y));
        }));
    }
    let copy = strided(c, c.out_dims(), &strides, start)?;
    Ok(c.task(move |mut frame: CallFrame<'_>| {
        frame.with([0], 0, |[x], y| {
            copy.runs(|linear, at, length, stride| {
                let to = &mut y[linear..linear + length];
                match stride {
                    0 => to.fill(x[at]),
                    1 => to.copy_from_slice(&x[at..at + length]),
                    _ => to
                        .iter_mut()
                        .zip(x[at..].iter().step_by(stride))
                        .for_each(|(y, x)| *y = *x),
                }
            });
        });
    }))
}

pub(super) fn pad(c: &Context<'_>, op: &Pad) -> KernelCall {
    let to = Shape::from(c.out_dims());
    let own = to.strides();
    let start = own.iter().zip(&op.low).map(|(a, b)| a * b).sum();
    let strides: Vec<usize> = own.iter().zip(&op.gap).map(|(s, g)| s * (g + 1)).collect();
    let copy = Strided::new(c.dims(0), &strides, start);
    if copy.dims.len() > AXES {
        let (op, from) = (op.clone(), Shape::from(c.dims(0)));
        return c.task(move |mut frame: CallFrame<'_>| {
            frame.with([0], 0, |[x], y| {
                y.fill(0.0);
                let offsets = crate::interpreter::padded_offsets(&op, &from, &to);
                offsets.into_iter().zip(x).for_each(|(at, x)| y[at] = *x);
            });
        });
    }
    c.task(move |mut frame: CallFrame<'_>| {
        frame.with([0], 0, |[x], y| {
            y.fill(0.0);
            copy.runs(|linear, at, length, stride| {
                let from = &x[linear..linear + length];
                match stride {
                    1 => y[at..at + length].copy_from_slice(from),
                    _ => y[at..]
                        .iter_mut()
                        .step_by(stride.max(1))
                        .zip(from)
                        .for_each(|(y, x)| *y = *x),
                }
            });
        });
    })
}

pub(super) fn concat(c: &Context<'_>, axis: usize) -> KernelCall {
    let out = c.out_dims();
    let outer: usize = out[..axis].iter().product();
    let inner: usize = out[axis + 1..].iter().product();
    let blocks: Vec<usize> = (0..c.node.args.len()).map(|i| c.dims(i)[axis] * inner).collect();
    let row: usize = blocks.iter().sum();
    c.task(move |mut frame: CallFrame<'_>| {
        let mut column = 0;
        for (i, &block) in blocks.iter().enumerate() {
            frame.with([i], 0, |[x], y| {
                for o in 0..outer {
                    let at = o * row + column;
                    y[at..at + block].copy_from_slice(&x[o * block..(o + 1) * block]);
                }
            });
            column += block;
        }
    })
}

pub(super) fn gather(c: &Context<'_>) -> KernelCall {
    let (rows, width) = (c.dims(0)[0], c.dims(0)[1..].iter().product::<usize>());
    c.task(move |mut frame: CallFrame<'_>| {
        frame.with([0, 1], 0, |[table, indices], y| {
            for (i, index) in indices.iter().enumerate() {
                let to = &mut y[i * width..(i + 1) * width];
                match row_of(f64::from(*index), rows) {
                    Some(r) => to.copy_from_slice(&table[r * width..(r + 1) * width]),
                    None => to.fill(f32::NAN),
                }
            }
        });
    })
}

pub(super) fn scatter(c: &Context<'_>, rows: usize) -> KernelCall {
    let width: usize = c.out_dims()[1..].iter().product();
    c.task(move |mut frame: CallFrame<'_>| {
        frame.with([0, 1], 0, |[indices, values], y| {
            y.fill(0.0);
            for (i, index) in indices.iter().enumerate() {
                let Some(r) = row_of(f64::from(*index), rows) else {
                    continue;
                };
                let from = &values[i * width..(i + 1) * width];
                y[r * width..(r + 1) * width]
                    .iter_mut()
                    .zip(from)
                    .for_each(|(y, x)| *y += x);
            }
        });
    })
}
