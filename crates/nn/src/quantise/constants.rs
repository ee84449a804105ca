//! What a graph computes whatever its input is.

use std::collections::HashMap;

use synod_engine::{Builder, Graph, Node, Op, Value, interpret};

use crate::error::Result;
use crate::model::Model;

/// The values that do not depend on a model's input.
pub(super) struct Constants {
    known: Vec<bool>,
    values: HashMap<Value, Vec<f32>>,
    /// Nodes that define known values, by value.
    defined: HashMap<Value, Node>,
}

/// A known tensor that meets a value of the network, before it is spread over the value's axes.
pub(super) struct Operand {
    axes: Vec<usize>,
    data: Vec<f32>,
}

impl Operand {
    /// The axes along which it can differ at all, and how many numbers it then has.
    fn varies(&self, dims: &[usize]) -> (Vec<usize>, usize) {
        let axes: Vec<usize> = self.axes.iter().copied().filter(|&a| dims[a] > 1).collect();
        let count = axes.iter().map(|&a| dims[a]).product();
        (axes, count)
    }

    /// As one number per place along the last axis.
    pub(super) fn per_channel(&self, dims: &[usize]) -> Option<Vec<f32>> {
        let (axes, count) = self.varies(dims);
        let last = dims.len().checked_sub(1)?;
        if self.data.len() != count {
            return None;
        }
        match &axes[..] {
            [] => Some(vec![*self.data.first()?; dims[last]]),
            [axis] if *axis == last => Some(self.data.clone()),
            _ => None,
        }
    }

    /// As one number per place of an image.
    pub(super) fn per_place(&self, dims: &[usize]) -> Option<Vec<f32>> {
        let &[_, h, w, _] = dims else { return None };
        let (axes, count) = self.varies(dims);
        if self.data.len() != count {
            return None;
        }
        let number = |i: usize| match &axes[..] {
            [] => Some(self.data[0]),
            [1] => Some(self.data[i / w]),
            [2] => Some(self.data[i % w]),
            [1, 2] => Some(self.data[i]),
            _ => None,
        };
        (0..h * w).map(number).collect()
    }
}

impl Constants {
    /// Evaluates what the model's parameters and buffers decide.
    pub(super) fn of(graph: &Graph, model: &Model) -> Result<Constants> {
        let mut known = vec![false; graph.values()];
        let given = graph.params().len().saturating_sub(1);
        graph.params()[..given]
            .iter()
            .for_each(|p| known[p.index()] = true);
        let mut defined = HashMap::new();
        for node in graph.nodes() {
            if node.args.iter().all(|a| known[a.index()]) {
                for o in &node.outs {
                    known[o.index()] = true;
                    defined.insert(*o, node.clone());
                }
            }
        }
        let mut constants = Constants {
            known,
            values: HashMap::new(),
            defined,
        };
        constants.evaluate(graph, model)?;
        Ok(constants)
    }

    /// The known values that meet unknown ones, before they are spread.
    fn wanted(&self, graph: &Graph) -> Vec<Value> {
        let unknown = graph.nodes().iter().filter(|n| !self.is_known(n));
        let met = unknown.flat_map(|n| &n.args).filter(|a| self.known[a.index()]);
        let mut wanted: Vec<Value> = met
            .filter_map(|&a| match self.defined.get(&a).map(|n| (&n.op, &n.args[..])) {
                Some((Op::Broadcast(_), &[source])) => Some(source),
                Some((Op::Full(_), _)) => None,
                _ => Some(a),
            })
            .collect();
        wanted.sort();
        wanted.dedup();
        wanted
    }

    fn evaluate(&mut self, graph: &Graph, model: &Model) -> Result<()> {
        let wanted = self.wanted(graph);
        let mut needed = vec![false; graph.values()];
        wanted.iter().for_each(|v| needed[v.index()] = true);
        for node in graph.nodes().iter().rev().filter(|n| self.is_known(n)) {
            if node.outs.iter().any(|o| needed[o.index()]) {
                node.args.iter().for_each(|a| needed[a.index()] = true);
            }
        }
        let mut b = Builder::new();
        let mut names: HashMap<Value, Value> = HashMap::new();
        let mut args = vec![];
        let entries = (model.layout().entries().iter().map(|e| (e, model.parameters()))).chain(
            model
                .buffer_layout()
                .entries()
                .iter()
                .map(|e| (e, model.buffers())),
        );
        for (&p, (entry, all)) in graph.params().iter().zip(entries) {
            if needed[p.index()] {
                names.insert(p, b.param(graph.ty(p).clone(), &entry.name));
                args.push(all[entry.range.clone()].to_vec());
            }
        }
        for node in graph.nodes().iter().filter(|n| self.is_known(n)) {
            if node.outs.iter().any(|o| needed[o.index()]) {
                let args: Vec<Value> = node.args.iter().map(|a| names[a]).collect();
                let outs = b.copy(node, &args);
                names.extend(node.outs.iter().copied().zip(outs));
            }
        }
        let outs: Vec<Value> = wanted.iter().map(|v| names[v]).collect();
        let values = interpret(&b.finish(&outs)?, &args)?;
        self.values = wanted.into_iter().zip(values).collect();
        Ok(())
    }

    /// True for a node that needs no input.
    pub(super) fn is_known(&self, node: &Node) -> bool {
        node.outs.first().is_some_and(|o| self.known[o.index()])
    }

    /// A known tensor.
    pub(super) fn values(&self, value: Value) -> Option<&[f32]> {
        self.values.get(&value).map(Vec::as_slice)
    }

    /// A known scalar.
    pub(super) fn scalar(&self, value: Value) -> Option<f32> {
        match (self.defined.get(&value).map(|n| &n.op), self.values(value)) {
            (Some(Op::Full(full)), _) => Some(full.value),
            (_, Some(&[x])) => Some(x),
            _ => None,
        }
    }

    /// A known tensor as it meets a value of its shape.
    pub(super) fn operand(&self, graph: &Graph, value: Value) -> Option<Operand> {
        match self.defined.get(&value).map(|n| (&n.op, &n.args[..])) {
            Some((Op::Broadcast(spread), &[source])) => Some(Operand {
                axes: spread.axes.clone(),
                data: self.values.get(&source)?.clone(),
            }),
            Some((Op::Full(full), _)) => Some(Operand {
                axes: vec![],
                data: vec![full.value],
            }),
            _ => Some(Operand {
                axes: (0..graph.shape(value).rank()).collect(),
                data: self.values.get(&value)?.clone(),
            }),
        }
    }

    /// The name of the parameter that a known tensor is made from first.
    pub(super) fn name(&self, graph: &Graph, mut value: Value) -> String {
        while let Some(&first) = self.defined.get(&value).and_then(|n| n.args.first()) {
            value = first;
        }
        let at = graph.params().iter().position(|&p| p == value);
        at.map(|i| graph.param_name(i).to_owned()).unwrap_or_default()
    }
}
