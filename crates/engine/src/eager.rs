//! Running ops at once.

use std::sync::Arc;

use crate::backend::cpu;
use crate::error::{Result, Site};
use crate::grad;
use crate::graph::{Builder, Graph, Value};
use crate::ops::Op;
use crate::tensor::Tensor;
use crate::trace::{self, Traced};
use crate::types::Type;

/// Runs one op on concrete tensors.
pub(crate) fn apply(op: &Op, args: &[&Tensor], site: &Site) -> Result<Vec<Tensor>> {
    let mut b = Builder::new();
    b.at(site);
    let params: Vec<_> = args
        .iter()
        .map(|a| b.param(Type::Tensor(a.shape().clone()), ""))
        .collect();
    let outs = b.apply(op.clone(), &params);
    let graph = b.finish(&outs)?;
    let data: Vec<&[f32]> = args.iter().map(|a| a.data().map_or(&[][..], |d| d)).collect();
    let results = cpu::run_once(&graph, &data)?;
    Ok(graph
        .outputs()
        .iter()
        .zip(results)
        .map(|(&o, d)| Tensor::concrete(graph.shape(o).clone(), d.into()))
        .collect())
}

/// The value of a function and its gradient with respect to every argument.
///
/// Outside a trace the function runs eagerly: it can print, and branch on what it sees. Inside a trace, or in graph
/// mode, the same gradient transform is applied to the traced graph.
pub fn value_and_gradient(f: impl Fn(&[Tensor]) -> Tensor, args: &[Tensor]) -> Result<(Tensor, Vec<Tensor>)> {
    if let Some(error) = args.iter().find_map(Tensor::error) {
        return Err(error.clone());
    }
    let all: Vec<usize> = (0..args.len()).collect();
    let types: Vec<Type> = args.iter().map(|a| Type::Tensor(a.shape().clone())).collect();
    let mut outs = if trace::is_tracing() {
        let traced = trace::closure(&types, |x| vec![f(x)])?;
        let graph = grad::value_and_grad(&traced.graph, &all)?;
        trace::inline(&graph, &[args, &traced.captures].concat())?
    } else if crate::stage::mode() == crate::stage::Mode::Graph {
        let traced = trace::capturing(&types, |x| vec![f(x)])?;
        let graph = grad::value_and_grad(&traced.graph, &all)?;
        crate::stage::call(graph, &[args, &traced.captures].concat())?
    } else {
        backward(trace::recording(args, |x| vec![f(x)])?, &all)?
    };
    let gradients = outs.split_off(1);
    Ok((outs.remove(0), gradients))
}

/// Runs the backward half of a recorded function on the values already computed.
fn backward(traced: Traced, wrt: &[usize]) -> Result<Vec<Tensor>> {
    let graph = &traced.graph;
    let mut data: Vec<Option<&Arc<[f32]>>> = vec![None; graph.values()];
    for (value, seen) in &traced.data {
        data[value.index()] = Some(seen);
    }
    let value = graph.outputs()[0];
    let numbers = |v: Value| data[v.index()].map_or(&[][..], |d| d);
    let results = match data.contains(&None) {
        false => {
            let back: Graph = grad::backward_of(graph, wrt)?;
            let given: Vec<&[f32]> = (0..graph.values()).map(|i| numbers(Value(i as u32))).collect();
            cpu::run_once(&back, &given)?
        }
        // Nothing was seen inside a gradient that the function itself took, so all is computed again.
        true => {
            let given: Vec<&[f32]> = graph.params().iter().map(|&p| numbers(p)).collect();
            cpu::run_once(&grad::grad(graph, wrt)?, &given)?
        }
    };
    let first = Tensor::concrete(graph.shape(value).clone(), numbers(value).into());
    let rest = wrt
        .iter()
        .zip(results)
        .map(|(&i, d)| Tensor::concrete(graph.shape(graph.params()[i]).clone(), d.into()));
    Ok(std::iter::once(first).chain(rest).collect())
}
