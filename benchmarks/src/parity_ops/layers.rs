//! Layers, inside a model whose parameters are the layer's and its input.

use std::sync::Arc;

use anyhow::Result;
use synod_engine::ops::{Binary, Reduce, Reduction};
use synod_engine::{Builder, Options, Session, Tensor, Type, compile, value_and_grad};
use synod_nn::layers::{BatchNorm, Gru, Layer, Lstm};
use synod_nn::{Data, Initializer, Loss, Model, Optimizer, Scope, Setup, StateBuffer, Trainer};

use super::{Case, Found, Given};

/// Runs a case whose op is a layer; none if it is not.
pub(super) fn run(case: &Case, given: &Given) -> Option<Result<Found>> {
    Some(match case.op.as_str() {
        "batch norm, training" => stepped(case, given, norm),
        "batch norm, inference" => used(case, given, norm),
        "LSTM" => stepped(case, given, |setup, _, x| Lstm::new(setup, width(x), case.hidden)),
        "GRU" => stepped(case, given, |setup, _, x| Gru::new(setup, width(x), case.hidden)),
        _ => return None,
    })
}

fn norm(setup: &mut Setup, case: &Case, x: &Tensor) -> BatchNorm {
    let mut norm = BatchNorm::new(setup, width(x));
    (norm.momentum, norm.eps) = (case.momentum, case.eps);
    norm
}

fn width(x: &Tensor) -> usize {
    x.shape().dims().last().copied().unwrap_or(0)
}

/// A model of a layer whose input is a parameter, so that a training step gives its gradient like any other. What the
/// layer gives is the last buffer after a step, and the output of the model in use.
fn model<L: Layer>(
    case: &Case,
    given: &Given,
    make: impl Fn(&mut Setup, &Case, &Tensor) -> L,
) -> Result<Model> {
    let (first, cotangent) = (&given.inputs[0], given.cotangents[0].clone());
    let built = Model::build([1], 0, |setup| {
        let x = setup.param("x", first.shape().clone(), Initializer::Constant(0.0));
        let layer = make(setup, case, first);
        let seen: StateBuffer = setup.buffer("seen", cotangent.shape().clone(), 0.0);
        move |scope: &Scope, input: &Tensor| {
            let y = layer.forward(scope, scope.get(x));
            if scope.training() {
                scope.add_loss((&y * &cotangent).sum_all());
                scope.set_buffer(seen, y);
                return input.clone();
            }
            // An output has an axis for the batch.
            input + y.reshape([1, y.shape().elements()])
        }
    });
    let mut model = built?;
    let (parameters, buffers) = given.inputs.split_at(model.layout().entries().len());
    let flat = |tensors: &[Tensor]| -> Result<Vec<f32>> {
        let values = tensors.iter().map(|t| t.values());
        Ok(values.collect::<Result<Vec<_>, _>>()?.concat())
    };
    model.parameters_mut().copy_from_slice(&flat(parameters)?);
    let buffers = flat(buffers)?;
    model.buffers_mut()[..buffers.len()].copy_from_slice(&buffers);
    Ok(model)
}

/// Outputs and gradients of a compiled training step. After the first step a momentum is the gradient.
fn stepped<L: Layer>(
    case: &Case,
    given: &Given,
    make: impl Fn(&mut Setup, &Case, &Tensor) -> L,
) -> Result<Found> {
    let model = model(case, given, make)?;
    let optimizer = Optimizer::momentum(0.0, 0.9);
    let mut trainer = Trainer::new(&model, Loss::Mse, optimizer, 1, true, 0)?;
    trainer.step(&Data::itself(&[0.0], 1), &[0], 0.0)?;
    let views = |layout: &synod_nn::Layout, flat: &[f32]| -> Vec<Vec<f32>> {
        let entries = layout.entries().iter();
        entries.map(|e| flat[e.range.clone()].to_vec()).collect()
    };
    let mut outputs = views(model.buffer_layout(), trainer.buffers());
    outputs.rotate_right(1);
    Ok(Found {
        outputs,
        gradients: views(model.layout(), trainer.states()),
    })
}

/// Outputs and gradients of the layer as it is used after training.
fn used<L: Layer>(
    case: &Case,
    given: &Given,
    make: impl Fn(&mut Setup, &Case, &Tensor) -> L,
) -> Result<Found> {
    let model = model(case, given, make)?;
    let graph = model.graph(1)?;
    let mut b = Builder::new();
    let params: Vec<_> = graph
        .param_types()
        .into_iter()
        .map(|ty| b.param(ty, ""))
        .collect();
    let output = b.inline(&graph, &params)[0];
    let cotangent = b.param(Type::tensor(b.shape(output)), "cotangent");
    let product = b.one(Binary::Mul, &[output, cotangent]);
    let (kind, axes) = (Reduction::Sum, vec![0, 1]);
    let loss = b.one(Reduce { kind, axes }, &[product]);
    let gradient = value_and_grad(&b.finish(&[loss])?, &case.wrt)?;

    let parameters = given.inputs.iter().map(|t| t.values());
    let mut numbers = parameters.collect::<Result<Vec<_>, _>>()?;
    let seen = vec![0.0; given.cotangents[0].shape().elements()];
    numbers.extend([&seen[..], &[0.0]]);
    let call = |graph, numbers: &[&[f32]]| -> Result<Vec<Vec<f32>>> {
        let program = compile(graph, &Options::default())?;
        Ok(Session::new(Arc::new(program)).call(numbers)?)
    };
    let outputs = call(&graph, &numbers)?;
    numbers.push(given.cotangents[0].values()?);
    let mut gradients = call(&gradient, &numbers)?;
    gradients.remove(0);
    Ok(Found { outputs, gradients })
}
