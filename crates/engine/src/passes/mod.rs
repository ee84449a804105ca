//! Graph to graph: each pass in its own file, the graph verified after each.

mod absorb;
mod cse;
mod dead;
mod fold;
mod fuse_chain;
mod fuse_conv;
mod fuse_dense;
mod fuse_update;
mod group;
mod join_products;
mod rewrite;
mod simplify;
mod split_steps;

use crate::error::{Error, Result};
use crate::graph::Graph;

pub(crate) use absorb::absorb;
pub(crate) use dead::dead_code;
pub(crate) use fuse_chain::{Repeat, repeats};

/// One transformation that keeps the meaning of a graph.
pub trait Pass: Sync {
    /// The name people see.
    fn name(&self) -> &'static str;
    /// The new graph.
    fn run(&self, graph: &Graph) -> Result<Graph>;
}

/// The compiler's passes, in order.
pub const PIPELINE: &[&dyn Pass] = &[
    &fold::Fold,
    &simplify::Simplify,
    &cse::CommonSubexpressions,
    &join_products::JoinProducts,
    &split_steps::SplitSteps,
    &dead::DeadCode,
    &fuse_dense::FuseDense,
    &fuse_conv::FuseConv,
    &fuse_update::FuseUpdate,
    &fuse_chain::FuseChain,
    &dead::DeadCode,
];

/// Runs the pipeline, verifying after every pass and showing each result to `observe`.
pub fn optimise(graph: &Graph, mut observe: impl FnMut(&'static str, &Graph)) -> Result<Graph> {
    graph.verify()?;
    let mut graph = graph.clone();
    for pass in PIPELINE {
        graph = pass.run(&graph)?;
        graph
            .verify()
            .map_err(|e| Error::Internal(format!("after the pass `{}`: {e}", pass.name())))?;
        observe(pass.name(), &graph);
    }
    Ok(graph)
}

/// Runs a pass on a graph and, first, on every graph inside it.
fn everywhere(graph: &Graph, pass: &dyn Fn(&Graph) -> Result<Graph>) -> Result<Graph> {
    let graph = match graph
        .nodes()
        .iter()
        .any(|n| matches!(n.op, crate::Op::If(_) | crate::Op::While(_)))
    {
        true => rewrite::rewrite(graph, |b, node, args| {
            Ok(b.apply(node.op.map_graphs(|g| everywhere(g, pass))?, args))
        })?,
        false => graph.clone(),
    };
    pass(&graph)
}
