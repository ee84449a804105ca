//! Ops on tensors, run at once and compiled.

use std::sync::Arc;

use anyhow::{Result, ensure};
use synod_engine::ops::{Padding, Slide};
use synod_engine::{Options, Session, Tensor, Type, compile, trace, value_and_grad, value_and_gradient};

use super::{Case, Found, Given};

/// What a case computes from its inputs.
fn apply(case: &Case, x: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let slide = Slide {
        stride: case.stride,
        padding: Padding::Explicit(case.padding),
        dilation: case.dilation,
    };
    let one = match case.op.as_str() {
        "convolution" => x[0].conv(&x[1], &slide, case.groups) + &x[2],
        "max pooling" => x[0].max_pool(case.kernel, &slide),
        "average pooling" => x[0].average_pool(case.kernel, &slide, case.count_padding),
        "global average pooling" => x[0].mean(&[1, 2]),
        "embedding" => x[0].gather(&x[1]),
        "softmax" => return Ok(vec![x[0].softmax(), x[0].log_softmax()]),
        "softmax cross-entropy" => x[0].cross_entropy(&x[1]),
        "concat" => Tensor::concat(x, case.axis),
        "pad" => x[0].pad(&case.low, &case.high),
        "slice" => {
            let ranges = case.start.iter().zip(&case.stop).enumerate();
            ranges.fold(x[0].clone(), |y, (axis, (&from, &to))| y.slice(axis, from..to))
        }
        "transpose" => x[0].transpose(&case.order),
        "argmax" => x[0].argmax(),
        "top-k" => x[0].in_top_k(&x[1], case.k),
        other => return Err(format!("no op is called `{other}`")),
    };
    Ok(vec![one])
}

/// The sum of all outputs times their cotangents.
fn weighted(outputs: &[Tensor], cotangents: &[Tensor]) -> Tensor {
    let terms = outputs.iter().zip(cotangents).map(|(y, c)| (y * c).sum_all());
    terms.reduce(|a, b| a + b).unwrap_or_else(|| Tensor::scalar(0.0))
}

/// Runs the case op by op.
pub(super) fn eager(case: &Case, given: &Given) -> Result<Found> {
    let outputs = apply(case, &given.inputs).map_err(anyhow::Error::msg)?;
    let outputs = outputs.iter().map(|y| Ok(y.values()?.to_vec()));
    let outputs = outputs.collect::<Result<_>>()?;
    if case.wrt.is_empty() {
        let gradients = vec![];
        return Ok(Found { outputs, gradients });
    }
    let loss = |x: &[Tensor]| weighted(&apply(case, x).unwrap_or_default(), &given.cotangents);
    let (_, gradients) = value_and_gradient(loss, &given.inputs)?;
    let gradients = case.wrt.iter().map(|&i| Ok(gradients[i].values()?.to_vec()));
    Ok(Found {
        outputs,
        gradients: gradients.collect::<Result<_>>()?,
    })
}

/// Compiles the case, its outputs and its gradients apart.
pub(super) fn compiled(case: &Case, given: &Given) -> Result<Found> {
    let types: Vec<Type> = given.inputs.iter().map(|t| Type::tensor(t.shape())).collect();
    let numbers: Vec<&[f32]> = given
        .inputs
        .iter()
        .map(|t| t.values())
        .collect::<Result<_, _>>()?;
    let call = |graph| -> Result<Vec<Vec<f32>>> {
        let program = compile(&graph, &Options::default())?;
        Ok(Session::new(Arc::new(program)).call(&numbers)?)
    };
    let outputs = call(trace(&types, |x| apply(case, x).unwrap_or_default())?)?;
    if case.wrt.is_empty() {
        let gradients = vec![];
        return Ok(Found { outputs, gradients });
    }
    let loss = trace(&types, |x| {
        vec![weighted(&apply(case, x).unwrap_or_default(), &given.cotangents)]
    })?;
    let mut gradients = call(value_and_grad(&loss, &case.wrt)?)?;
    ensure!(gradients.len() == 1 + case.wrt.len(), "a gradient is missing");
    gradients.remove(0);
    Ok(Found { outputs, gradients })
}
