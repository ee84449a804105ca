//! Reductions and their adjoint, broadcasting.

use serde::{Deserialize, Serialize};

use super::{Applied, Axes, Axis, Binary, Cost, Primitive, Select, arity, tensor, traffic};
use crate::graph::{Builder, Value};
use crate::types::{Shape, Type};

/// How elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the functions")]
pub enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
}

/// Combines all elements along some axes, which vanish.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reduce {
    /// How.
    pub kind: Reduction,
    /// Along which axes, ascending.
    pub axes: Vec<usize>,
}

impl Reduce {
    /// The axes that stay, ascending.
    pub fn kept(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|a| !self.axes.contains(a)).collect()
    }

    /// How many elements are combined into one.
    pub fn count(&self, shape: &Shape) -> usize {
        self.axes.iter().map(|&a| shape.dims()[a]).product()
    }
}

fn ascending(axes: &[usize], rank: usize) -> bool {
    axes.windows(2).all(|w| w[0] < w[1]) && axes.last().is_none_or(|&a| a < rank)
}

impl Primitive for Reduce {
    fn name(&self) -> String {
        format!("{}{:?}", format!("{:?}", self.kind).to_lowercase(), self.axes)
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 1)?;
        let x = tensor(args, 0)?;
        if !ascending(&self.axes, x.rank()) {
            return Err(format!(
                "axes {:?} are not distinct axes of {x} in ascending order",
                self.axes
            ));
        }
        let dims: Vec<usize> = self.kept(x.rank()).iter().map(|&a| x.dims()[a]).collect();
        Ok(vec![Type::tensor(dims)])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let (Some(d), x) = (d[0], at.args[0]) else {
            return vec![None];
        };
        let shape = b.shape(x);
        let spread = Broadcast {
            axes: self.kept(shape.rank()),
            shape: shape.clone(),
        };
        vec![Some(match self.kind {
            Reduction::Sum => b.one(spread, &[d]),
            Reduction::Mean => {
                let share = b.scale(d, 1.0 / self.count(&shape).max(1) as f32);
                b.one(spread, &[share])
            }
            // Elements that tie for the extreme share the cotangent equally.
            Reduction::Max | Reduction::Min => {
                let extreme = b.one(spread.clone(), &[at.outs[0]]);
                let hit = b.one(Binary::Equal, &[x, extreme]);
                let ties = b.one(
                    Reduce {
                        kind: Reduction::Sum,
                        axes: self.axes.clone(),
                    },
                    &[hit],
                );
                let share = b.div(d, ties);
                let share = b.one(spread, &[share]);
                let zero = b.full_like(0.0, x);
                b.one(Select, &[hit, share, zero])
            }
        })]
    }

    fn batch(&self, b: &mut Builder, args: &[Value], _: &[bool], _: usize) -> Result<Vec<Value>, String> {
        Ok(b.apply(
            Reduce {
                kind: self.kind,
                axes: self.axes.iter().map(|a| a + 1).collect(),
            },
            args,
        ))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        let all = Axes::pointwise(args, outs).args;
        let kept = self
            .kept(all[0].len())
            .iter()
            .map(|&a| Axis::Factor(a as u32))
            .collect();
        Axes {
            args: all,
            outs: vec![kept],
        }
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        Cost {
            flops: args[0].slots() as u64,
            bytes: traffic(args, outs),
        }
    }
}

/// Repeats a tensor along new axes: axis `i` of the argument becomes axis `axes[i]` of the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Broadcast {
    /// Where the argument's axes go, ascending.
    pub axes: Vec<usize>,
    /// The result's shape.
    pub shape: Shape,
}

impl Primitive for Broadcast {
    fn name(&self) -> String {
        format!("broadcast{:?}", self.axes)
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 1)?;
        let x = tensor(args, 0)?;
        if x.rank() != self.axes.len() || !ascending(&self.axes, self.shape.rank()) {
            return Err(format!("axes {:?} do not place {x} in {}", self.axes, self.shape));
        }
        if self
            .axes
            .iter()
            .zip(x.dims())
            .any(|(&a, &d)| self.shape.dims()[a] != d)
        {
            return Err(format!("{x} does not fit axes {:?} of {}", self.axes, self.shape));
        }
        Ok(vec![Type::Tensor(self.shape.clone())])
    }

    fn vjp(&self, b: &mut Builder, _: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let axes = (0..self.shape.rank())
            .filter(|a| !self.axes.contains(a))
            .collect();
        vec![d[0].map(|d| {
            b.one(
                Reduce {
                    kind: Reduction::Sum,
                    axes,
                },
                &[d],
            )
        })]
    }

    fn batch(&self, b: &mut Builder, args: &[Value], _: &[bool], n: usize) -> Result<Vec<Value>, String> {
        let axes = std::iter::once(0)
            .chain(self.axes.iter().map(|a| a + 1))
            .collect();
        Ok(b.apply(
            Broadcast {
                axes,
                shape: self.shape.batched(n),
            },
            args,
        ))
    }

    fn axes(&self, _: &[Type], _: &[Type]) -> Axes {
        let factor = |&a: &usize| Axis::Factor(a as u32);
        Axes {
            args: vec![self.axes.iter().map(factor).collect()],
            outs: vec![(0..self.shape.rank()).map(|a| factor(&a)).collect()],
        }
    }
}
