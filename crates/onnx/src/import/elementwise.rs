//! Ops that treat every element alike, and those along one axis.

use synod_engine::Tensor;
use synod_engine::ops::Distribution;

use super::call::{Call, Item, Outcome, axis, one};
use super::integers;
use super::view::View;
use crate::literal::is_whole;

/// Applies a function of one element where the value lies.
fn map(call: &Call<'_>, f: impl Fn(&Tensor) -> Tensor) -> Outcome {
    let view = call.view(0)?;
    one(view.like(f(view.tensor())))
}

pub(super) fn unary(call: &Call<'_>) -> Outcome {
    match call.op() {
        "Relu" => map(call, Tensor::relu),
        "Sigmoid" => map(call, Tensor::sigmoid),
        "Tanh" => map(call, Tensor::tanh),
        "Erf" => map(call, Tensor::erf),
        "Sqrt" => map(call, Tensor::sqrt),
        "Exp" => map(call, Tensor::exp),
        "Log" => map(call, Tensor::log),
        "Abs" => map(call, Tensor::abs),
        "Sign" => map(call, Tensor::sign),
        "Sin" => map(call, Tensor::sin),
        "Cos" => map(call, Tensor::cos),
        "Floor" => map(call, Tensor::floor),
        "Reciprocal" => map(call, Tensor::recip),
        "Neg" => map(call, |x| -x),
        "Not" => map(call, |x| x.equals(0.0)),
        "Softplus" => map(call, |x| x.relu() + ((-x.abs()).exp() + 1.0).log()),
        "LeakyRelu" => {
            let slope = call.float("alpha", 0.01);
            map(call, |x| x.greater(0.0).select(x, x * slope))
        }
        "Elu" => {
            let scale = call.float("alpha", 1.0);
            map(call, |x| {
                x.greater(0.0).select(x, (x.minimum(0.0).exp() - 1.0) * scale)
            })
        }
        "HardSigmoid" => {
            let (slope, shift) = (call.float("alpha", 0.2), call.float("beta", 0.5));
            map(call, |x| (x * slope + shift).maximum(0.0).minimum(1.0))
        }
        "Gelu" => match call.text("approximate").as_deref() {
            None | Some("none") => map(call, |x| {
                (x * 0.5) * ((x * std::f32::consts::FRAC_1_SQRT_2).erf() + 1.0)
            }),
            _ => map(call, |x| {
                let inner = (x + x * x * x * 0.044_715) * (2.0 / std::f32::consts::PI).sqrt();
                (x * 0.5) * (inner.tanh() + 1.0)
            }),
        },
        other => Err(format!("{other} is no function of one element")),
    }
}

pub(super) fn binary(call: &Call<'_>) -> Outcome {
    if let (Item::Ints(x), Item::Ints(y)) = (call.item(0)?, call.item(1)?) {
        return one(integers::binary(call.op(), x, y)?);
    }
    if call.op() == "Pow" && matches!(call.item(1)?, Item::Floats(_) | Item::Ints(_)) {
        match call.number(1) {
            Ok(2.0) => return map(call, |x| x * x),
            Ok(0.5) => return map(call, Tensor::sqrt),
            _ => {}
        }
    }
    let (x, y, result) = call.view(0)?.paired(&call.view(1)?);
    let value = match call.op() {
        "Add" => x + y,
        "Sub" => x - y,
        "Mul" => x * y,
        "Div" => x / y,
        "Pow" => x.pow(y),
        "Less" => x.less(y),
        "Greater" => x.greater(y),
        "LessOrEqual" => x.greater(y).equals(0.0),
        "GreaterOrEqual" => x.less(y).equals(0.0),
        "Equal" => x.equals(y),
        "And" => x * y,
        "Or" => x.maximum(y),
        other => return Err(format!("{other} is no function of two elements")),
    };
    one(result.like(value))
}

/// `Max` and `Min` take any number of inputs.
pub(super) fn extreme(call: &Call<'_>) -> Outcome {
    let mut best = call.view(0)?;
    for i in 1..call.inputs.len() {
        let (x, y, result) = best.paired(&call.view(i)?);
        let value = if call.op() == "Max" {
            x.maximum(y)
        } else {
            x.minimum(y)
        };
        best = result.like(value);
    }
    one(best)
}

pub(super) fn choose(call: &Call<'_>) -> Outcome {
    if let (Item::Ints(c), Item::Ints(x), Item::Ints(y)) = (call.item(0)?, call.item(1)?, call.item(2)?) {
        return one(integers::choose(c, x, y)?);
    }
    let (condition, then, otherwise) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    one(condition.select(then, otherwise))
}

pub(super) fn clip(call: &Call<'_>) -> Outcome {
    let bound = |i: usize, name: &str| match call.optional(i) {
        Some(_) => call.number(i).map(Some),
        None => Ok(call.has(name).then(|| call.float(name, 0.0))),
    };
    let (low, high) = (bound(1, "min")?, bound(2, "max")?);
    map(call, |x| {
        let x = low.map_or_else(|| x.clone(), |low| x.maximum(low));
        high.map_or_else(|| x.clone(), |high| x.minimum(high))
    })
}

/// Values are floats here whatever they stand for; only fractions must go when they become whole.
pub(super) fn cast(call: &Call<'_>) -> Outcome {
    let whole = is_whole(call.int("to", 1));
    match call.item(0)? {
        Item::Ints(ints) if whole => one(ints.clone()),
        Item::Ints(ints) => Ok(vec![Item::Floats(ints.to_floats())]),
        Item::Floats(floats) if whole => one(integers::truncated(floats)),
        _ if call.int("to", 1) == 9 => map(call, |x| x.equals(0.0).equals(0.0)),
        _ if whole => map(call, |x| x.sign() * x.abs().floor()),
        _ => one(call.view(0)?),
    }
}

pub(super) fn softmax(call: &Call<'_>) -> Outcome {
    let view = call.view(0)?;
    let logarithm = call.op() == "LogSoftmax";
    let apply = |x: &Tensor| if logarithm { x.log_softmax() } else { x.softmax() };
    if call.opset < 13 {
        // Older opsets flatten everything from the axis on into one.
        let dims = view.dims();
        let at = axis(call.int("axis", 1), dims.len())?;
        let flat = [dims[..at].iter().product(), dims[at..].iter().product()];
        return one(apply(&view.in_order().reshape(flat)).reshape(dims));
    }
    let at = axis(call.int("axis", -1), view.rank())?;
    let order: Vec<usize> = (0..view.rank()).filter(|&a| a != at).chain([at]).collect();
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, &a)| places[a] = i);
    one(View::stored(apply(&view.arranged(&order)), places))
}

/// Noise is drawn while the model is trained; when it is used, the mean stands for it, as in Synod's own variational
/// autoencoder.
pub(super) fn noise(call: &Call<'_>) -> Outcome {
    let like = call.tensor(0)?;
    let (mean, scale) = (call.float("mean", 0.0), call.float("scale", 1.0));
    one(match call.scope.key() {
        Some((key, salt)) => key.random(Distribution::Normal, like.shape(), salt) * scale + mean,
        None => Tensor::full(mean, like.shape()),
    })
}
