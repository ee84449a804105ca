//! Product, bias and activation become one node.

use super::group::{Group, View, contract};
use super::{Pass, everywhere};
use crate::error::Result;
use crate::graph::{Graph, Value};
use crate::ops::{Binary, Dot, FusedKind, Op, Unary};

/// See the module.
pub(super) struct FuseDense;

impl Pass for FuseDense {
    fn name(&self) -> &'static str {
        "fuse dense layers"
    }

    fn run(&self, graph: &Graph) -> Result<Graph> {
        everywhere(graph, &|g| contract(g, &dense_groups(&View::new(g))))
    }
}

fn dense_groups(view: &View<'_>) -> Vec<Group> {
    let mut taken = vec![false; view.graph.nodes().len()];
    let mut groups = vec![];
    // Later nodes first, so that an activation claims its layer before the bare sum does.
    for (i, node) in view.graph.nodes().iter().enumerate().rev() {
        let found = match node.op {
            Op::Unary(Unary::Relu | Unary::Sigmoid | Unary::Tanh) if view.used_once(node.args[0]) => {
                biased(view, node.args[0]).or_else(|| product(view, node.args[0]))
            }
            _ => None,
        };
        let found = found.map(|(mut nodes, args)| {
            nodes.push(i);
            (nodes, args)
        });
        let found = found.or_else(|| biased(view, *node.outs.first()?));
        let Some((mut nodes, args)) = found else { continue };
        nodes.sort_unstable();
        if nodes.iter().any(|&n| taken[n]) {
            continue;
        }
        nodes.iter().for_each(|&n| taken[n] = true);
        groups.push(Group {
            kind: FusedKind::Dense,
            nodes,
            args,
            outs: vec![node.outs[0]],
            copied: vec![],
        });
    }
    groups
}

/// `x · w + b` as (nodes, arguments).
fn biased(view: &View<'_>, sum: Value) -> Option<(Vec<usize>, Vec<Value>)> {
    let (i, Op::Binary(Binary::Add), args) = view.def(sum)? else {
        return None;
    };
    let (left, right) = (args[0], args[1]);
    [(left, right), (right, left)]
        .into_iter()
        .find_map(|(dot, bias)| {
            let (mut nodes, mut all) = product(view, dot).filter(|_| view.used_once(dot))?;
            let (j, Op::Broadcast(spread), from) = view.def(bias)? else {
                return None;
            };
            if spread.axes != [1] || spread.shape.rank() != 2 {
                return None;
            }
            nodes.extend([j, i]);
            all.push(from[0]);
            // The repeated bias may be read elsewhere too, and must then be made there.
            view.used_once(bias).then_some((nodes, all))
        })
}

fn product(view: &View<'_>, dot: Value) -> Option<(Vec<usize>, Vec<Value>)> {
    match view.def(dot)? {
        (i, Op::Dot(Dot { ta: false, tb: false }), args) if view.graph.shape(dot).rank() == 2 => {
            Some((vec![i], args.to_vec()))
        }
        _ => None,
    }
}
