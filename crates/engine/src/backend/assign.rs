//! Engine assignment by cost, and the convex regions that follow from it.

use super::Backend;
use crate::error::{Result, transform};
use crate::graph::{Builder, Graph, Value};

/// Bytes per second between two backends, and seconds to hand over at all.
const TRANSFER: (f64, f64) = (5e9, 2e-6);

/// The cheapest backend for every node: dynamic programming over the node order, a change of backend between neighbours
/// in that order paying for the values handed over.
pub fn assign(graph: &Graph, backends: &[&dyn Backend]) -> Result<Vec<usize>> {
    let mut best: Vec<f64> = vec![0.0; backends.len()];
    let mut came_from: Vec<Vec<usize>> = vec![];
    for node in graph.nodes() {
        let bytes: usize = node.args.iter().map(|&a| graph.ty(a).slots() * 4).sum();
        let hand_over = TRANSFER.1 + bytes as f64 / TRANSFER.0;
        let seconds: Vec<Option<f64>> = backends.iter().map(|b| b.seconds(graph, node)).collect();
        if seconds.iter().all(Option::is_none) {
            let names: Vec<&str> = backends.iter().map(|b| b.name()).collect();
            return Err(transform(
                "assign",
                format!("{}: none of {names:?} can run `{}`", node.site, node.op),
            ));
        }
        let mut next = vec![f64::INFINITY; backends.len()];
        let mut from = vec![0; backends.len()];
        for (to, seconds) in seconds.iter().enumerate() {
            let Some(seconds) = seconds else { continue };
            for (source, cost) in best.iter().enumerate() {
                let moved = if came_from.is_empty() || source == to {
                    0.0
                } else {
                    hand_over
                };
                if cost + moved + seconds < next[to] {
                    next[to] = cost + moved + seconds;
                    from[to] = source;
                }
            }
        }
        best = next;
        came_from.push(from);
    }
    let mut at = (0..backends.len())
        .min_by(|&a, &b| best[a].total_cmp(&best[b]))
        .unwrap_or(0);
    let mut assigned = vec![0; graph.nodes().len()];
    for (i, from) in came_from.iter().enumerate().rev() {
        assigned[i] = at;
        at = from[at];
    }
    Ok(assigned)
}

/// A run of neighbouring nodes on one backend, as a graph of its own.
pub struct Region {
    /// The index of the backend.
    pub backend: usize,
    /// The region; its parameters and outputs correspond to `args` and `outs` of the whole graph.
    pub graph: Graph,
    /// Values of the whole graph that it reads.
    pub args: Vec<Value>,
    /// Values of the whole graph that it defines and others read.
    pub outs: Vec<Value>,
}

/// Cuts a graph into maximal runs of equal assignment. Runs of a topological order are convex: no path leaves one and
/// comes back.
pub fn partition(graph: &Graph, assigned: &[usize]) -> Result<Vec<Region>> {
    let nodes = graph.nodes();
    let mut last_use = vec![0usize; graph.values()];
    for (i, node) in nodes.iter().enumerate() {
        node.args.iter().for_each(|a| last_use[a.index()] = i);
    }
    graph
        .outputs()
        .iter()
        .for_each(|o| last_use[o.index()] = usize::MAX);
    let mut regions = vec![];
    let mut start = 0;
    while start < nodes.len() {
        let length = assigned[start..]
            .iter()
            .take_while(|&&a| a == assigned[start])
            .count();
        let end = start + length;
        let mut b = Builder::new();
        let mut inner: Vec<Option<Value>> = vec![None; graph.values()];
        let (mut args, mut outs) = (vec![], vec![]);
        for node in &nodes[start..end] {
            for &a in &node.args {
                if inner[a.index()].is_none() {
                    inner[a.index()] = Some(b.param(graph.ty(a).clone(), ""));
                    args.push(a);
                }
            }
            let given: Vec<Value> = node.args.iter().filter_map(|a| inner[a.index()]).collect();
            for (&o, v) in node.outs.iter().zip(b.copy(node, &given)) {
                inner[o.index()] = Some(v);
                if last_use[o.index()] >= end {
                    outs.push(o);
                }
            }
        }
        let results: Vec<Value> = outs.iter().filter_map(|o| inner[o.index()]).collect();
        regions.push(Region {
            backend: assigned[start],
            graph: b.finish(&results)?,
            args,
            outs,
        });
        start = end;
    }
    Ok(regions)
}
