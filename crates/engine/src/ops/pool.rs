//! Pooling of images: the largest, or the sum, of what a window covers. A largest element is *picked* by one tensor from
//! another, which makes picking linear and its own adjoint's adjoint: the family is closed under differentiation.

use serde::{Deserialize, Serialize};

use super::{Applied, Axes, Axis, Cost, Primitive, Window, arity, broadcast_all, tensor, traffic};
use crate::graph::{Builder, Value};
use crate::types::{Shape, Type};

/// What a window does with the positions it covers. Padding is never picked and adds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PoolRole {
    /// `(x, z) -> y`: per window, the element of `z` where `x` is largest, the first of equals; NaN counts as larger than
    /// every number. A window with nothing but padding gives 0. Max pooling is this with `x` for both.
    MaxPick,
    /// `(x, y) -> z`, its adjoint: per window, adds the element of `y` where `x` is largest.
    MaxSpread,
    /// `x -> y`: per window, the sum.
    Sum,
    /// `y -> x`, its adjoint: per window, adds the element everywhere.
    SumSpread,
}

/// A window moved over every channel of `[n, height, width, channels]` by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pool {
    /// What is computed.
    pub role: PoolRole,
    /// The window; the same in all roles.
    pub window: Window,
}

impl Pool {
    /// The same window with another role.
    pub(crate) fn as_role(self, role: PoolRole) -> Pool {
        Pool { role, ..self }
    }

    /// Images and channels, for argument shapes that fit.
    pub fn extents(&self, shapes: &[&Shape]) -> Result<[usize; 2], String> {
        let input = self.window.input;
        // A batch that is none is named before a window that does not fit.
        if self.role != PoolRole::SumSpread {
            Window::images(shapes[0], input)?;
        }
        let places = self.window.output()?;
        let wanted: &[[usize; 2]] = match self.role {
            PoolRole::MaxPick => &[input, input],
            PoolRole::MaxSpread => &[input, places],
            PoolRole::Sum => &[input],
            PoolRole::SumSpread => &[places],
        };
        let first = Window::images(shapes[0], wanted[0])?;
        for (shape, &extents) in shapes.iter().zip(wanted).skip(1) {
            if Window::images(shape, extents)? != first {
                return Err(format!("{} and {shape} differ in images or channels", shapes[0]));
            }
        }
        Ok(first)
    }

    fn arguments(&self) -> usize {
        match self.role {
            PoolRole::MaxPick | PoolRole::MaxSpread => 2,
            PoolRole::Sum | PoolRole::SumSpread => 1,
        }
    }
}

impl Primitive for Pool {
    fn name(&self) -> String {
        let role = match self.role {
            PoolRole::MaxPick => "pool.max",
            PoolRole::MaxSpread => "pool.max.spread",
            PoolRole::Sum => "pool.sum",
            PoolRole::SumSpread => "pool.sum.spread",
        };
        format!("{role}[{}]", self.window)
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, self.arguments())?;
        let shapes: Vec<&Shape> = (0..args.len())
            .map(|i| tensor(args, i))
            .collect::<Result<_, _>>()?;
        let [n, channels] = self.extents(&shapes)?;
        let [h, w] = match self.role {
            PoolRole::MaxPick | PoolRole::Sum => self.window.output()?,
            PoolRole::MaxSpread | PoolRole::SumSpread => self.window.input,
        };
        Ok(vec![Type::tensor([n, h, w, channels])])
    }

    /// What is largest does not change under a small change, so the choosing argument has no cotangent.
    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let Some(d) = d[0] else {
            return vec![None; at.args.len()];
        };
        let adjoint = |role: PoolRole| self.as_role(role);
        match self.role {
            PoolRole::MaxPick => vec![None, Some(b.one(adjoint(PoolRole::MaxSpread), &[at.args[0], d]))],
            PoolRole::MaxSpread => vec![None, Some(b.one(adjoint(PoolRole::MaxPick), &[at.args[0], d]))],
            PoolRole::Sum => vec![Some(b.one(adjoint(PoolRole::SumSpread), &[d]))],
            PoolRole::SumSpread => vec![Some(b.one(adjoint(PoolRole::Sum), &[d]))],
        }
    }

    /// A batch of batches of images is one larger batch of images.
    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let args = broadcast_all(b, args, batched, n);
        let mut images = 0;
        let mut flat = vec![];
        for x in args {
            let shape = b.shape(x);
            let &[_, m, h, w, c] = shape.dims() else {
                return Err(format!("{shape} is not a batch of images"));
            };
            images = m;
            flat.push(b.reshape(x, [n * m, h, w, c]));
        }
        let out = b.one(*self, &flat);
        let shape = b.shape(out);
        Ok(vec![b.reshape(out, [&[n, images], &shape.dims()[1..]].concat())])
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        let image = vec![Axis::Factor(0), Axis::Whole, Axis::Whole, Axis::Factor(1)];
        Axes {
            args: vec![image.clone(); args.len()],
            outs: vec![image; outs.len()],
        }
    }

    /// One operation per tap and place.
    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        let places = match self.role {
            PoolRole::MaxPick | PoolRole::Sum => outs[0].slots(),
            PoolRole::MaxSpread => args[1].slots(),
            PoolRole::SumSpread => args[0].slots(),
        };
        let taps = (self.window.kernel[0] as u64).saturating_mul(self.window.kernel[1] as u64);
        Cost {
            flops: taps.saturating_mul(places as u64),
            bytes: traffic(args, outs),
        }
    }
}
