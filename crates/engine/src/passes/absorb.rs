//! Moves frozen factors and sums that follow a convolution, such as batch normalisation's, into its weights and bias.
//!
//! The new weights depend on frozen parameters alone, and are computed once.

use std::collections::HashMap;

use super::dead::dead_code;
use super::rewrite::rewrite;
use crate::error::Result;
use crate::graph::{Builder, Graph, Value};
use crate::ops::{Binary, Broadcast, Conv, ConvRole, Op};

/// A convolution with frozen weights, and what is added to each of its channels.
#[derive(Clone, Copy)]
struct Layer {
    op: Conv,
    images: Value,
    weights: Value,
    shift: Option<Value>,
}

/// Takes the first `frozen` parameters for known.
pub(crate) fn absorb(graph: &Graph, frozen: usize) -> Result<Graph> {
    let (known, uses) = (depends_on(graph, frozen), graph.uses());
    let mut layers: HashMap<Value, Layer> = HashMap::new();
    let absorbed = rewrite(graph, |b, node, args| {
        let is_known = |i: usize| known[node.args[i].index()];
        let layer = match node.op {
            Op::Conv(op) if op.role == ConvRole::Forward && is_known(1) => {
                let out = b.one(op, args);
                let (images, weights) = (args[0], args[1]);
                let layer = Layer {
                    op,
                    images,
                    weights,
                    shift: None,
                };
                layers.insert(out, layer);
                return Ok(vec![out]);
            }
            Op::Binary(f) => [(0, 1), (1, 0)].into_iter().find_map(|(inner, other)| {
                let layer = layers.get(&args[inner])?;
                let channels = channels(b, args[other]).filter(|_| is_known(other))?;
                let once = uses[node.args[inner].index()] == 1;
                once.then(|| layer.followed_by(b, f, channels, inner == 0))
                    .flatten()
            }),
            _ => None,
        };
        Ok(match layer {
            Some(layer) => {
                let out = layer.emit(b);
                layers.insert(out, layer);
                vec![out]
            }
            None => b.apply(node.op.clone(), args),
        })
    })?;
    dead_code(&absorbed)
}

impl Layer {
    /// With `f` of it and one number per channel; `first` if it is the first argument.
    fn followed_by(mut self, b: &mut Builder, f: Binary, channels: Value, first: bool) -> Option<Layer> {
        match f {
            Binary::Add | Binary::Sub if f == Binary::Add || first => {
                self.shift = Some(match (self.shift, f) {
                    (Some(shift), f) => b.one(f, &[shift, channels]),
                    (None, Binary::Sub) => b.neg(channels),
                    (None, _) => channels,
                });
            }
            Binary::Mul | Binary::Div if f == Binary::Mul || first => {
                let spread = spread(b, channels, self.weights);
                self.weights = b.one(f, &[self.weights, spread]);
                self.shift = self.shift.map(|shift| b.one(f, &[shift, channels]));
            }
            _ => return None,
        }
        Some(self)
    }

    fn emit(&self, b: &mut Builder) -> Value {
        let sums = b.one(self.op, &[self.images, self.weights]);
        match self.shift {
            Some(shift) => {
                let shift = spread(b, shift, sums);
                b.add(sums, shift)
            }
            None => sums,
        }
    }
}

/// One number per channel, for every place of `like`.
fn spread(b: &mut Builder, channels: Value, like: Value) -> Value {
    let (axes, shape) = (vec![3], b.shape(like));
    b.one(Broadcast { axes, shape }, &[channels])
}

/// What a value has per channel, if it is the same everywhere else.
fn channels(b: &Builder, value: Value) -> Option<Value> {
    let node = b.definition(value)?;
    match &node.op {
        Op::Broadcast(spread) if spread.axes == [3] && spread.shape.rank() == 4 => Some(node.args[0]),
        _ => None,
    }
}

/// Which values are decided by the first `frozen` parameters.
fn depends_on(graph: &Graph, frozen: usize) -> Vec<bool> {
    let mut known = vec![false; graph.values()];
    let params = graph.params().iter().take(frozen);
    params.for_each(|p| known[p.index()] = true);
    for node in graph.nodes() {
        let all = node.args.iter().all(|a| known[a.index()]);
        node.outs.iter().for_each(|o| known[o.index()] = all);
    }
    known
}
