//! Elementwise ops on one iteration space run together, block by block, without storing what only they read.

use std::collections::HashSet;

use super::group::{Group, View, contract};
use super::{Pass, everywhere};
use crate::error::Result;
use crate::graph::{Graph, Value};
use crate::ops::{Binary, Broadcast, FusedKind, Op};
use crate::types::Shape;

/// More instructions than this, or more values read from outside, no longer fit the registers of the chain kernel.
const LONGEST: usize = 24;
const WIDEST: usize = 32;

/// See the module.
pub(super) struct FuseChain;

impl Pass for FuseChain {
    fn name(&self) -> &'static str {
        "fuse elementwise chains"
    }

    fn run(&self, graph: &Graph) -> Result<Graph> {
        everywhere(graph, &|g| contract(g, &chains(&View::new(g))))
    }
}

/// How the chain kernel reads an argument that is repeated over the iteration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// One number for all.
    Scalar,
    /// The last axes: element `i` reads `i % n`.
    Row(usize),
    /// The first axes: element `i` reads `i / n`.
    Column(usize),
}

/// The regular ways to repeat; others are materialised.
pub(crate) fn repeats(broadcast: &Broadcast, from: &Shape) -> Option<Repeat> {
    let (axes, rank) = (&broadcast.axes, broadcast.shape.rank());
    if broadcast.shape.elements() == 0 {
        None
    } else if from.elements() == 1 {
        Some(Repeat::Scalar)
    } else if axes.iter().copied().eq(rank - axes.len()..rank) {
        Some(Repeat::Row(from.elements()))
    } else if axes.iter().copied().eq(0..axes.len()) {
        Some(Repeat::Column(
            broadcast.shape.dims()[axes.len()..].iter().product(),
        ))
    } else {
        None
    }
}

fn chains(view: &View<'_>) -> Vec<Group> {
    let nodes = view.graph.nodes();
    let mut group_of: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut groups: Vec<Group> = vec![];
    for (i, node) in nodes.iter().enumerate() {
        if !node.op.is_elementwise() {
            continue;
        }
        let shape = view.graph.shape(node.outs[0]);
        let producers = node
            .args
            .iter()
            .filter_map(|a| group_of[view.definitions[a.index()]?]);
        let mut candidates: Vec<usize> = producers.collect();
        candidates.dedup();
        let fits = |g: &usize, groups: &Vec<Group>| {
            let group = &groups[*g];
            let same = view.graph.shape(nodes[group.nodes[0]].outs[0]) == shape;
            let all = [&group.nodes[..], &[i]].concat();
            same && all.len() <= LONGEST && reads(view, &all) <= WIDEST && {
                let mut others = group_of.clone();
                group.nodes.iter().for_each(|&n| others[n] = None);
                view.is_convex(&all, groups, &others)
            }
        };
        let joined = candidates.into_iter().find(|g| fits(g, &groups));
        let g = joined.unwrap_or_else(|| {
            groups.push(Group {
                kind: FusedKind::Chain,
                nodes: vec![],
                args: vec![],
                outs: vec![],
                copied: vec![],
            });
            groups.len() - 1
        });
        groups[g].nodes.push(i);
        group_of[i] = Some(g);
    }
    leave_to_readers(view, &mut groups, &mut group_of);
    groups.retain(|g| g.nodes.len() > 1);
    groups.into_iter().map(|g| close(view, g, &group_of)).collect()
}

/// A comparison with a literal, which costs no more than reading its result: gives its other argument.
fn comparison(view: &View<'_>, node: usize) -> Option<Value> {
    let node = &view.graph.nodes()[node];
    let is_literal = |v: Value| matches!(view.def(v), Some((_, Op::Full(_), _)));
    match (&node.op, &node.args[..]) {
        (Op::Binary(Binary::Less | Binary::Equal), &[a, b]) => match (is_literal(a), is_literal(b)) {
            (true, false) => Some(b),
            (false, true) => Some(a),
            _ => None,
        },
        _ => None,
    }
}

/// Takes out comparisons that only other chains read: those make them themselves, and no chain stores a mask.
fn leave_to_readers(view: &View<'_>, groups: &mut [Group], group_of: &mut [Option<usize>]) {
    let nodes = view.graph.nodes();
    for (i, node) in nodes.iter().enumerate() {
        let Some(own) = group_of[i].filter(|_| comparison(view, i).is_some()) else {
            continue;
        };
        let mask = node.outs[0];
        let mut readers = nodes.iter().enumerate().filter(|(_, n)| n.args.contains(&mask));
        let elsewhere =
            readers.all(|(r, _)| group_of[r].is_some_and(|g| g != own && groups[g].nodes.len() > 1));
        if elsewhere && !view.graph.outputs().contains(&mask) {
            groups[own].nodes.retain(|&n| n != i);
            group_of[i] = None;
        }
    }
}

/// How many values the nodes read that none of them defines.
fn reads(view: &View<'_>, members: &[usize]) -> usize {
    let inside = |v: &Value| view.definitions[v.index()].is_some_and(|n| members.contains(&n));
    let read = members
        .iter()
        .flat_map(|&n| &view.graph.nodes()[n].args)
        .filter(|v| !inside(v));
    read.collect::<HashSet<_>>().len()
}

/// Finds a chain's arguments and results, and takes in what its kernel does for free: broadcasts, and comparisons left to
/// their readers.
fn close(view: &View<'_>, mut group: Group, group_of: &[Option<usize>]) -> Group {
    let members = group.nodes.clone();
    let inside = |v: Value| view.definitions[v.index()].is_some_and(|n| members.contains(&n));
    let mut inner = vec![];
    for &n in &members {
        for &a in &view.graph.nodes()[n].args {
            let free = match view.def(a) {
                Some((_, Op::Full(_), _)) => continue,
                Some((j, Op::Broadcast(b), from)) if repeats(b, view.graph.shape(from[0])).is_some() => {
                    Some((j, from[0]))
                }
                Some((j, _, _)) if group_of[j].is_none() => comparison(view, j).map(|from| (j, from)),
                _ => None,
            };
            let read = match free {
                Some((j, from)) => {
                    if !inner.contains(&j) {
                        inner.push(j);
                    }
                    from
                }
                None => a,
            };
            if !inside(read) && !group.args.contains(&read) {
                group.args.push(read);
            }
        }
    }
    let outside = |v: Value| {
        let nodes = view.graph.nodes().iter().enumerate();
        let read = nodes
            .filter(|(i, _)| !members.contains(i))
            .any(|(_, n)| n.args.contains(&v));
        read || view.graph.outputs().contains(&v)
    };
    for &n in &members {
        group
            .outs
            .extend(view.graph.nodes()[n].outs.iter().copied().filter(|&o| outside(o)));
    }
    group.copied = inner;
    group
}
