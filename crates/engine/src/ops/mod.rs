//! The closed set of ops. One file per family states, once, everything the engine knows about an op: its type rule,
//! gradient, batching rule, axes and cost.

mod control;
mod conv;
mod custom;
mod dot;
mod elementwise;
mod fused;
mod index;
mod lstm;
mod norm;
mod pool;
mod quantise;
mod reduce;
mod shape;
mod source;
mod stack;
mod update;
mod window;

use std::fmt;
use std::iter::Sum;
use std::ops::Add;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::graph::{Builder, Graph, Value};
use crate::types::Type;

pub(crate) use control::empty_tape;
pub use control::{If, While};
pub use conv::{Conv, ConvExtents, ConvRole};
pub use custom::{Custom, Evaluate, Infer, Pullback};
pub use dot::Dot;
pub use elementwise::{Binary, Select, Unary};
pub use fused::{Fused, FusedKind};
pub use index::{Gather, Scatter};
pub use lstm::{Lstm, LstmExtents, LstmRole};
pub use norm::{BatchNorm, BatchNormRole};
pub use pool::{Pool, PoolRole};
pub use quantise::FakeQuant;
pub use reduce::{Broadcast, Reduce, Reduction};
pub use shape::{Concat, Pad, Reshape, Slice, Transpose};
pub(crate) use source::uniform_bits;
pub use source::{Const, Distribution, Full, KEY, Random, key};
pub use stack::{Empty, Merge, NotEmpty, Pop, Push};
pub use update::{Rule, Update};
pub use window::{Padding, Slide, Window};

/// What is computed by a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(
    missing_docs,
    reason = "each variant is named after the documented struct it holds"
)]
pub enum Op {
    Unary(Unary),
    Binary(Binary),
    Select(Select),
    Reduce(Reduce),
    Broadcast(Broadcast),
    Dot(Dot),
    Conv(Conv),
    Pool(Pool),
    Lstm(Lstm),
    BatchNorm(BatchNorm),
    Reshape(Reshape),
    Transpose(Transpose),
    Slice(Slice),
    Pad(Pad),
    Concat(Concat),
    Gather(Gather),
    Scatter(Scatter),
    Const(Const),
    Full(Full),
    Random(Random),
    If(If),
    While(While),
    Empty(Empty),
    Push(Push),
    Pop(Pop),
    NotEmpty(NotEmpty),
    Merge(Merge),
    Update(Update),
    FakeQuant(FakeQuant),
    #[serde(skip)]
    Fused(Fused),
    #[serde(skip)]
    Custom(Custom),
}

/// What every op states about itself.
pub trait Primitive {
    /// The name people see.
    fn name(&self) -> String;

    /// The result types, or what is wrong with the arguments.
    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String>;

    /// Emits the cotangents of the arguments, given those of the results (`None` is zero).
    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>>;

    /// Emits the op applied to a whole batch: arguments marked `batched` carry a new outermost axis of extent `n`.
    /// Every result carries it too. At least one argument is batched.
    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String>;

    /// Which axes of arguments and results run together, as in an einsum.
    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        Axes::whole(args, outs)
    }

    /// Floating-point operations and bytes moved by one evaluation.
    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        Cost {
            flops: 0,
            bytes: traffic(args, outs),
        }
    }

    /// How many values to hand out after a type error, so that building can go on to the end.
    fn outputs_after_error(&self) -> usize {
        1
    }
}

/// A node being differentiated: the values it was applied to and gave, in the graph under construction.
pub struct Applied<'a> {
    /// Arguments.
    pub args: &'a [Value],
    /// Results.
    pub outs: &'a [Value],
    /// Which arguments' cotangents are wanted; others may be given or left out.
    pub wanted: &'a [bool],
    /// The tape recorded by the forward pass, for loops.
    pub tape: Option<Value>,
}

/// Work done by one evaluation. All that predicts or counts cost in Synod reads this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Floating-point operations; a multiply-add counts as two.
    pub flops: u64,
    /// Bytes read and written, had no cache existed.
    pub bytes: u64,
}

impl Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        Cost {
            flops: self.flops.saturating_add(other.flops),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(iter: I) -> Cost {
        iter.fold(Cost::default(), Add::add)
    }
}

/// How one axis takes part in an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// All axes with the same number run together and may be split together. A number that appears in arguments but
    /// in no result is summed (or otherwise reduced) over.
    Factor(u32),
    /// The op needs the whole extent on one device.
    Whole,
}

/// The axes of all arguments and results of an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    /// Per argument, per dimension.
    pub args: Vec<Vec<Axis>>,
    /// Per result, per dimension.
    pub outs: Vec<Vec<Axis>>,
}

impl Axes {
    /// Nothing may be split.
    pub fn whole(args: &[Type], outs: &[Type]) -> Axes {
        let all = |types: &[Type]| types.iter().map(|t| vec![Axis::Whole; rank(t)]).collect();
        Axes {
            args: all(args),
            outs: all(outs),
        }
    }

    /// Every argument and result has the same axes.
    pub fn pointwise(args: &[Type], outs: &[Type]) -> Axes {
        let all = |types: &[Type]| {
            types
                .iter()
                .map(|t| (0..rank(t) as u32).map(Axis::Factor).collect())
                .collect()
        };
        Axes {
            args: all(args),
            outs: all(outs),
        }
    }
}

fn rank(ty: &Type) -> usize {
    ty.shape().map_or(0, |s| s.rank())
}

/// Bytes of all arguments and results.
pub(crate) fn traffic(args: &[Type], outs: &[Type]) -> u64 {
    args.iter().chain(outs).map(|t| t.slots() as u64 * 4).sum()
}

/// Checks the number of arguments.
pub(crate) fn arity(args: &[&Type], n: usize) -> Result<(), String> {
    if args.len() == n {
        Ok(())
    } else {
        Err(format!("it takes {n} arguments, not {}", args.len()))
    }
}

/// The shape of argument `i`, which must be a tensor.
pub(crate) fn tensor<'a>(args: &[&'a Type], i: usize) -> Result<&'a crate::types::Shape, String> {
    args[i]
        .shape()
        .ok_or_else(|| format!("argument {} is not a tensor", i + 1))
}

impl Op {
    /// The op's statement about itself.
    pub fn primitive(&self) -> &dyn Primitive {
        match self {
            Op::Unary(p) => p,
            Op::Binary(p) => p,
            Op::Select(p) => p,
            Op::Reduce(p) => p,
            Op::Broadcast(p) => p,
            Op::Dot(p) => p,
            Op::Conv(p) => p,
            Op::Pool(p) => p,
            Op::Lstm(p) => p,
            Op::BatchNorm(p) => p,
            Op::Reshape(p) => p,
            Op::Transpose(p) => p,
            Op::Slice(p) => p,
            Op::Pad(p) => p,
            Op::Concat(p) => p,
            Op::Gather(p) => p,
            Op::Scatter(p) => p,
            Op::Const(p) => p,
            Op::Full(p) => p,
            Op::Random(p) => p,
            Op::If(p) => p,
            Op::While(p) => p,
            Op::Empty(p) => p,
            Op::Push(p) => p,
            Op::Pop(p) => p,
            Op::NotEmpty(p) => p,
            Op::Merge(p) => p,
            Op::Update(p) => p,
            Op::FakeQuant(p) => p,
            Op::Fused(p) => p,
            Op::Custom(p) => p,
        }
    }

    /// The graphs inside this op.
    pub fn graphs(&self) -> Vec<&Arc<Graph>> {
        match self {
            Op::If(p) => vec![&p.then, &p.otherwise],
            Op::While(p) => vec![&p.cond, &p.body],
            Op::Fused(p) => vec![&p.body],
            _ => vec![],
        }
    }

    /// The op with each inner graph replaced.
    pub(crate) fn map_graphs<E>(&self, mut f: impl FnMut(&Graph) -> Result<Graph, E>) -> Result<Op, E> {
        Ok(match self {
            Op::If(p) => Op::If(If {
                then: f(&p.then)?.into(),
                otherwise: f(&p.otherwise)?.into(),
            }),
            Op::While(p) => Op::While(While {
                cond: f(&p.cond)?.into(),
                body: f(&p.body)?.into(),
            }),
            other => other.clone(),
        })
    }

    /// True for ops that treat every element alike.
    pub(crate) fn is_elementwise(&self) -> bool {
        matches!(self, Op::Unary(_) | Op::Binary(_) | Op::Select(_))
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.primitive().name())
    }
}

macro_rules! from_ops {
    ($($name:ident),*) => { $(impl From<$name> for Op { fn from(op: $name) -> Op { Op::$name(op) } })* };
}
from_ops!(
    Unary, Binary, Select, Reduce, Broadcast, Dot, Conv, Pool, Lstm, BatchNorm, Reshape, Transpose, Slice,
    Pad, Concat, Gather, Scatter, Const, Full, Random, If, While, Empty, Push, Pop, NotEmpty, Merge, Update,
    FakeQuant, Fused, Custom
);

/// Gives every unbatched argument the batch axis.
pub(crate) fn broadcast_all(b: &mut Builder, args: &[Value], batched: &[bool], n: usize) -> Vec<Value> {
    args.iter()
        .zip(batched)
        .map(|(&v, &is)| if is { v } else { b.repeat_batch(v, n) })
        .collect()
}
