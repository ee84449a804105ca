//! From the steps of a [`Network`] back to a graph: in `f32`, or with every tensor rounded to the levels of its bytes.

use std::collections::BTreeMap;

use synod_engine::ops::{Binary, Broadcast, Dot, FakeQuant, Full, KEY, Reduce, Reduction, Unary, Window};
use synod_engine::{Builder, Graph, ModelFile, NamedTensor, Shape, Template, Type, Value};

use super::grid::Grid;
use super::network::{Form, Network, Step};
use super::read::Layer;
use crate::error::{Error, Result};
use crate::model::Model;

/// The smallest largest weight of a channel: one without weights needs a scale, too.
pub(super) const LEAST_WEIGHT: f32 = 1e-30;

/// A graph `(weight, bias, weight, bias, ..., [key], input) -> values`; which values, `wanted` says. Rounded, if there are
/// grids.
pub(super) fn emit(
    network: &Network,
    layers: &[Layer],
    grids: Option<&[Option<Grid>]>,
    batch: usize,
    with_key: bool,
    wanted: &[usize],
) -> synod_engine::Result<Graph> {
    let mut b = Builder::new();
    let mut weights = vec![];
    for (layer, form) in layers.iter().zip(network.forms()) {
        let weight = b.param(Type::tensor(form.weight()), &format!("{}.weight", layer.name));
        let bias = b.param(Type::tensor([form.outputs()]), &format!("{}.bias", layer.name));
        weights.push((weight, bias));
    }
    if with_key {
        b.param(Type::tensor([KEY]), "key");
    }
    let input = b.param(
        Type::Tensor(Shape::from(&network.input[..]).batched(batch)),
        "input",
    );
    let mut weights = weights.into_iter();
    let mut values = vec![rounded(&mut b, grids, 0, input)];
    for (i, step) in network.steps.iter().enumerate() {
        let x = values[step.sources()[0]];
        let value = match step {
            Step::Product { form, relu, .. } => match weights.next() {
                Some((weight, bias)) => {
                    let weight = match grids {
                        Some(_) => rounded_weight(&mut b, weight),
                        None => weight,
                    };
                    let sums = product(&mut b, form, x, weight);
                    let sums = spread_add(&mut b, sums, bias);
                    activated(&mut b, sums, *relu)
                }
                None => x,
            },
            Step::Add { from, relu } => {
                let sum = b.add(x, values[from[1]]);
                activated(&mut b, sum, *relu)
            }
            Step::MaxPool { window, .. } => b.max_pool(x, *window),
            Step::AveragePool {
                window,
                count_padding,
                ..
            } => average(&mut b, x, window, *count_padding),
            Step::Relu { .. } => b.one(Unary::Relu, &[x]),
            Step::Reshape { shape, .. } => b.reshape(x, Shape::from(&shape[..]).batched(batch)),
        };
        values.push(rounded(&mut b, grids, i + 1, value));
    }
    let outs: Vec<Value> = wanted.iter().map(|&w| values[w]).collect();
    b.finish(&outs)
}

fn product(b: &mut Builder, form: &Form, x: Value, weight: Value) -> Value {
    match form {
        Form::Dense { .. } => b.one(Dot::default(), &[x, weight]),
        Form::Conv { window, groups, .. } => b.conv(x, weight, *window, *groups),
    }
}

fn spread_add(b: &mut Builder, x: Value, bias: Value) -> Value {
    let shape = b.shape(x);
    let axes = vec![shape.rank() - 1];
    let bias = b.one(Broadcast { axes, shape }, &[bias]);
    b.add(x, bias)
}

fn activated(b: &mut Builder, x: Value, relu: bool) -> Value {
    match relu {
        true => b.one(Unary::Relu, &[x]),
        false => x,
    }
}

fn average(b: &mut Builder, x: Value, window: &Window, count_padding: bool) -> Value {
    let sum = b.sum_pool(x, *window);
    match (count_padding, window.coverage(), window.output()) {
        (false, Ok(counts), Ok([h, w])) => {
            let shares: Vec<f32> = counts.iter().map(|&n| 1.0 / n.max(1) as f32).collect();
            let shares = b.constant(shares, [h, w]);
            let (axes, shape) = (vec![1, 2], b.shape(sum));
            let shares = b.one(Broadcast { axes, shape }, &[shares]);
            b.mul(sum, shares)
        }
        _ => b.scale(sum, 1.0 / (window.kernel[0] * window.kernel[1]) as f32),
    }
}

fn rounded(b: &mut Builder, grids: Option<&[Option<Grid>]>, value: usize, x: Value) -> Value {
    match grids.and_then(|g| g.get(value).copied().flatten()) {
        Some(grid) => {
            let (shape, value) = (Shape::scalar(), grid.scale);
            let scale = b.one(Full { shape, value }, &[]);
            b.one(FakeQuant::unsigned(grid.zero_point), &[x, scale])
        }
        None => x,
    }
}

/// Signed bytes whose scale follows the largest weight of every output.
fn rounded_weight(b: &mut Builder, weight: Value) -> Value {
    let last = b.shape(weight).rank() - 1;
    let sizes = b.one(Unary::Abs, &[weight]);
    let (kind, axes) = (Reduction::Max, (0..last).collect());
    let largest = b.one(Reduce { kind, axes }, &[sizes]);
    let least = b.full_like(LEAST_WEIGHT, largest);
    let largest = b.one(Binary::Max, &[largest, least]);
    let levels = b.full_like(127.0, largest);
    let scale = b.div(largest, levels);
    b.one(FakeQuant::signed(Some(last)), &[weight, scale])
}

/// A model with these layers, whose graphs are emitted.
pub(super) fn model_of(network: &Network, layers: &[Layer], grids: Option<&[Option<Grid>]>) -> Result<Model> {
    let last = network.steps.len();
    let template = |key: bool| Template::new(|batch| emit(network, layers, grids, batch, key, &[last]));
    let mut tensors = vec![];
    for (layer, form) in layers.iter().zip(network.forms()) {
        tensors.push(NamedTensor {
            name: format!("{}.weight", layer.name),
            shape: form.weight().into(),
            data: layer.weight.clone(),
        });
        tensors.push(NamedTensor {
            name: format!("{}.bias", layer.name),
            shape: [form.outputs()].into(),
            data: layer.bias.clone(),
        });
    }
    let graphs = [
        ("predict".to_owned(), template(false)?),
        ("train".to_owned(), template(true)?),
    ];
    let file = ModelFile {
        tensors,
        graphs: graphs.into(),
        notes: BTreeMap::new(),
    };
    Model::from_file(file).map_err(Error::Setting)
}
