//! Batching: a function of one example becomes a function of many.

use crate::error::{Result, transform};
use crate::graph::{Builder, Graph, Value};
use crate::types::Type;

/// The graph that applies `graph` to `n` examples at once: parameters marked in `over` get a new first axis of extent
/// `n`, the others are shared. Every output gets the axis.
pub fn vmap(graph: &Graph, over: &[bool], n: usize) -> Result<Graph> {
    if over.len() != graph.params().len() {
        return Err(transform(
            "vmap",
            format!("{} marks for {} parameters", over.len(), graph.params().len()),
        ));
    }
    batch_graph(graph, over, n)
}

pub(crate) fn batch_graph(graph: &Graph, over: &[bool], n: usize) -> Result<Graph> {
    let mut b = Builder::new();
    let mut args = vec![];
    for (i, ty) in graph.param_types().into_iter().enumerate() {
        let ty = match (ty, over[i]) {
            (Type::Tensor(shape), true) => Type::Tensor(shape.batched(n)),
            (Type::Stack(_), true) => {
                return Err(transform(
                    "vmap",
                    "a loop's tape cannot be batched; vmap before grad",
                ));
            }
            (ty, false) => ty,
        };
        args.push(b.param(ty, graph.param_name(i)));
    }
    let outs = inline_batched(&mut b, graph, &args, over, n).map_err(|e| transform("vmap", e))?;
    b.finish(&outs)
}

/// Emits `graph` applied to batched arguments; every output is batched.
pub(crate) fn inline_batched(
    b: &mut Builder,
    graph: &Graph,
    args: &[Value],
    batched: &[bool],
    n: usize,
) -> Result<Vec<Value>, String> {
    let mut names = vec![Value(u32::MAX); graph.values()];
    let mut is = vec![false; graph.values()];
    for (i, p) in graph.params().iter().enumerate() {
        names[p.index()] = args[i];
        is[p.index()] = batched[i];
    }
    for node in graph.nodes() {
        let args: Vec<Value> = node.args.iter().map(|a| names[a.index()]).collect();
        let flags: Vec<bool> = node.args.iter().map(|a| is[a.index()]).collect();
        let any = flags.contains(&true);
        b.at(&node.site);
        let outs = match any {
            true => node
                .op
                .primitive()
                .batch(b, &args, &flags, n)
                .map_err(|e| format!("{}: {e}", node.site))?,
            false => b.apply(node.op.clone(), &args),
        };
        for (o, v) in node.outs.iter().zip(outs) {
            names[o.index()] = v;
            is[o.index()] = any;
        }
    }
    let outs = graph.outputs().iter().map(|o| match is[o.index()] {
        true => names[o.index()],
        false => b.repeat_batch(names[o.index()], n),
    });
    Ok(outs.collect())
}
