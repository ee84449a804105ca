//! The common frame of local passes: walk a graph in order and emit each node, or something better.

use crate::error::Result;
use crate::graph::{Builder, Graph, Node, Value, with_params_of};

/// Rebuilds a graph node by node; `emit` returns what the node's results become.
pub(super) fn rewrite(
    graph: &Graph,
    mut emit: impl FnMut(&mut Builder, &Node, &[Value]) -> Result<Vec<Value>>,
) -> Result<Graph> {
    let (mut b, params) = with_params_of(graph);
    let mut names = vec![Value(u32::MAX); graph.values()];
    graph
        .params()
        .iter()
        .zip(params)
        .for_each(|(p, v)| names[p.index()] = v);
    for node in graph.nodes() {
        let args: Vec<Value> = node.args.iter().map(|a| names[a.index()]).collect();
        b.at(&node.site);
        let outs = emit(&mut b, node, &args)?;
        node.outs.iter().zip(outs).for_each(|(o, v)| names[o.index()] = v);
    }
    let outs: Vec<Value> = graph.outputs().iter().map(|o| names[o.index()]).collect();
    b.finish(&outs)
}
