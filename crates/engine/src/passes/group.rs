//! Turns groups of nodes into fused nodes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::graph::{Builder, Graph, Value, with_params_of};
use crate::ops::{Fused, FusedKind, Op};

/// Nodes that become one, with its arguments and results in the order its kernel expects.
pub(super) struct Group {
    pub(super) kind: FusedKind,
    /// Node indices, ascending.
    pub(super) nodes: Vec<usize>,
    pub(super) args: Vec<Value>,
    pub(super) outs: Vec<Value>,
    /// Nodes copied into the group and left outside too: they cost nothing inside, and vanish outside if unread.
    pub(super) copied: Vec<usize>,
}

/// A graph with what fusion passes ask about it.
pub(super) struct View<'a> {
    pub(super) graph: &'a Graph,
    pub(super) uses: Vec<u32>,
    pub(super) definitions: Vec<Option<usize>>,
}

impl<'a> View<'a> {
    pub(super) fn new(graph: &'a Graph) -> View<'a> {
        View {
            graph,
            uses: graph.uses(),
            definitions: graph.definitions(),
        }
    }

    /// The index and op of the node that defines a value, and its arguments.
    pub(super) fn def(&self, v: Value) -> Option<(usize, &'a Op, &'a [Value])> {
        let i = self.definitions[v.index()]?;
        let node = &self.graph.nodes()[i];
        Some((i, &node.op, &node.args))
    }

    pub(super) fn used_once(&self, v: Value) -> bool {
        self.uses[v.index()] == 1
    }

    /// True if `v` is a literal with all elements equal to `x`.
    pub(super) fn is_full(&self, v: Value, x: f32) -> bool {
        matches!(self.def(v), Some((_, Op::Full(f), _)) if f.value == x)
    }

    /// True when no path leaves the group of nodes and comes back, given groups already formed.
    pub(super) fn is_convex(&self, nodes: &[usize], groups: &[Group], group_of: &[Option<usize>]) -> bool {
        let inside: HashSet<usize> = nodes.iter().copied().collect();
        let earliest = |nodes: &[usize]| nodes.iter().copied().min();
        // Nothing before the floor leads back: every formed group that reaches past it lies past it.
        let mut floor = earliest(nodes).unwrap_or(0);
        let reaching = |floor: usize| {
            let late = groups.iter().filter(|g| g.nodes.iter().any(|&n| n >= floor));
            late.filter_map(|g| earliest(&g.nodes))
                .min()
                .filter(|&first| first < floor)
        };
        while let Some(lower) = reaching(floor) {
            floor = lower;
        }
        let mut stack: Vec<usize> = vec![];
        let mut seen: HashSet<usize> = HashSet::new();
        let push_args = |n: usize, stack: &mut Vec<usize>| {
            stack.extend(
                self.graph.nodes()[n]
                    .args
                    .iter()
                    .filter_map(|a| self.definitions[a.index()]),
            );
        };
        // Start from what the group reads from outside, and walk towards the parameters.
        let mut edge = vec![];
        nodes.iter().for_each(|&n| push_args(n, &mut edge));
        stack.extend(edge.into_iter().filter(|n| !inside.contains(n)));
        while let Some(n) = stack.pop() {
            if inside.contains(&n) {
                return false;
            }
            if n < floor || !seen.insert(n) {
                continue;
            }
            match group_of[n] {
                // A formed group runs as one: reaching any member reaches what all members read.
                Some(g) => groups[g].nodes.iter().for_each(|&m| {
                    seen.insert(m);
                    push_args(m, &mut stack);
                }),
                None => push_args(n, &mut stack),
            }
        }
        true
    }
}

/// Contracts groups, which must be disjoint and convex, and orders the nodes anew.
pub(super) fn contract(graph: &Graph, groups: &[Group]) -> Result<Graph> {
    if groups.is_empty() {
        return Ok(graph.clone());
    }
    let count = graph.nodes().len();
    let mut group_of: Vec<Option<usize>> = vec![None; count];
    for (g, group) in groups.iter().enumerate() {
        group.nodes.iter().for_each(|&n| group_of[n] = Some(g));
    }
    // Units are groups, then single nodes, each placed as early as its inputs and first member allow.
    let unit = |n: usize| group_of[n].unwrap_or(groups.len() + n);
    let units = groups.len() + count;
    let definitions = graph.definitions();
    let reads = |u: usize| -> Vec<Value> {
        match groups.get(u) {
            Some(group) => group.args.clone(),
            None => graph.nodes()[u - groups.len()].args.clone(),
        }
    };
    let first = |u: usize| groups.get(u).map_or(u.wrapping_sub(groups.len()), |g| g.nodes[0]);
    let mut waiting = vec![0usize; units];
    let mut readers: Vec<Vec<usize>> = vec![vec![]; units];
    let mut all: Vec<usize> = (0..groups.len())
        .chain((0..count).filter(|&n| group_of[n].is_none()).map(unit))
        .collect();
    all.sort_by_key(|&u| first(u));
    for &u in &all {
        for v in reads(u) {
            if let Some(n) = definitions[v.index()] {
                readers[unit(n)].push(u);
                waiting[u] += 1;
            }
        }
    }
    let mut ready: BinaryHeap<Reverse<(usize, usize)>> = all
        .iter()
        .filter(|&&u| waiting[u] == 0)
        .map(|&u| Reverse((first(u), u)))
        .collect();
    let (mut b, params) = with_params_of(graph);
    let mut names = vec![Value(u32::MAX); graph.values()];
    graph
        .params()
        .iter()
        .zip(params)
        .for_each(|(p, v)| names[p.index()] = v);
    let mut done = 0;
    while let Some(Reverse((_, u))) = ready.pop() {
        done += 1;
        match groups.get(u) {
            Some(group) => emit_group(&mut b, graph, &definitions, group, &mut names)?,
            None => {
                let node = &graph.nodes()[u - groups.len()];
                let args: Vec<Value> = node.args.iter().map(|a| names[a.index()]).collect();
                let outs = b.copy(node, &args);
                node.outs.iter().zip(outs).for_each(|(o, v)| names[o.index()] = v);
            }
        }
        for &r in &readers[u] {
            waiting[r] -= 1;
            if waiting[r] == 0 {
                ready.push(Reverse((first(r), r)));
            }
        }
    }
    if done != all.len() {
        return Err(Error::Internal("fused groups depend on each other".into()));
    }
    let outs: Vec<Value> = graph.outputs().iter().map(|o| names[o.index()]).collect();
    b.finish(&outs)
}

fn emit_group(
    b: &mut Builder,
    graph: &Graph,
    definitions: &[Option<usize>],
    group: &Group,
    names: &mut [Value],
) -> Result<()> {
    let mut body = Builder::new();
    let mut inner: Vec<Option<Value>> = vec![None; graph.values()];
    for &a in &group.args {
        inner[a.index()] = Some(body.param(graph.ty(a).clone(), ""));
    }
    let mut members = [&group.copied[..], &group.nodes].concat();
    members.sort_unstable();
    for &n in &members {
        let node = &graph.nodes()[n];
        // Literals are free: every group gets its own.
        for a in &node.args {
            let literal = definitions[a.index()]
                .map(|i| &graph.nodes()[i])
                .filter(|n| matches!(n.op, Op::Full(_)));
            if let (None, Some(literal)) = (inner[a.index()], literal) {
                inner[a.index()] = Some(body.copy(literal, &[])[0]);
            }
        }
        let args: Option<Vec<Value>> = node.args.iter().map(|a| inner[a.index()]).collect();
        let args =
            args.ok_or_else(|| Error::Internal(format!("a group misses an argument of {}", node.op)))?;
        let outs = body.copy(node, &args);
        node.outs
            .iter()
            .zip(outs)
            .for_each(|(o, v)| inner[o.index()] = Some(v));
    }
    let outs: Option<Vec<Value>> = group.outs.iter().map(|o| inner[o.index()]).collect();
    let outs = outs.ok_or_else(|| Error::Internal("a group misses a result".into()))?;
    let body = Arc::new(body.finish(&outs)?);
    if let Some(&last) = group.nodes.last() {
        b.at(&graph.nodes()[last].site);
    }
    let args: Vec<Value> = group.args.iter().map(|a| names[a.index()]).collect();
    let given = b.apply(
        Fused {
            kind: group.kind,
            body,
        },
        &args,
    );
    group
        .outs
        .iter()
        .zip(given)
        .for_each(|(o, v)| names[o.index()] = v);
    Ok(())
}
