//! Gradients: graph in, graph out.
//!
//! Rules emit ordinary ops, so a gradient can be differentiated again, compiled, batched or printed like anything else.

use std::collections::HashMap;

use crate::error::{Result, transform};
use crate::graph::{Builder, Graph, Value, with_params_of};
use crate::ops::{Applied, Full, Op, empty_tape};
use crate::passes::dead_code;
use crate::types::Shape;

/// The gradient of a graph's first output, which must be a scalar, with respect to parameters `wrt`.
///
/// # Example
/// ```
/// use synod_engine::{Type, grad, interpret, trace};
/// let square = trace(&[Type::scalar()], |x| vec![&x[0] * &x[0]])?;
/// let slope = grad(&square, &[0])?;
/// let curvature = grad(&slope, &[0])?;
/// assert_eq!(interpret(&slope, &[vec![3.0_f64]])?, [[6.0]]);
/// assert_eq!(interpret(&curvature, &[vec![3.0_f64]])?, [[2.0]]);
/// # Ok::<(), synod_engine::Error>(())
/// ```
pub fn grad(graph: &Graph, wrt: &[usize]) -> Result<Graph> {
    differentiate(graph, wrt, false)
}

/// Like [`grad`], and gives all outputs of the graph before the gradients.
pub fn value_and_grad(graph: &Graph, wrt: &[usize]) -> Result<Graph> {
    differentiate(graph, wrt, true)
}

fn differentiate(graph: &Graph, wrt: &[usize], with_value: bool) -> Result<Graph> {
    match graph.outputs().first() {
        Some(&out) if graph.ty(out).is_scalar() => {}
        Some(&out) => {
            let problem = format!(
                "the output is {}; only a scalar has a gradient (take a sum or mean)",
                graph.ty(out)
            );
            return Err(transform("grad", problem));
        }
        None => return Err(transform("grad", "the graph has no output")),
    }
    if let Some(i) = wrt.iter().find(|&&i| i >= graph.params().len()) {
        return Err(transform(
            "grad",
            format!(
                "there is no parameter {i}; the graph has {}",
                graph.params().len()
            ),
        ));
    }
    let (mut b, params) = with_params_of(graph);
    let wanted: Vec<bool> = (0..params.len()).map(|i| wrt.contains(&i)).collect();
    let forward = replay(&mut b, graph, &params, &wanted);
    let one = b.one(
        Full {
            shape: Shape::scalar(),
            value: 1.0,
        },
        &[],
    );
    let mut d = vec![None; graph.outputs().len()];
    d[0] = Some(one);
    let cotangents = reverse(&mut b, graph, &forward, &d);
    let mut outs: Vec<Value> = vec![];
    if with_value {
        outs.extend(graph.outputs().iter().map(|o| forward.names[o.index()]));
    }
    for &i in wrt {
        let given = cotangents[graph.params()[i].index()];
        outs.push(given.unwrap_or_else(|| b.zero_like(params[i])));
    }
    dead_code(&b.finish(&outs)?)
}

/// The pullback of a graph: takes its parameters and one cotangent per output, gives one cotangent per wanted parameter.
pub fn pullback(graph: &Graph, wanted: &[bool]) -> Result<Graph> {
    let (mut b, params) = with_params_of(graph);
    let d: Vec<Value> = graph
        .outputs()
        .iter()
        .map(|&o| b.param(graph.ty(o).clone(), "cotangent"))
        .collect();
    let d: Vec<Option<Value>> = d.into_iter().map(Some).collect();
    let given = inline_pullback(&mut b, graph, &params, &d, wanted);
    let mut outs = vec![];
    for i in (0..params.len()).filter(|&i| wanted[i]) {
        outs.push(given[i].unwrap_or_else(|| b.zero_like(params[i])));
    }
    dead_code(&b.finish(&outs)?)
}

/// Emits the pullback of `graph` at `args` and returns the cotangents of its parameters.
pub(crate) fn inline_pullback(
    b: &mut Builder,
    graph: &Graph,
    args: &[Value],
    d: &[Option<Value>],
    wanted: &[bool],
) -> Vec<Option<Value>> {
    let forward = replay(b, graph, args, wanted);
    let cotangents = reverse(b, graph, &forward, d);
    graph.params().iter().map(|p| cotangents[p.index()]).collect()
}

/// A graph replayed in another one, with what the reverse pass needs.
struct Forward {
    names: Vec<Value>,
    active: Vec<bool>,
    tapes: HashMap<usize, Value>,
}

fn replay(b: &mut Builder, graph: &Graph, args: &[Value], wanted: &[bool]) -> Forward {
    let mut names = vec![Value(u32::MAX); graph.values()];
    let mut active = vec![false; graph.values()];
    let mut tapes = HashMap::new();
    for (i, p) in graph.params().iter().enumerate() {
        names[p.index()] = args[i];
        active[p.index()] = wanted[i];
    }
    for (i, node) in graph.nodes().iter().enumerate() {
        let args: Vec<Value> = node.args.iter().map(|a| names[a.index()]).collect();
        let on = node.args.iter().any(|a| active[a.index()]);
        b.at(&node.site);
        let outs = match &node.op {
            Op::While(op) if on => {
                let k = op.carried();
                let tape = empty_tape(b, op);
                let args = [&args[..k], &[tape], &args[k..]].concat();
                match op.taped() {
                    Ok(op) => {
                        let mut outs = b.apply(op, &args);
                        tapes.insert(i, outs.pop().unwrap_or(tape));
                        outs
                    }
                    Err(e) => {
                        b.fail(e);
                        args[..k].to_vec()
                    }
                }
            }
            op => b.apply(op.clone(), &args),
        };
        for (o, v) in node.outs.iter().zip(outs) {
            names[o.index()] = v;
            active[o.index()] = on;
        }
    }
    Forward { names, active, tapes }
}

fn reverse(b: &mut Builder, graph: &Graph, forward: &Forward, d: &[Option<Value>]) -> Vec<Option<Value>> {
    let mut cotangents: Vec<Option<Value>> = vec![None; graph.values()];
    for (o, d) in graph.outputs().iter().zip(d) {
        accumulate(b, &mut cotangents[o.index()], *d);
    }
    for (i, node) in graph.nodes().iter().enumerate().rev() {
        let d: Vec<Option<Value>> = node.outs.iter().map(|o| cotangents[o.index()]).collect();
        let wanted: Vec<bool> = node.args.iter().map(|a| forward.active[a.index()]).collect();
        if d.iter().all(Option::is_none) || !wanted.contains(&true) {
            continue;
        }
        let args: Vec<Value> = node.args.iter().map(|a| forward.names[a.index()]).collect();
        let outs: Vec<Value> = node.outs.iter().map(|o| forward.names[o.index()]).collect();
        let at = Applied {
            args: &args,
            outs: &outs,
            wanted: &wanted,
            tape: forward.tapes.get(&i).copied(),
        };
        b.at(&node.site);
        let given = node.op.primitive().vjp(b, &at, &d);
        for ((arg, given), wanted) in node.args.iter().zip(given).zip(&wanted) {
            if *wanted {
                accumulate(b, &mut cotangents[arg.index()], given);
            }
        }
    }
    cotangents
}

fn accumulate(b: &mut Builder, slot: &mut Option<Value>, more: Option<Value>) {
    *slot = match (*slot, more) {
        (Some(sum), Some(more)) => Some(b.sum_of(sum, more)),
        (sum, more) => sum.or(more),
    };
}

/// The backward half alone: a graph whose parameters are *all values* of `graph`, in order, and whose outputs are the
/// gradients of its first output.
pub(crate) fn backward_of(graph: &Graph, wrt: &[usize]) -> Result<Graph> {
    match graph.outputs().first() {
        Some(&out) if graph.ty(out).is_scalar() => {}
        _ => {
            return Err(transform(
                "grad",
                "only a scalar has a gradient (take a sum or mean)",
            ));
        }
    }
    let mut b = Builder::new();
    let names: Vec<Value> = (0..graph.values())
        .map(|i| b.param(graph.ty(Value(i as u32)).clone(), ""))
        .collect();
    let mut active = vec![false; graph.values()];
    wrt.iter().for_each(|&i| active[graph.params()[i].index()] = true);
    for node in graph.nodes() {
        let on = node.args.iter().any(|a| active[a.index()]);
        node.outs.iter().for_each(|o| active[o.index()] = on);
    }
    let forward = Forward {
        names,
        active,
        tapes: HashMap::new(),
    };
    let one = b.one(
        Full {
            shape: Shape::scalar(),
            value: 1.0,
        },
        &[],
    );
    let cotangents = reverse(&mut b, graph, &forward, &[Some(one)]);
    let mut outs = vec![];
    for &i in wrt {
        let p = graph.params()[i];
        outs.push(cotangents[p.index()].unwrap_or_else(|| b.zero_like(forward.names[p.index()])));
    }
    dead_code(&b.finish(&outs)?)
}
