//! Computes what is known already: ops on small constants, and branches on constant conditions.

use super::{Pass, everywhere, rewrite::rewrite};
use crate::error::Result;
use crate::graph::{Builder, Graph, Node, Value};
use crate::interpreter::interpret;
use crate::ops::{Const, Full, Op, Reduction};

/// Larger results stay as computations: literals cost memory and file size.
const LARGEST: usize = 256;

/// See the module.
pub(super) struct Fold;

impl Pass for Fold {
    fn name(&self) -> &'static str {
        "fold constants"
    }

    fn run(&self, graph: &Graph) -> Result<Graph> {
        everywhere(graph, &fold)
    }
}

fn fold(graph: &Graph) -> Result<Graph> {
    // Per value of the new graph, the literal it is known to be.
    let mut known: Vec<Option<Op>> = vec![];
    rewrite(graph, |b, node, args| {
        let literal = |v: Value| known.get(v.index()).and_then(Option::as_ref);
        if let (Op::If(op), Some(condition)) = (&node.op, args.first().and_then(|&c| literal(c))) {
            let side = if first(condition) != 0.0 {
                &op.then
            } else {
                &op.otherwise
            };
            return Ok(b.inline(side, &args[1..]));
        }
        let outs = match fold_node(graph, node, args, &literal)? {
            Some(op) => b.apply(op, &[]),
            None => b.apply(node.op.clone(), args),
        };
        note(b, &outs, &mut known);
        Ok(outs)
    })
}

fn note(b: &Builder, outs: &[Value], known: &mut Vec<Option<Op>>) {
    known.resize(b.graph().values(), None);
    if let (Some(node), [out]) = (b.graph().nodes().last(), outs)
        && node.outs == [*out]
        && matches!(node.op, Op::Const(_) | Op::Full(_))
    {
        known[out.index()] = Some(node.op.clone());
    }
}

fn first(op: &Op) -> f32 {
    match op {
        Op::Full(f) => f.value,
        Op::Const(c) => c.data.first().copied().unwrap_or(0.0),
        _ => 0.0,
    }
}

fn fold_node<'a>(
    graph: &Graph,
    node: &Node,
    args: &[Value],
    literal: &dyn Fn(Value) -> Option<&'a Op>,
) -> Result<Option<Op>> {
    let pure = matches!(
        node.op,
        Op::Unary(_)
            | Op::Binary(_)
            | Op::Select(_)
            | Op::Reduce(_)
            | Op::Dot(_)
            | Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Broadcast(_)
            | Op::Slice(_)
            | Op::Pad(_)
            | Op::Concat(_)
    );
    let literals: Option<Vec<&Op>> = args.iter().map(|&a| literal(a)).collect();
    let (true, Some(literals), [out]) = (pure && !args.is_empty(), literals, &node.outs[..]) else {
        return Ok(None);
    };
    let shape = graph.shape(*out).clone();
    // Equal elements stay equal under ops that treat all elements alike.
    let uniform: Option<Vec<f32>> = literals
        .iter()
        .map(|op| if let Op::Full(f) = op { Some(f.value) } else { None })
        .collect();
    let sizes: usize = node.args.iter().map(|&a| graph.shape(a).elements()).sum();
    if let (Some(values), true) = (uniform, keeps_uniform(&node.op) && sizes > 0) {
        let value = match &node.op {
            Op::Reduce(r) if r.kind == Reduction::Sum => {
                values[0] * r.count(graph.shape(node.args[0])) as f32
            }
            Op::Unary(f) => <f32 as crate::interpreter::Real>::unary(*f, values[0]),
            Op::Binary(f) => <f32 as crate::interpreter::Real>::binary(*f, values[0], values[1]),
            Op::Select(_) => values[if values[0] != 0.0 { 1 } else { 2 }],
            _ => values[0],
        };
        return Ok(Some(Full { shape, value }.into()));
    }
    if shape.elements() > LARGEST || sizes > LARGEST {
        return Ok(None);
    }
    let mut b = Builder::new();
    let given: Vec<Value> = literals.iter().map(|op| b.one((*op).clone(), &[])).collect();
    let outs = b.apply(node.op.clone(), &given);
    let data = interpret::<f32>(&b.finish(&outs)?, &[])?.swap_remove(0);
    Ok(Some(
        Const {
            shape,
            data: data.into(),
        }
        .into(),
    ))
}

fn keeps_uniform(op: &Op) -> bool {
    matches!(
        op,
        Op::Unary(_)
            | Op::Binary(_)
            | Op::Select(_)
            | Op::Reduce(_)
            | Op::Reshape(_)
            | Op::Broadcast(_)
            | Op::Transpose(_)
    )
}
