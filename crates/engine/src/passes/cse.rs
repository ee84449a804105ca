//! Computes equal things once. Ops are pure, so equal ops on equal arguments are equal values.

use std::collections::HashMap;

use super::{Pass, everywhere, rewrite::rewrite};
use crate::error::Result;
use crate::graph::{Graph, Value};
use crate::ops::Op;

/// See the module.
pub(super) struct CommonSubexpressions;

impl Pass for CommonSubexpressions {
    fn name(&self) -> &'static str {
        "common subexpressions"
    }

    fn run(&self, graph: &Graph) -> Result<Graph> {
        everywhere(graph, &merge_equal)
    }
}

/// One emitted op and its results.
type Emitted = (Op, Vec<Value>);

fn merge_equal(graph: &Graph) -> Result<Graph> {
    // Candidates share name and arguments; equality of ops decides.
    let mut seen: HashMap<(String, Vec<Value>), Vec<Emitted>> = HashMap::new();
    rewrite(graph, |b, node, args| {
        let mut sorted = args.to_vec();
        if matches!(&node.op, Op::Binary(f) if f.commutes()) {
            sorted.sort_unstable();
        }
        let bucket = seen.entry((node.op.to_string(), sorted)).or_default();
        if let Some((_, outs)) = bucket.iter().find(|(op, _)| *op == node.op) {
            return Ok(outs.clone());
        }
        let outs = b.apply(node.op.clone(), args);
        bucket.push((node.op.clone(), outs.clone()));
        Ok(outs)
    })
}
