//! Convolution, bias, shortcut and activation become one node.

use super::group::{Group, View, contract};
use super::{Pass, everywhere};
use crate::error::Result;
use crate::graph::{Graph, Value};
use crate::ops::{Binary, ConvRole, FusedKind, Op, Unary};

/// See the module.
pub(super) struct FuseConv;

impl Pass for FuseConv {
    fn name(&self) -> &'static str {
        "fuse convolutions"
    }

    fn run(&self, graph: &Graph) -> Result<Graph> {
        everywhere(graph, &|g| contract(g, &groups(&View::new(g))))
    }
}

/// A region under construction: a convolution and what is added to it.
struct Layer {
    nodes: Vec<usize>,
    args: Vec<Value>,
    biased: bool,
    shortcut: bool,
}

fn groups(view: &View<'_>) -> Vec<Group> {
    let mut taken = vec![false; view.graph.nodes().len()];
    let mut groups: Vec<Group> = vec![];
    let mut group_of = vec![None; view.graph.nodes().len()];
    // Later nodes first, so that an activation claims its layer before the bare sum does.
    for (i, node) in view.graph.nodes().iter().enumerate().rev() {
        let found = match node.op {
            Op::Unary(Unary::Relu | Unary::Sigmoid | Unary::Tanh) if view.used_once(node.args[0]) => {
                sum(view, node.args[0]).map(|mut layer| {
                    layer.nodes.push(i);
                    layer
                })
            }
            Op::Binary(Binary::Add) => sum(view, node.outs[0]).filter(|layer| layer.nodes.len() > 1),
            _ => None,
        };
        let Some(mut layer) = found else { continue };
        layer.nodes.sort_unstable();
        if layer.nodes.iter().any(|&n| taken[n]) || !view.is_convex(&layer.nodes, &groups, &group_of) {
            continue;
        }
        for &n in &layer.nodes {
            taken[n] = true;
            group_of[n] = Some(groups.len());
        }
        groups.push(Group {
            kind: FusedKind::Conv,
            nodes: layer.nodes,
            args: layer.args,
            outs: vec![node.outs[0]],
            copied: vec![],
        });
    }
    groups
}

/// A convolution, or the sum of one and a bias, a result of the same shape, or both.
fn sum(view: &View<'_>, value: Value) -> Option<Layer> {
    if let Some(layer) = convolution(view, value) {
        return Some(layer);
    }
    let (i, Op::Binary(Binary::Add), args) = view.def(value)? else {
        return None;
    };
    let [a, b] = [args[0], args[1]];
    if a == b {
        return None;
    }
    [(a, b), (b, a)].into_iter().find_map(|(inner, other)| {
        let mut layer = sum(view, inner).filter(|_| view.used_once(inner))?;
        match view.def(other) {
            Some((j, Op::Broadcast(spread), from))
                if spread.axes == [3] && spread.shape.rank() == 4 && view.used_once(other) =>
            {
                if layer.biased {
                    return None;
                }
                layer.biased = true;
                layer.nodes.push(j);
                layer.args.push(from[0]);
            }
            _ => {
                if layer.shortcut || view.graph.shape(other).rank() != 4 {
                    return None;
                }
                layer.shortcut = true;
                layer.args.push(other);
            }
        }
        layer.nodes.push(i);
        Some(layer)
    })
}

fn convolution(view: &View<'_>, value: Value) -> Option<Layer> {
    match view.def(value)? {
        (i, Op::Conv(conv), args) if conv.role == ConvRole::Forward => Some(Layer {
            nodes: vec![i],
            args: args.to_vec(),
            biased: false,
            shortcut: false,
        }),
        _ => None,
    }
}
