//! Rows picked by index, and their adjoint.

use serde::{Deserialize, Serialize};

use super::{Applied, Axes, Axis, Cost, Primitive, arity, broadcast_all, tensor, traffic};
use crate::graph::{Builder, Value};
use crate::types::{Shape, Type};

/// `table[indices]`: picks sub-tensors along the first axis. Indices are whole numbers held as `f32`; one outside the
/// table gives NaN, so that a mistake is seen and not averaged away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gather;

/// Adds sub-tensors into `rows` rows of zeros at the given indices; those outside are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scatter {
    /// The first extent of the result.
    pub rows: usize,
}

impl Primitive for Gather {
    fn name(&self) -> String {
        "gather".into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 2)?;
        let (table, indices) = (tensor(args, 0)?, tensor(args, 1)?);
        let Some((_, rest)) = table.dims().split_first() else {
            return Err("the table is a scalar; it needs an axis to pick from".into());
        };
        Ok(vec![Type::tensor([indices.dims(), rest].concat())])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let rows = b.shape(at.args[0]).dims()[0];
        vec![d[0].map(|d| b.one(Scatter { rows }, &[at.args[1], d])), None]
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        if batched == [false, true] {
            return Ok(b.apply(*self, args));
        }
        // One long table of all tables, and indices moved to their own part of it.
        let args = broadcast_all(b, args, batched, n);
        let (table, indices) = (b.shape(args[0]), b.shape(args[1]));
        let rows = table.dims()[1];
        let long = b.reshape(args[0], [&[n * rows], &table.dims()[2..]].concat());
        let moved = own_part(b, args[1], &indices, rows);
        Ok(b.apply(*self, &[long, moved]))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        let mut axes = Axes::whole(args, outs);
        let picked = axes.args[1].len();
        for i in 0..picked {
            axes.args[1][i] = Axis::Factor(i as u32);
        }
        for i in 1..axes.args[0].len() {
            axes.args[0][i] = Axis::Factor((picked + i - 1) as u32);
        }
        axes.outs[0]
            .iter_mut()
            .enumerate()
            .for_each(|(i, a)| *a = Axis::Factor(i as u32));
        axes
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        Cost {
            flops: 0,
            bytes: traffic(&args[1..], outs) + traffic(&[], outs),
        }
    }
}

impl Primitive for Scatter {
    fn name(&self) -> String {
        "scatter".into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 2)?;
        let (indices, values) = (tensor(args, 0)?, tensor(args, 1)?);
        let Some(rest) = values.dims().strip_prefix(indices.dims()) else {
            return Err(format!(
                "values {values} do not begin with the axes of the indices {indices}"
            ));
        };
        Ok(vec![Type::tensor([&[self.rows], rest].concat())])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        vec![None, d[0].map(|d| b.one(Gather, &[d, at.args[0]]))]
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let args = broadcast_all(b, args, batched, n);
        let indices = b.shape(args[0]);
        let moved = own_part(b, args[0], &indices, self.rows);
        let long = b.one(Scatter { rows: n * self.rows }, &[moved, args[1]]);
        let shape = b.shape(long);
        Ok(vec![
            b.reshape(long, [&[n, self.rows], &shape.dims()[1..]].concat()),
        ])
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        Cost {
            flops: args[1].slots() as u64,
            bytes: traffic(args, outs),
        }
    }
}

/// Adds `batch index * rows` to batched indices.
fn own_part(b: &mut Builder, indices: Value, shape: &Shape, rows: usize) -> Value {
    let n = shape.dims()[0];
    let offsets = b.constant((0..n).map(|i| (i * rows) as f32).collect(), [n]);
    let spread = b.one(
        super::Broadcast {
            axes: vec![0],
            shape: shape.clone(),
        },
        &[offsets],
    );
    b.add(indices, spread)
}
