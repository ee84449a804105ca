//! Algebra that holds exactly in floating point (but for the order of one sum), and moves that cancel.

use super::{Pass, everywhere, rewrite::rewrite};
use crate::error::Result;
use crate::graph::{Builder, Graph, Node, Value};
use crate::ops::{Binary, Op, Pool, PoolRole, Reduction, Reshape, Select, Transpose, Unary};

/// See the module.
pub(super) struct Simplify;

impl Pass for Simplify {
    fn name(&self) -> &'static str {
        "simplify"
    }

    fn run(&self, graph: &Graph) -> Result<Graph> {
        everywhere(graph, &|g| {
            rewrite(g, |b, node, args| {
                Ok(simpler(b, node, args).unwrap_or_else(|| b.apply(node.op.clone(), args)))
            })
        })
    }
}

/// The op that defined a value of the graph under construction, with its arguments.
fn definition(b: &Builder, v: Value) -> Option<&Node> {
    b.definition(v)
}

fn full(b: &Builder, v: Value) -> Option<f32> {
    match &definition(b, v)?.op {
        Op::Full(f) => Some(f.value),
        Op::Broadcast(_) => full(b, definition(b, v)?.args[0]),
        Op::Const(c) if c.data.len() == 1 => Some(c.data[0]),
        _ => None,
    }
}

fn simpler(b: &mut Builder, node: &Node, args: &[Value]) -> Option<Vec<Value>> {
    let same = match &node.op {
        Op::Binary(f) => binary(b, *f, args[0], args[1])?,
        Op::Unary(Unary::Neg) => match definition(b, args[0])? {
            Node {
                op: Op::Unary(Unary::Neg),
                args,
                ..
            } => args[0],
            _ => return None,
        },
        Op::Select(_) => match full(b, args[0]) {
            Some(c) => args[if c != 0.0 { 1 } else { 2 }],
            None if args[1] == args[2] => args[1],
            None => masked_before_spreading(b, args)?,
        },
        Op::Reshape(r) => {
            if b.ty(args[0]).shape() == Some(&r.shape) {
                return Some(vec![args[0]]);
            }
            let inner = match definition(b, args[0])? {
                Node {
                    op: Op::Reshape(_),
                    args,
                    ..
                } => args[0],
                _ => return None,
            };
            match b.ty(inner).shape() == Some(&r.shape) {
                true => inner,
                false => b.one(
                    Reshape {
                        shape: r.shape.clone(),
                    },
                    &[inner],
                ),
            }
        }
        Op::Transpose(t) => {
            if t.order.iter().copied().eq(0..t.order.len()) {
                return Some(vec![args[0]]);
            }
            let (order, inner) = match definition(b, args[0])? {
                Node {
                    op: Op::Transpose(first),
                    args,
                    ..
                } => (
                    t.order.iter().map(|&a| first.order[a]).collect::<Vec<_>>(),
                    args[0],
                ),
                _ => return None,
            };
            match order.iter().copied().eq(0..order.len()) {
                true => inner,
                false => b.one(Transpose { order }, &[inner]),
            }
        }
        Op::Broadcast(x) if b.ty(args[0]).shape() == Some(&x.shape) => args[0],
        Op::Reduce(r) if r.axes.is_empty() => args[0],
        Op::Reduce(r) if r.kind == Reduction::Sum && r.axes == [0, 1, 2] => {
            // Every number that is spread ends up in one place.
            let (_, from) = spread(b, args[0]).filter(|(pool, _)| pool.window.padding == [[0, 0]; 2])?;
            b.one(r.clone(), &[from[1]])
        }
        Op::Reduce(r) if r.kind != Reduction::Mean && r.count(&b.shape(args[0])) == 1 => {
            let shape = r
                .kept(b.shape(args[0]).rank())
                .iter()
                .map(|&a| b.shape(args[0]).dims()[a])
                .collect::<Vec<_>>();
            b.reshape(args[0], shape)
        }
        _ => return None,
    };
    Some(vec![same])
}

/// What is spread to the largest elements of windows, and how.
fn spread(b: &Builder, v: Value) -> Option<(Pool, [Value; 2])> {
    match definition(b, v)? {
        Node {
            op: Op::Pool(pool),
            args,
            ..
        } if pool.role == PoolRole::MaxSpread => Some((*pool, [args[0], args[1]])),
        _ => None,
    }
}

/// `select(0 < x, spread(x, d), 0)`, the gradient of a ReLU `x` before a max pooling: whatever is spread goes to elements
/// that equal their window's largest, so the mask of the pooled, of which there are fewer, does the same.
fn masked_before_spreading(b: &mut Builder, args: &[Value]) -> Option<Value> {
    let (pool, [x, d]) = spread(b, args[1]).filter(|_| full(b, args[2]) == Some(0.0))?;
    match definition(b, args[0])? {
        Node {
            op: Op::Binary(Binary::Less),
            args,
            ..
        } if args[1] == x && full(b, args[0]) == Some(0.0) => {}
        _ => return None,
    }
    let role = PoolRole::MaxPick;
    let pooled = b.one(Pool { role, ..pool }, &[x, x]);
    let zero = b.full_like(0.0, pooled);
    let open = b.one(Binary::Less, &[zero, pooled]);
    let masked = b.one(Select, &[open, d, zero]);
    Some(b.one(pool, &[x, masked]))
}

/// Only identities that keep NaN and infinities: `x * 1`, `x + 0` (but for the sign of zero), `x - 0`, `x / 1`.
fn binary(b: &mut Builder, f: Binary, x: Value, y: Value) -> Option<Value> {
    let (left, right) = (full(b, x), full(b, y));
    match (f, left, right) {
        (Binary::Add, Some(0.0), _) => Some(y),
        (Binary::Add | Binary::Sub, _, Some(0.0)) => Some(x),
        (Binary::Mul, Some(1.0), _) => Some(y),
        (Binary::Mul | Binary::Div, _, Some(1.0)) => Some(x),
        (Binary::Mul, Some(-1.0), _) => Some(b.neg(y)),
        (Binary::Mul, _, Some(-1.0)) => Some(b.neg(x)),
        (Binary::Pow, _, Some(1.0)) => Some(x),
        (Binary::Pow, _, Some(2.0)) => Some(b.mul(x, x)),
        _ => None,
    }
}
