//! Matrix products.

use serde::{Deserialize, Serialize};

use super::{Applied, Axes, Axis, Cost, Primitive, arity, broadcast_all, tensor, traffic};
use crate::graph::{Builder, Value};
use crate::types::{Shape, Type};

/// The product of two matrices, or of two equally long stacks of matrices, either of them transposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dot {
    /// The left matrix is transposed first.
    pub ta: bool,
    /// The right matrix is transposed first.
    pub tb: bool,
}

/// The extents of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Matrices in each stack; 1 without a batch axis.
    pub batch: usize,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// The summed extent.
    pub k: usize,
}

impl Dot {
    /// The extents for argument shapes that fit.
    pub fn extents(&self, a: &Shape, b: &Shape) -> Result<Extents, String> {
        let (x, y) = (a.dims(), b.dims());
        let ([p, q], [r, s], batch) = match (x, y) {
            ([p, q], [r, s]) => ([*p, *q], [*r, *s], 1),
            ([i, p, q], [j, r, s]) if i == j => ([*p, *q], [*r, *s], *i),
            _ => {
                return Err(format!(
                    "{a} and {b} are not two matrices, nor two equally long stacks of matrices"
                ));
            }
        };
        let (m, k) = if self.ta { (q, p) } else { (p, q) };
        let (l, n) = if self.tb { (s, r) } else { (r, s) };
        if k != l {
            return Err(format!("the inner extents {k} and {l} of {a} and {b} differ"));
        }
        Ok(Extents { batch, m, n, k })
    }
}

impl Primitive for Dot {
    fn name(&self) -> String {
        match (self.ta, self.tb) {
            (false, false) => "dot",
            (true, false) => "dot.tn",
            (false, true) => "dot.nt",
            (true, true) => "dot.tt",
        }
        .into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 2)?;
        let (x, y) = (tensor(args, 0)?, tensor(args, 1)?);
        let e = self.extents(x, y)?;
        Ok(vec![if x.rank() == 3 {
            Type::tensor([e.batch, e.m, e.n])
        } else {
            Type::tensor([e.m, e.n])
        }])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let (Some(d), x, y, Dot { ta, tb }) = (d[0], at.args[0], at.args[1], *self) else {
            return vec![None, None];
        };
        let dx = match ta {
            false => b.one(Dot { ta: false, tb: !tb }, &[d, y]),
            true => b.one(Dot { ta: tb, tb: true }, &[y, d]),
        };
        let dy = match tb {
            false => b.one(Dot { ta: !ta, tb: false }, &[x, d]),
            true => b.one(Dot { ta: true, tb: ta }, &[d, x]),
        };
        vec![Some(dx), Some(dy)]
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let inner = args
            .iter()
            .zip(batched)
            .map(|(&v, &is)| b.shape(v).rank() - usize::from(is))
            .max();
        // A batch of rows times one matrix is one larger product.
        if inner == Some(2) && batched == [true, false] && !self.ta {
            let dims = b.shape(args[0]);
            let (rows, k) = (dims.dims()[0] * dims.dims()[1], dims.dims()[2]);
            let flat = b.reshape(args[0], [rows, k]);
            let out = b.one(*self, &[flat, args[1]]);
            let columns = b.shape(out).dims()[1];
            return Ok(vec![b.reshape(out, [n, dims.dims()[1], columns])]);
        }
        let args = broadcast_all(b, args, batched, n);
        if inner == Some(2) {
            return Ok(b.apply(*self, &args));
        }
        let merge = |b: &mut Builder, v: Value| {
            let s = b.shape(v);
            let d = s.dims();
            b.reshape(v, [d[0] * d[1], d[2], d[3]])
        };
        let stack = b.shape(args[0]).dims()[1];
        let (x, y) = (merge(b, args[0]), merge(b, args[1]));
        let out = b.one(*self, &[x, y]);
        let s = b.shape(out);
        Ok(vec![b.reshape(out, [n, stack, s.dims()[1], s.dims()[2]])])
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        const B: Axis = Axis::Factor(0);
        const M: Axis = Axis::Factor(1);
        const N: Axis = Axis::Factor(2);
        const K: Axis = Axis::Factor(3);
        let stacked = outs[0].shape().is_some_and(|s| s.rank() == 3);
        let with = |pair: [Axis; 2]| {
            if stacked {
                vec![B, pair[0], pair[1]]
            } else {
                pair.to_vec()
            }
        };
        let _ = args;
        let x = if self.ta { [K, M] } else { [M, K] };
        let y = if self.tb { [N, K] } else { [K, N] };
        Axes {
            args: vec![with(x), with(y)],
            outs: vec![with([M, N])],
        }
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        let shapes = (args[0].shape(), args[1].shape());
        let flops = match shapes {
            (Some(x), Some(y)) => self
                .extents(x, y)
                .map_or(0, |e| 2 * (e.batch * e.m * e.n * e.k) as u64),
            _ => 0,
        };
        Cost {
            flops,
            bytes: traffic(args, outs),
        }
    }
}
