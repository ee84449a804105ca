//! Ops that treat every element alike.

use serde::{Deserialize, Serialize};

use super::{Applied, Axes, Cost, Primitive, arity, broadcast_all, tensor, traffic};
use crate::graph::{Builder, Value};
use crate::types::Type;

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the functions")]
pub enum Unary {
    Neg,
    Abs,
    Sign,
    Exp,
    Log,
    Sqrt,
    Recip,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
    Relu,
    Erf,
    Floor,
}

impl Unary {
    /// All of them.
    pub const ALL: [Unary; 14] = {
        use Unary::*;
        [
            Neg, Abs, Sign, Exp, Log, Sqrt, Recip, Sin, Cos, Tanh, Sigmoid, Relu, Erf, Floor,
        ]
    };
}

impl Primitive for Unary {
    fn name(&self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 1)?;
        Ok(vec![Type::Tensor(tensor(args, 0)?.clone())])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let (Some(d), x, y) = (d[0], at.args[0], at.outs[0]) else {
            return vec![None];
        };
        vec![match self {
            Unary::Neg => Some(b.neg(d)),
            Unary::Abs => {
                let sign = b.one(Unary::Sign, &[x]);
                Some(b.mul(d, sign))
            }
            Unary::Exp => Some(b.mul(d, y)),
            Unary::Log => Some(b.div(d, x)),
            Unary::Sqrt => {
                let twice = b.add(y, y);
                Some(b.div(d, twice))
            }
            Unary::Recip => {
                let square = b.mul(y, y);
                let scaled = b.mul(d, square);
                Some(b.neg(scaled))
            }
            Unary::Sin => {
                let cos = b.one(Unary::Cos, &[x]);
                Some(b.mul(d, cos))
            }
            Unary::Cos => {
                let sin = b.one(Unary::Sin, &[x]);
                let scaled = b.mul(d, sin);
                Some(b.neg(scaled))
            }
            Unary::Tanh => {
                let square = b.mul(y, y);
                let one = b.full_like(1.0, y);
                let slope = b.sub(one, square);
                Some(b.mul(d, slope))
            }
            Unary::Sigmoid => {
                let one = b.full_like(1.0, y);
                let rest = b.sub(one, y);
                let slope = b.mul(y, rest);
                Some(b.mul(d, slope))
            }
            // Written in terms of the result, so that the argument need not be kept.
            Unary::Relu => {
                let zero = b.full_like(0.0, y);
                let open = b.one(Binary::Less, &[zero, y]);
                Some(b.one(Select, &[open, d, zero]))
            }
            Unary::Erf => {
                let square = b.mul(x, x);
                let minus = b.neg(square);
                let bell = b.one(Unary::Exp, &[minus]);
                let scaled = b.scale(bell, std::f32::consts::FRAC_2_SQRT_PI);
                Some(b.mul(d, scaled))
            }
            Unary::Sign | Unary::Floor => None,
        }]
    }

    fn batch(&self, b: &mut Builder, args: &[Value], _: &[bool], _: usize) -> Result<Vec<Value>, String> {
        Ok(b.apply(*self, args))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        Axes::pointwise(args, outs)
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        elementwise_cost(args, outs)
    }
}

/// A function of two elements. Comparisons give 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the functions")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    Pow,
    Less,
    Equal,
}

impl Binary {
    /// All of them.
    pub const ALL: [Binary; 9] = {
        use Binary::*;
        [Add, Sub, Mul, Div, Max, Min, Pow, Less, Equal]
    };

    /// True when the arguments may be exchanged.
    pub(crate) fn commutes(self) -> bool {
        matches!(
            self,
            Binary::Add | Binary::Mul | Binary::Max | Binary::Min | Binary::Equal
        )
    }
}

impl Primitive for Binary {
    fn name(&self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 2)?;
        let (x, y) = (tensor(args, 0)?, tensor(args, 1)?);
        if x != y {
            return Err(format!("the shapes {x} and {y} differ and do not broadcast"));
        }
        Ok(vec![Type::Tensor(x.clone())])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let (Some(d), x, y, z) = (d[0], at.args[0], at.args[1], at.outs[0]) else {
            return vec![None, None];
        };
        match self {
            Binary::Add => vec![Some(d), Some(d)],
            Binary::Sub => vec![Some(d), Some(b.neg(d))],
            Binary::Mul => vec![Some(b.mul(d, y)), Some(b.mul(d, x))],
            Binary::Div => {
                let dx = b.div(d, y);
                let slope = b.mul(dx, z);
                vec![Some(dx), Some(b.neg(slope))]
            }
            // On a tie the first argument takes the whole cotangent.
            Binary::Max | Binary::Min => {
                let second = if *self == Binary::Max { [x, y] } else { [y, x] };
                let (pick, zero) = (b.one(Binary::Less, &second), b.full_like(0.0, x));
                vec![
                    Some(b.one(Select, &[pick, zero, d])),
                    Some(b.one(Select, &[pick, d, zero])),
                ]
            }
            Binary::Pow => {
                let one = b.full_like(1.0, y);
                let less = b.sub(y, one);
                let lower = b.one(Binary::Pow, &[x, less]);
                let slope = b.mul(y, lower);
                let log = b.one(Unary::Log, &[x]);
                let growth = b.mul(z, log);
                vec![Some(b.mul(d, slope)), Some(b.mul(d, growth))]
            }
            Binary::Less | Binary::Equal => vec![None, None],
        }
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let args = broadcast_all(b, args, batched, n);
        Ok(b.apply(*self, &args))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        Axes::pointwise(args, outs)
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        elementwise_cost(args, outs)
    }
}

/// Where the first argument is not zero the second, elsewhere the third.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Select;

impl Primitive for Select {
    fn name(&self) -> String {
        "select".into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        arity(args, 3)?;
        let (c, x, y) = (tensor(args, 0)?, tensor(args, 1)?, tensor(args, 2)?);
        if c != x || x != y {
            return Err(format!("the shapes {c}, {x} and {y} differ"));
        }
        Ok(vec![Type::Tensor(x.clone())])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let Some(d) = d[0] else { return vec![None; 3] };
        let (c, zero) = (at.args[0], b.full_like(0.0, d));
        vec![
            None,
            Some(b.one(Select, &[c, d, zero])),
            Some(b.one(Select, &[c, zero, d])),
        ]
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let args = broadcast_all(b, args, batched, n);
        Ok(b.apply(*self, &args))
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        Axes::pointwise(args, outs)
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        elementwise_cost(args, outs)
    }
}

fn elementwise_cost(args: &[Type], outs: &[Type]) -> Cost {
    Cost {
        flops: outs.iter().map(|t| t.slots() as u64).sum(),
        bytes: traffic(args, outs),
    }
}
