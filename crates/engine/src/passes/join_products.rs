//! Turns a sum of products into one product of everything put together: `aᵀb + cᵀd` is `[a; c]ᵀ[b; d]`.
//!
//! Weights used at several times of a sequence have such gradients: many products with few summed terms, each as large as
//! the weights.

use super::{Pass, everywhere, rewrite::rewrite};
use crate::error::Result;
use crate::graph::{Builder, Graph, Node, Value};
use crate::ops::{Binary, Concat, Dot, Op};

/// See the module.
pub(super) struct JoinProducts;

impl Pass for JoinProducts {
    fn name(&self) -> &'static str {
        "join products"
    }

    fn run(&self, graph: &Graph) -> Result<Graph> {
        everywhere(graph, &join)
    }
}

fn join(graph: &Graph) -> Result<Graph> {
    let uses = graph.uses();
    rewrite(graph, |b, node, args| {
        let once = node.args.iter().all(|a| uses[a.index()] == 1);
        let joined = match node.op {
            Op::Binary(Binary::Add) if once => joined(b, args[0], args[1]),
            _ => None,
        };
        Ok(joined.map_or_else(|| b.apply(node.op.clone(), args), |v| vec![v]))
    })
}

fn joined(b: &mut Builder, x: Value, y: Value) -> Option<Value> {
    let ([a, c], [d, e]) = (factors(b, x)?, factors(b, y)?);
    // What is copied to put factors side by side must be less than the results that are no longer added.
    let (shape, added) = (b.shape(x), b.shape(d).dims()[0]);
    let [m, n] = shape.dims() else { return None };
    if added * (m + n) > m * n {
        return None;
    }
    let (left, right) = (stacked(b, a, d), stacked(b, c, e));
    Some(b.one(Dot { ta: true, tb: false }, &[left, right]))
}

/// The factors of a product of matrices that is summed over their rows.
fn factors(b: &Builder, product: Value) -> Option<[Value; 2]> {
    match b.definition(product)? {
        Node {
            op: Op::Dot(Dot { ta: true, tb: false }),
            args,
            ..
        } if b.shape(product).rank() == 2 => Some([args[0], args[1]]),
        _ => None,
    }
}

/// Two matrices one below the other; what is a stack already grows.
fn stacked(b: &mut Builder, x: Value, y: Value) -> Value {
    let parts = match b.definition(x) {
        Some(Node {
            op: Op::Concat(Concat { axis: 0 }),
            args,
            ..
        }) => [args, &[y][..]].concat(),
        _ => vec![x, y],
    };
    b.one(Concat { axis: 0 }, &parts)
}
