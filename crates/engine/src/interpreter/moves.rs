//! Where elements go in ops that only move them.

use crate::ops::{Op, Pad};
use crate::types::Shape;

/// All multi-indices of a shape in row-major order.
pub(super) struct Indices {
    dims: Vec<usize>,
    next: Option<Vec<usize>>,
}

impl Indices {
    pub(super) fn of(shape: &Shape) -> Indices {
        let next = (shape.elements() > 0).then(|| vec![0; shape.rank()]);
        Indices {
            dims: shape.dims().to_vec(),
            next,
        }
    }
}

impl Iterator for Indices {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let current = self.next.take()?;
        let mut following = current.clone();
        for axis in (0..self.dims.len()).rev() {
            following[axis] += 1;
            if following[axis] < self.dims[axis] {
                self.next = Some(following);
                break;
            }
            following[axis] = 0;
        }
        Some(current)
    }
}

/// The row-major offset of an index.
pub(crate) fn offset(shape: &Shape, index: impl Iterator<Item = usize>) -> usize {
    index.zip(shape.dims()).fold(0, |at, (i, &d)| at * d + i)
}

/// For each element of the result, the offset in the argument it is read from.
pub(crate) fn read(op: &Op, from: &Shape, to: &Shape) -> Vec<usize> {
    let source = |index: &[usize]| match op {
        Op::Broadcast(b) => offset(from, b.axes.iter().map(|&a| index[a])),
        Op::Transpose(t) => {
            let mut back = vec![0; index.len()];
            t.order.iter().zip(index).for_each(|(&a, &i)| back[a] = i);
            offset(from, back.into_iter())
        }
        Op::Slice(s) => offset(from, (0..index.len()).map(|a| s.start[a] + index[a] * s.step[a])),
        _ => offset(from, index.iter().copied()),
    };
    Indices::of(to).map(|index| source(&index)).collect()
}

/// For each element of the argument, the offset in the result it is written to.
pub(crate) fn padded(pad: &Pad, from: &Shape, to: &Shape) -> Vec<usize> {
    let target = |index: Vec<usize>| {
        offset(
            to,
            index
                .iter()
                .enumerate()
                .map(|(a, &i)| pad.low[a] + i * (pad.gap[a] + 1)),
        )
    };
    Indices::of(from).map(target).collect()
}

/// The row an index names, if it is inside.
pub(crate) fn row(index: f64, rows: usize) -> Option<usize> {
    (index >= 0.0 && index < rows as f64).then_some(index as usize)
}
