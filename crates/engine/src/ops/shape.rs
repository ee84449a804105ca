//! Ops that move elements without computing.

use serde::{Deserialize, Serialize};

use super::{Applied, Axes, Axis, Primitive, arity, broadcast_all, tensor};
use crate::graph::{Builder, Value};
use crate::types::{Shape, Type};

/// The same elements in row-major order under another shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reshape {
    /// The result's shape.
    pub shape: Shape,
}

impl Primitive for Reshape {
    fn name(&self) -> String {
        "reshape".into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 1)?;
        let x = tensor(args, 0)?;
        if self.shape.checked_elements() != Some(x.elements()) {
            return Err(format!(
                "{x} has {} elements and {} has another number",
                x.elements(),
                self.shape
            ));
        }
        Ok(vec![Type::Tensor(self.shape.clone())])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let shape = b.shape(at.args[0]);
        vec![d[0].map(|d| b.reshape(d, shape))]
    }

    fn batch(&self, b: &mut Builder, args: &[Value], _: &[bool], n: usize) -> Result<Vec<Value>, String> {
        Ok(b.apply(
            Reshape {
                shape: self.shape.batched(n),
            },
            args,
        ))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        // Leading axes that keep their extent keep their identity; the rest is mixed.
        let mut axes = Axes::whole(args, outs);
        let (from, to) = (args[0].shape().map_or(&[][..], |s| s.dims()), self.shape.dims());
        for (i, _) in from.iter().zip(to).enumerate().take_while(|(_, (a, b))| a == b) {
            axes.args[0][i] = Axis::Factor(i as u32);
            axes.outs[0][i] = Axis::Factor(i as u32);
        }
        axes
    }
}

/// Reorders axes: axis `i` of the result is axis `order[i]` of the argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transpose {
    /// A permutation of the axes.
    pub order: Vec<usize>,
}

impl Primitive for Transpose {
    fn name(&self) -> String {
        format!("transpose{:?}", self.order)
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 1)?;
        let x = tensor(args, 0)?;
        let mut sorted = self.order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..x.rank()) {
            return Err(format!("{:?} is not an order of the axes of {x}", self.order));
        }
        Ok(vec![Type::tensor(
            self.order.iter().map(|&a| x.dims()[a]).collect::<Vec<_>>(),
        )])
    }

    fn vjp(&self, b: &mut Builder, _: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let mut order = vec![0; self.order.len()];
        self.order.iter().enumerate().for_each(|(i, &a)| order[a] = i);
        vec![d[0].map(|d| b.one(Transpose { order }, &[d]))]
    }

    fn batch(&self, b: &mut Builder, args: &[Value], _: &[bool], _: usize) -> Result<Vec<Value>, String> {
        let order = std::iter::once(0)
            .chain(self.order.iter().map(|a| a + 1))
            .collect();
        Ok(b.apply(Transpose { order }, args))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        let all = Axes::pointwise(args, outs).args;
        let moved = self.order.iter().map(|&a| all[0][a]).collect();
        Axes {
            args: all,
            outs: vec![moved],
        }
    }
}

/// A regular sub-block: per axis the elements `start, start + step, ...` below `stop`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slice {
    /// First index per axis.
    pub start: Vec<usize>,
    /// End (exclusive) per axis.
    pub stop: Vec<usize>,
    /// Distance between elements per axis, at least 1.
    pub step: Vec<usize>,
}

impl Slice {
    fn extents(&self) -> Vec<usize> {
        (0..self.start.len())
            .map(|i| (self.stop[i] - self.start[i]).div_ceil(self.step[i]))
            .collect()
    }
}

impl Primitive for Slice {
    fn name(&self) -> String {
        let axis = |i: usize| match self.step[i] {
            1 => format!("{}..{}", self.start[i], self.stop[i]),
            step => format!("{}..{}/{step}", self.start[i], self.stop[i]),
        };
        match self.start.len() == self.stop.len() && self.stop.len() == self.step.len() {
            true => format!(
                "slice[{}]",
                (0..self.start.len()).map(axis).collect::<Vec<_>>().join(", ")
            ),
            false => "slice".into(),
        }
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 1)?;
        let x = tensor(args, 0)?;
        let n = x.rank();
        if self.start.len() != n || self.stop.len() != n || self.step.len() != n {
            return Err(format!("it names {} axes of {x}", self.start.len()));
        }
        let bad =
            |i: &usize| self.start[*i] > self.stop[*i] || self.stop[*i] > x.dims()[*i] || self.step[*i] == 0;
        if let Some(i) = (0..n).find(bad) {
            let (start, stop, step) = (self.start[i], self.stop[i], self.step[i]);
            return Err(format!("{start}..{stop} by {step} is outside axis {i} of {x}"));
        }
        Ok(vec![Type::tensor(self.extents())])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let shape = b.shape(at.args[0]);
        let extents = self.extents();
        let covered = |i: usize| {
            if extents[i] == 0 {
                0
            } else {
                (extents[i] - 1) * self.step[i] + 1
            }
        };
        let pad = Pad {
            low: self.start.clone(),
            high: (0..extents.len())
                .map(|i| shape.dims()[i] - self.start[i] - covered(i))
                .collect(),
            gap: self.step.iter().map(|s| s - 1).collect(),
        };
        vec![d[0].map(|d| b.one(pad, &[d]))]
    }

    fn batch(&self, b: &mut Builder, args: &[Value], _: &[bool], n: usize) -> Result<Vec<Value>, String> {
        let front = |first: usize, rest: &[usize]| [&[first], rest].concat();
        let slice = Slice {
            start: front(0, &self.start),
            stop: front(n, &self.stop),
            step: front(1, &self.step),
        };
        Ok(b.apply(slice, args))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        same_extent_axes(args, outs)
    }
}

/// Surrounds a tensor with zeros, and spreads its elements apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pad {
    /// Zeros before, per axis.
    pub low: Vec<usize>,
    /// Zeros after, per axis.
    pub high: Vec<usize>,
    /// Zeros between neighbours, per axis.
    pub gap: Vec<usize>,
}

impl Primitive for Pad {
    fn name(&self) -> String {
        format!("pad{:?}{:?}", self.low, self.high)
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 1)?;
        let x = tensor(args, 0)?;
        let n = x.rank();
        if self.low.len() != n || self.high.len() != n || self.gap.len() != n {
            return Err(format!("it names {} axes of {x}", self.low.len()));
        }
        let extent = |i: usize| {
            let d = x.dims()[i];
            let distance = self.gap[i].checked_add(1)?;
            let spread = d.saturating_sub(1).checked_mul(distance)?.checked_add(d.min(1))?;
            spread.checked_add(self.low[i])?.checked_add(self.high[i])
        };
        let dims: Option<Vec<usize>> = (0..n).map(extent).collect();
        dims.map(|d| vec![Type::tensor(d)])
            .ok_or_else(|| "the result is too large".into())
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let (from, to) = (b.shape(at.args[0]), b.shape(at.outs[0]));
        let stop = |i: usize| match from.dims()[i] {
            0 => self.low[i],
            _ => to.dims()[i] - self.high[i],
        };
        let slice = Slice {
            start: self.low.clone(),
            stop: (0..from.rank()).map(stop).collect(),
            step: self.gap.iter().map(|g| g + 1).collect(),
        };
        vec![d[0].map(|d| b.one(slice, &[d]))]
    }

    fn batch(&self, b: &mut Builder, args: &[Value], _: &[bool], _: usize) -> Result<Vec<Value>, String> {
        let front = |rest: &[usize]| [&[0], rest].concat();
        Ok(b.apply(
            Pad {
                low: front(&self.low),
                high: front(&self.high),
                gap: front(&self.gap),
            },
            args,
        ))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        same_extent_axes(args, outs)
    }
}

/// Axes of equal extent run together, the others stay whole.
fn same_extent_axes(args: &[Type], outs: &[Type]) -> Axes {
    let mut axes = Axes::whole(args, outs);
    if let (Some(x), Some(y)) = (args[0].shape(), outs[0].shape()) {
        for i in (0..x.rank()).filter(|&i| x.dims()[i] == y.dims()[i]) {
            axes.args[0][i] = Axis::Factor(i as u32);
            axes.outs[0][i] = Axis::Factor(i as u32);
        }
    }
    axes
}

/// Puts tensors one after the other along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Concat {
    /// The axis.
    pub axis: usize,
}

impl Primitive for Concat {
    fn name(&self) -> String {
        format!("concat[{}]", self.axis)
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        if args.is_empty() {
            return Err("it needs at least one tensor".into());
        }
        let first = tensor(args, 0)?;
        if self.axis >= first.rank() {
            return Err(format!("{first} has no axis {}", self.axis));
        }
        let mut dims = first.dims().to_vec();
        for i in 1..args.len() {
            let next = tensor(args, i)?;
            let fits = |a: usize| a == self.axis || next.dims()[a] == dims[a];
            if next.rank() != dims.len() || !(0..dims.len()).all(fits) {
                return Err(format!("{first} and {next} differ beside axis {}", self.axis));
            }
            dims[self.axis] = dims[self.axis]
                .checked_add(next.dims()[self.axis])
                .ok_or("the result is too large")?;
        }
        Ok(vec![Type::tensor(dims)])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let Some(d) = d[0] else {
            return vec![None; at.args.len()];
        };
        let mut offset = 0;
        let pieces = at.args.iter().map(|&x| {
            let shape = b.shape(x);
            let mut start = vec![0; shape.rank()];
            let mut stop = shape.dims().to_vec();
            start[self.axis] = offset;
            offset += stop[self.axis];
            stop[self.axis] = offset;
            Some(b.one(
                Slice {
                    start,
                    stop,
                    step: vec![1; shape.rank()],
                },
                &[d],
            ))
        });
        pieces.collect()
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let args = broadcast_all(b, args, batched, n);
        Ok(b.apply(Concat { axis: self.axis + 1 }, &args))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        let mut axes = Axes::pointwise(args, outs);
        axes.args
            .iter_mut()
            .chain(&mut axes.outs)
            .for_each(|a| a[self.axis] = Axis::Whole);
        axes
    }
}
