//! A step of plain gradient descent along a sum is a step along each part: the part that is a layer's own gradient can then
//! be followed while it is computed, whatever others add to it.

use super::{Pass, everywhere, rewrite::rewrite};
use crate::error::Result;
use crate::graph::{Builder, Graph, Node, Value};
use crate::ops::{Binary, Dot, Op, Reduction, Rule};

/// See the module.
pub(super) struct SplitSteps;

impl Pass for SplitSteps {
    fn name(&self) -> &'static str {
        "split steps"
    }

    fn run(&self, graph: &Graph) -> Result<Graph> {
        everywhere(graph, &|g| {
            rewrite(g, |b, node, args| {
                Ok(split(b, node, args).unwrap_or_else(|| b.apply(node.op.clone(), args)))
            })
        })
    }
}

fn split(b: &mut Builder, node: &Node, args: &[Value]) -> Option<Vec<Value>> {
    match (&node.op, args) {
        (Op::Update(op), &[parameter, gradient, hyper]) if op.rule == (Rule::Sgd { weight_decay: 0.0 }) => {
            let (own, added) = parts(b, gradient).filter(|(_, added)| !added.is_empty())?;
            let step = |b: &mut Builder, at: Value, along: Value| b.one(*op, &[at, along, hyper]);
            let stepped = step(b, parameter, own);
            let stepped = added.into_iter().fold(stepped, |at, along| step(b, at, along));
            Some(vec![stepped])
        }
        _ => None,
    }
}

/// The gradient of a dense layer, and all that is added to it.
fn parts(b: &Builder, sum: Value) -> Option<(Value, Vec<Value>)> {
    match b.definition(sum)? {
        Node {
            op: Op::Dot(Dot { ta: true, tb: false }),
            ..
        } => Some((sum, vec![])),
        Node {
            op: Op::Reduce(r), ..
        } if r.kind == Reduction::Sum && r.axes == [0] => Some((sum, vec![])),
        Node {
            op: Op::Binary(Binary::Add),
            args,
            ..
        } => {
            let (x, y) = (args[0], args[1]);
            let (found, other) = match (parts(b, x), parts(b, y)) {
                (Some(found), None) => (found, y),
                (None, Some(found)) => (found, x),
                // Two gradients of one parameter are joined, or stay a sum.
                _ => return None,
            };
            let (own, mut added) = found;
            added.push(other);
            Some((own, added))
        }
        _ => None,
    }
}
