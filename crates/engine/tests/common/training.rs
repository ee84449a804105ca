//! Training steps of small networks, as the nn crate builds them.

use synod_engine::ops::{Reduce, Reduction, Rule, Unary, Update};
use synod_engine::{Builder, Graph, Type, Value, value_and_grad};

use super::{Rng, repeat_rows};

/// A step of training, `(parameters..., x, target, hyper, states...) -> (loss, parameters..., states...)`.
pub struct Step {
    pub graph: Graph,
    pub args: Vec<Vec<f64>>,
    /// Each new parameter and state goes where the old one was.
    pub donate: Vec<(usize, usize)>,
}

/// The mean squared error of an MLP, with respect to `weight, bias, ..., x, target`.
pub fn loss(widths: &[usize], rows: usize, activation: Unary) -> Graph {
    let mut b = Builder::new();
    let mut layers = vec![];
    for pair in widths.windows(2) {
        let w = b.param(Type::tensor([pair[0], pair[1]]), "weight");
        layers.push((w, b.param(Type::tensor([pair[1]]), "bias")));
    }
    let x = b.param(Type::tensor([rows, widths[0]]), "x");
    let target = b.param(Type::tensor([rows, widths[widths.len() - 1]]), "target");
    let mut y = x;
    for (i, &(w, bias)) in layers.iter().enumerate() {
        y = b.one(synod_engine::ops::Dot::default(), &[y, w]);
        let bias = repeat_rows(&mut b, bias, rows);
        y = b.add(y, bias);
        if i + 1 < layers.len() {
            y = b.one(activation, &[y]);
        }
    }
    let error = b.sub(y, target);
    let square = b.mul(error, error);
    let loss = b.one(
        Reduce {
            kind: Reduction::Mean,
            axes: vec![0, 1],
        },
        &[square],
    );
    b.finish(&[loss]).expect("a sound loss")
}

pub fn step(widths: &[usize], rows: usize, activation: Unary, rule: Rule, rng: &mut Rng) -> Step {
    let loss = loss(widths, rows, activation);
    let count = 2 * (widths.len() - 1);
    let trainable: Vec<usize> = (0..count).collect();
    let both = value_and_grad(&loss, &trainable).expect("a differentiable loss");
    let mut b = Builder::new();
    let types = loss.param_types();
    let params: Vec<Value> = (0..types.len())
        .map(|i| b.param(types[i].clone(), loss.param_name(i)))
        .collect();
    let hyper = b.param(Type::tensor([3]), "hyper");
    let states: Vec<Vec<Value>> = trainable
        .iter()
        .map(|&i| {
            (0..rule.states())
                .map(|_| b.param(types[i].clone(), "state"))
                .collect()
        })
        .collect();
    let outs = b.inline(&both, &params);
    let mut results = vec![outs[0]];
    let mut stepped = vec![];
    for i in 0..count {
        let args = [&[params[i], outs[1 + i], hyper], &states[i][..]].concat();
        let new = b.apply(Update { rule }, &args);
        results.push(new[0]);
        stepped.extend_from_slice(&new[1..]);
    }
    results.extend(stepped);
    let graph = b.finish(&results).expect("a sound training step");
    let first_state = types.len() + 1;
    let total = rule.states() * count;
    let donate = (0..count)
        .map(|i| (1 + i, i))
        .chain((0..total).map(|i| (1 + count + i, first_state + i)))
        .collect();
    let mut args = vec![];
    for (i, ty) in graph.param_types().iter().enumerate() {
        let n = ty.slots();
        args.push(match i {
            _ if i == types.len() => rule.hyper(0.05, 2).map(f64::from).to_vec(),
            _ if i > types.len() => (0..n).map(|_| rng.between(0.1, 1.0)).collect(),
            _ => rng.numbers(n),
        });
    }
    Step { graph, args, donate }
}
