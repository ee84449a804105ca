//! From the graph of inference to the steps of a [`Network`].
//!
//! Whatever does not depend on the input is computed first, so that a normalisation is a gain and a shift per channel however
//! it was written, and is folded into the product before it.

use std::collections::HashMap;

use synod_engine::ops::{Binary, Conv, ConvRole, Dot, Pool, PoolRole, Reduce, Reduction, Unary, Window};
use synod_engine::{Graph, Node, Op, Value};

use super::constants::{Constants, Operand};
use super::grid::Grid;
use super::network::{Form, Network, Step};
use crate::error::{Error, Result};
use crate::model::Model;

/// The batch size at which graphs are read: one that tells batches from extents of 1.
const BATCH: usize = 2;

/// The weights of a product.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layer {
    pub(super) name: String,
    /// In the shape of its form, outputs last.
    pub(super) weight: Vec<f32>,
    /// One per output.
    pub(super) bias: Vec<f32>,
}

/// What a model's graph computes, in steps.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) network: Network,
    pub(super) layers: Vec<Layer>,
    /// The grids that the graph itself names, by value.
    pub(super) grids: Vec<Option<Grid>>,
}

/// Reads the inference graph of a model.
pub(super) fn read(model: &Model) -> Result<Reading> {
    let graph = model.graph(BATCH)?;
    let mut reader = Reader {
        graph: &graph,
        constants: Constants::of(&graph, model)?,
        uses: graph.uses(),
        at: HashMap::new(),
        sums: HashMap::new(),
        reading: Reading {
            network: Network {
                input: model.input_shape().dims().to_vec(),
                steps: vec![],
            },
            layers: vec![],
            grids: vec![None],
        },
    };
    if let Some(&input) = graph.params().last() {
        reader.at.insert(input, 0);
    }
    for node in graph.nodes() {
        if !reader.constants.is_known(node) {
            reader.node(node)?;
        }
    }
    let output = graph.outputs().first().and_then(|o| reader.at.get(o));
    if output != Some(&reader.reading.network.steps.len()) {
        return Err(Error::Setting(
            "the model's output is not what its last step gives; bytes cannot stand for it".into(),
        ));
    }
    reader.reading.network.shapes().map_err(Error::Setting)?;
    Ok(reader.reading)
}

struct Reader<'a> {
    graph: &'a Graph,
    constants: Constants,
    uses: Vec<u32>,
    /// Which value of the network a value of the graph is.
    at: HashMap<Value, usize>,
    /// Sums of windows that are not yet divided by their size.
    sums: HashMap<Value, (usize, Window)>,
    reading: Reading,
}

impl Reader<'_> {
    fn node(&mut self, node: &Node) -> Result<()> {
        let out = node.outs[0];
        if let (Op::Pool(pool), &[x]) = (&node.op, &node.args[..])
            && let (PoolRole::Sum, Some(&from)) = (pool.role, self.at.get(&x))
        {
            self.sums.insert(out, (from, pool.window));
            return Ok(());
        }
        let value = match (&node.op, &node.args[..]) {
            (Op::Dot(dot), &[x, w]) => self.dense(*dot, x, w),
            (Op::Conv(conv), &[x, w]) => self.conv(conv, x, w),
            (Op::Binary(f), &[x, y]) => self.binary(*f, x, y),
            (Op::Unary(Unary::Relu), &[x]) => self.relu(x),
            (Op::Reshape(_), &[x]) => self.reshape(x, out),
            (Op::Reduce(reduce), &[x]) => self.global_mean(reduce, x, out),
            (Op::FakeQuant(op), &[x, scale]) => self
                .constants
                .scalar(scale)
                .and_then(|scale| Grid::of(op, scale))
                .and_then(|grid| self.grid(x, grid)),
            (Op::Pool(pool), &[x, y]) if x == y => self.max_pool(pool, x),
            _ => None,
        };
        let value = value.ok_or_else(|| unsupported(self.graph, node))?;
        self.at.insert(out, value);
        Ok(())
    }

    fn push(&mut self, step: Step) -> Option<usize> {
        self.reading.network.steps.push(step);
        self.reading.grids.push(None);
        Some(self.reading.network.steps.len())
    }

    fn dims(&self, value: Value) -> &[usize] {
        self.graph.shape(value).dims()
    }

    /// The step that gives a value, if nobody else reads it and it is not yet bytes: what follows may join it.
    fn open(&mut self, value: Value) -> Option<&mut Step> {
        let at = *self.at.get(&value)?;
        let open = self.uses[value.index()] == 1 && self.reading.grids[at].is_none();
        match open && at > 0 {
            true => self.reading.network.steps.get_mut(at - 1),
            false => None,
        }
    }

    fn dense(&mut self, dot: Dot, x: Value, w: Value) -> Option<usize> {
        let from = *self.at.get(&x)?;
        let &[BATCH, inputs] = self.dims(x) else {
            return None;
        };
        let extents = dot.extents(self.graph.shape(x), self.graph.shape(w)).ok()?;
        if dot.ta || extents.batch != 1 {
            return None;
        }
        let outputs = extents.n;
        let given = self.constants.values(w)?;
        let weight = match dot.tb {
            false => given.to_vec(),
            true => (0..inputs * outputs)
                .map(|i| given[i % outputs * inputs + i / outputs])
                .collect(),
        };
        self.product(from, Form::Dense { inputs, outputs }, weight, w)
    }

    fn conv(&mut self, conv: &Conv, x: Value, w: Value) -> Option<usize> {
        let from = *self.at.get(&x)?;
        let extents = conv.extents(self.graph.shape(x), self.graph.shape(w)).ok()?;
        if conv.role != ConvRole::Forward || extents.n != BATCH {
            return None;
        }
        let weight = self.constants.values(w)?.to_vec();
        let form = Form::Conv {
            window: conv.window,
            groups: conv.groups,
            channels: extents.channels,
            outputs: extents.outputs,
        };
        self.product(from, form, weight, w)
    }

    fn product(&mut self, from: usize, form: Form, weight: Vec<f32>, w: Value) -> Option<usize> {
        let name = self.constants.name(self.graph, w);
        let name = name.strip_suffix(".weight").unwrap_or(&name);
        let taken = |n: &String| self.reading.layers.iter().any(|l| l.name == *n);
        let numbered = (0..).map(|i| format!("layer{i}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let name = names.find(|n| !n.is_empty() && !taken(n))?;
        let bias = vec![0.0; form.outputs()];
        self.reading.layers.push(Layer { name, weight, bias });
        self.push(Step::Product {
            from,
            form,
            relu: false,
        })
    }

    fn binary(&mut self, f: Binary, x: Value, y: Value) -> Option<usize> {
        match (
            self.constants.operand(self.graph, x),
            self.constants.operand(self.graph, y),
        ) {
            (None, None) if f == Binary::Add => {
                let from = [*self.at.get(&x)?, *self.at.get(&y)?];
                self.push(Step::Add { from, relu: false })
            }
            (None, Some(given)) if self.sums.contains_key(&x) => self.divide(f, x, &given),
            (Some(given), None) if f == Binary::Mul && self.sums.contains_key(&y) => {
                self.divide(f, y, &given)
            }
            (None, Some(given)) => self.affine(f, x, &given, false),
            (Some(given), None) => self.affine(f, y, &given, true),
            _ => None,
        }
    }

    /// Folds a gain or a shift per channel into the product before it.
    fn affine(&mut self, f: Binary, x: Value, given: &Operand, given_first: bool) -> Option<usize> {
        let dims = self.dims(x).to_vec();
        let channels = *dims.last()?;
        let given = given.per_channel(&dims)?;
        let at = *self.at.get(&x)?;
        if !matches!(self.open(x)?, Step::Product { relu: false, .. }) {
            return None;
        }
        let products = self.reading.network.steps[..at]
            .iter()
            .filter(|s| matches!(s, Step::Product { .. }))
            .count();
        let layer = self.reading.layers.get_mut(products - 1)?;
        for (i, w) in layer.weight.iter_mut().enumerate() {
            *w = map(f, *w, given[i % channels], given_first, true)?;
        }
        for (b, &g) in layer.bias.iter_mut().zip(&given) {
            *b = map(f, *b, g, given_first, false)?;
        }
        Some(at)
    }

    fn relu(&mut self, x: Value) -> Option<usize> {
        let from = *self.at.get(&x)?;
        match self.open(x) {
            Some(Step::Product { relu, .. } | Step::Add { relu, .. }) => {
                *relu = true;
                Some(from)
            }
            _ => self.push(Step::Relu { from }),
        }
    }

    fn reshape(&mut self, x: Value, out: Value) -> Option<usize> {
        let from = *self.at.get(&x)?;
        match (self.dims(x), self.dims(out)) {
            ([BATCH, ..], [BATCH, shape @ ..]) => {
                let shape = shape.to_vec();
                self.push(Step::Reshape { from, shape })
            }
            _ => None,
        }
    }

    fn global_mean(&mut self, reduce: &Reduce, x: Value, out: Value) -> Option<usize> {
        let from = *self.at.get(&x)?;
        let (&[BATCH, h, w, _], Reduction::Mean, [1, 2]) = (self.dims(x), reduce.kind, &reduce.axes[..])
        else {
            return None;
        };
        let window = Window {
            input: [h, w],
            kernel: [h, w],
            stride: [1; 2],
            padding: [[0; 2]; 2],
            dilation: [1; 2],
        };
        let from = self.push(Step::AveragePool {
            from,
            window,
            count_padding: true,
        })?;
        let shape = self.dims(out)[1..].to_vec();
        self.push(Step::Reshape { from, shape })
    }

    fn max_pool(&mut self, pool: &Pool, x: Value) -> Option<usize> {
        let (from, window) = (*self.at.get(&x)?, pool.window);
        match pool.role {
            PoolRole::MaxPick => self.push(Step::MaxPool { from, window }),
            _ => None,
        }
    }

    /// A sum over windows becomes their mean.
    fn divide(&mut self, f: Binary, sum: Value, given: &Operand) -> Option<usize> {
        let (from, window) = *self.sums.get(&sum)?;
        let factors = given.per_place(self.dims(sum))?;
        let factor = |x: f32| match f {
            Binary::Mul => Some(x),
            Binary::Div => Some(1.0 / x),
            _ => None,
        };
        let near = |x: f32, count: usize| factor(x).is_some_and(|x| (x * count as f32 - 1.0).abs() < 1e-5);
        let taps = window.kernel[0] * window.kernel[1];
        let count_padding = factors.iter().all(|&x| near(x, taps));
        let coverage = window.coverage().ok()?;
        let on_image = factors.iter().zip(&coverage).all(|(&x, &n)| near(x, n.max(1)));
        (count_padding || on_image).then_some(())?;
        self.push(Step::AveragePool {
            from,
            window,
            count_padding,
        })
    }

    fn grid(&mut self, x: Value, grid: Grid) -> Option<usize> {
        let at = *self.at.get(&x)?;
        if self.uses[x.index()] != 1 {
            return None;
        }
        match &mut self.reading.grids[at] {
            Some(before) if *before != grid => None,
            slot => {
                *slot = Some(grid);
                Some(at)
            }
        }
    }
}

/// `f(x, given)` or `f(given, x)` on a bias, or what that does to a weight.
fn map(f: Binary, x: f32, given: f32, given_first: bool, is_weight: bool) -> Option<f32> {
    Some(match (f, given_first, is_weight) {
        (Binary::Mul, _, _) => x * given,
        (Binary::Div, false, _) => x / given,
        (Binary::Add, _, true) | (Binary::Sub, false, true) => x,
        (Binary::Add, _, false) => x + given,
        (Binary::Sub, false, false) => x - given,
        (Binary::Sub, true, true) => -x,
        (Binary::Sub, true, false) => given - x,
        _ => return None,
    })
}

fn unsupported(graph: &Graph, node: &Node) -> Error {
    let shapes: Vec<String> = node.args.iter().map(|&a| graph.shape(a).to_string()).collect();
    Error::Setting(format!(
        "`{}` of {} at {} has no meaning in bytes; a model to be quantised is made of dense and convolutional layers with \
         known weights, normalisations right after them, ReLU, pooling, sums and reshapes of examples",
        node.op,
        shapes.join(" and "),
        node.site
    ))
}
