//! Removes nodes whose results are never read.

use super::{Pass, everywhere};
use crate::error::Result;
use crate::graph::{Graph, Value, with_params_of};

/// See the module.
pub(super) struct DeadCode;

impl Pass for DeadCode {
    fn name(&self) -> &'static str {
        "dead code"
    }

    fn run(&self, graph: &Graph) -> Result<Graph> {
        everywhere(graph, &dead_code)
    }
}

/// The graph without nodes whose results are never read.
pub(crate) fn dead_code(graph: &Graph) -> Result<Graph> {
    let mut live = vec![false; graph.values()];
    graph.outputs().iter().for_each(|o| live[o.index()] = true);
    let mut keep = vec![false; graph.nodes().len()];
    for (i, node) in graph.nodes().iter().enumerate().rev() {
        if node.outs.iter().any(|o| live[o.index()]) {
            keep[i] = true;
            node.args.iter().for_each(|a| live[a.index()] = true);
        }
    }
    let (mut b, params) = with_params_of(graph);
    let mut names = vec![Value(u32::MAX); graph.values()];
    graph
        .params()
        .iter()
        .zip(params)
        .for_each(|(p, v)| names[p.index()] = v);
    for (node, _) in graph.nodes().iter().zip(keep).filter(|(_, keep)| *keep) {
        let args: Vec<Value> = node.args.iter().map(|a| names[a.index()]).collect();
        let outs = b.copy(node, &args);
        node.outs.iter().zip(outs).for_each(|(o, v)| names[o.index()] = v);
    }
    let outs: Vec<Value> = graph.outputs().iter().map(|o| names[o.index()]).collect();
    b.finish(&outs)
}
