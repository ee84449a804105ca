//! A weight gradient that only feeds an optimiser step is applied as it is computed and never stored; the input gradient
//! of the same layer is computed in the same sweep over the weights.

use super::group::{Group, View, contract};
use super::{Pass, everywhere};
use crate::error::Result;
use crate::graph::{Graph, Value};
use crate::ops::{Binary, Dot, FusedKind, Op, Reduction};

/// See the module.
pub(super) struct FuseUpdate;

impl Pass for FuseUpdate {
    fn name(&self) -> &'static str {
        "fuse updates"
    }

    fn run(&self, graph: &Graph) -> Result<Graph> {
        everywhere(graph, &|g| contract(g, &update_groups(&View::new(g))))
    }
}

fn update_groups(view: &View<'_>) -> Vec<Group> {
    let nodes = view.graph.nodes();
    let mut group_of: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut groups: Vec<Group> = vec![];
    let mut add = |group: Group, groups: &mut Vec<Group>| {
        let free = group.nodes.iter().all(|&n| group_of[n].is_none());
        if free && view.is_convex(&group.nodes, groups, &group_of) {
            group.nodes.iter().for_each(|&n| group_of[n] = Some(groups.len()));
            groups.push(group);
            return true;
        }
        false
    };
    for (i, node) in nodes.iter().enumerate() {
        let Op::Update(_) = node.op else { continue };
        let gradient = node.args[1];
        let Some((j, op, from)) = view.def(gradient).filter(|_| view.used_once(gradient)) else {
            continue;
        };
        let rest = [&node.args[..1], from, &node.args[2..]].concat();
        match op {
            Op::Dot(Dot { ta: true, tb: false }) if view.graph.shape(gradient).rank() == 2 => {
                let whole = backward(view, node.args[0], from[1]).map(|(mut inner, gate, dx)| {
                    inner.extend([i, j]);
                    inner.sort_unstable();
                    let args = rest.iter().copied().chain(gate).collect();
                    let outs = std::iter::once(dx).chain(node.outs.iter().copied()).collect();
                    Group {
                        kind: FusedKind::DenseBackward,
                        nodes: inner,
                        args,
                        outs,
                        copied: vec![],
                    }
                });
                if whole.is_some_and(|group| add(group, &mut groups)) {
                    continue;
                }
                add(
                    Group {
                        kind: FusedKind::DotUpdate,
                        nodes: vec![j, i],
                        args: rest,
                        outs: node.outs.clone(),
                        copied: vec![],
                    },
                    &mut groups,
                );
            }
            Op::Reduce(r)
                if r.kind == Reduction::Sum && r.axes == [0] && view.graph.shape(from[0]).rank() == 2 =>
            {
                add(
                    Group {
                        kind: FusedKind::SumUpdate,
                        nodes: vec![j, i],
                        args: rest,
                        outs: node.outs.clone(),
                        copied: vec![],
                    },
                    &mut groups,
                );
            }
            _ => {}
        }
    }
    // Gated input gradients of layers that are not updated here.
    for (i, node) in nodes.iter().enumerate() {
        let Op::Dot(Dot { ta: false, tb: true }) = node.op else {
            continue;
        };
        if let Some((mut inner, Some(y), dx)) = gated(view, node.outs[0]) {
            inner.push(i);
            inner.sort_unstable();
            let args = [&node.args[..], &[y]].concat();
            add(
                Group {
                    kind: FusedKind::GatedDot,
                    nodes: inner,
                    args,
                    outs: vec![dx],
                    copied: vec![],
                },
                &mut groups,
            );
        }
    }
    groups.iter_mut().for_each(|g| g.nodes.sort_unstable());
    groups
}

/// Nodes that compute a gated input gradient, the activation that gates it, and the result.
type Gated = (Vec<usize>, Option<Value>, Value);

/// The input gradient `dy · wᵀ` of the layer with weights `w`, gated or not.
fn backward(view: &View<'_>, w: Value, dy: Value) -> Option<Gated> {
    let wanted = [dy, w];
    let found = view
        .graph
        .nodes()
        .iter()
        .enumerate()
        .find(|(_, node)| matches!(node.op, Op::Dot(Dot { ta: false, tb: true })) && node.args == wanted);
    let (i, node) = found?;
    let dx = node.outs[0];
    let (mut nodes, gate, out) = gated(view, dx).unwrap_or((vec![], None, dx));
    nodes.push(i);
    Some((nodes, gate, out))
}

/// The derivative of an activation, written with its result `y`, that is the only use of `d`.
fn gated(view: &View<'_>, d: Value) -> Option<Gated> {
    if !view.used_once(d) {
        return None;
    }
    let (i, node) = view
        .graph
        .nodes()
        .iter()
        .enumerate()
        .find(|(_, n)| n.args.contains(&d))?;
    let out = node.outs[0];
    match (&node.op, &node.args[..]) {
        (Op::Select(_), &[open, then, zero]) if then == d && view.is_full(zero, 0.0) => {
            let (j, Op::Binary(Binary::Less), from) = view.def(open)? else {
                return None;
            };
            let fits = view.is_full(from[0], 0.0) && view.used_once(open);
            fits.then(|| (vec![i, j], Some(from[1]), out))
        }
        (Op::Binary(Binary::Mul), &[left, right]) => {
            let slope = if left == d { right } else { left };
            let (mut nodes, y) = slope_nodes(view, slope)?;
            nodes.push(i);
            Some((nodes, Some(y), out))
        }
        _ => None,
    }
}

/// `y (1 - y)` of the sigmoid, or `1 - y y` of tanh.
fn slope_nodes(view: &View<'_>, slope: Value) -> Option<(Vec<usize>, Value)> {
    let once = |v: Value| view.used_once(v).then_some(());
    once(slope)?;
    match view.def(slope)? {
        (i, Op::Binary(Binary::Mul), &[y, rest]) => {
            let (j, Op::Binary(Binary::Sub), from) = view.def(rest)? else {
                return None;
            };
            once(rest)?;
            (view.is_full(from[0], 1.0) && from[1] == y).then(|| (vec![i, j], y))
        }
        (i, Op::Binary(Binary::Sub), &[one, square]) => {
            let (j, Op::Binary(Binary::Mul), from) = view.def(square)? else {
                return None;
            };
            once(square)?;
            (view.is_full(one, 1.0) && from[0] == from[1]).then(|| (vec![i, j], from[0]))
        }
        _ => None,
    }
}
