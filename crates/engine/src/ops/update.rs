//! One optimiser step on one parameter. The rules are PyTorch's definitions.

use serde::{Deserialize, Serialize};

use super::{Applied, Axes, Cost, Primitive, Reshape, Slice, Unary, tensor, traffic};
use crate::grad;
use crate::graph::{Builder, Graph, Value};
use crate::types::Type;
use crate::vmap;

/// An optimiser's rule with its fixed constants; the learning rate comes with every step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Plain gradient descent.
    Sgd {
        /// L2 penalty.
        weight_decay: f32,
    },
    /// Gradient descent with momentum.
    Momentum {
        /// Decay of the velocity.
        momentum: f32,
        /// Look ahead.
        nesterov: bool,
        /// L2 penalty.
        weight_decay: f32,
    },
    /// RMSprop.
    RmsProp {
        /// Decay of the mean square.
        alpha: f32,
        /// Added to the root.
        eps: f32,
    },
    /// Adam, or AdamW when decoupled.
    Adam {
        /// Decay of the first moment.
        beta1: f32,
        /// Decay of the second moment.
        beta2: f32,
        /// Added to the root.
        eps: f32,
        /// Penalty, on the gradient (Adam) or on the parameter (AdamW).
        weight_decay: f32,
        /// AdamW.
        decoupled: bool,
    },
    /// Adagrad.
    Adagrad {
        /// Added to the root.
        eps: f32,
    },
}

impl Rule {
    /// How many tensors like the parameter the rule remembers.
    pub fn states(&self) -> usize {
        match self {
            Rule::Sgd { .. } => 0,
            Rule::Momentum { .. } | Rule::RmsProp { .. } | Rule::Adagrad { .. } => 1,
            Rule::Adam { .. } => 2,
        }
    }

    /// The step's numbers: learning rate; then Adam's bias corrections after `step` steps (the first step is 1), or
    /// RMSprop's [`Rule::unit`] and the share of the old state that is kept in the new unit.
    pub fn hyper(&self, rate: f32, step: u64) -> [f32; 3] {
        match *self {
            Rule::Adam { beta1, beta2, .. } => {
                let correction = |beta: f32| (1.0 - f64::from(beta).powf(step as f64)) as f32;
                [rate, correction(beta1), correction(beta2)]
            }
            Rule::RmsProp { alpha, .. } => {
                let (period, unit) = (period(alpha), self.unit(step));
                let first = step.is_multiple_of(period);
                let keep = if first {
                    f64::from(alpha).powf(period as f64)
                } else {
                    1.0
                };
                [rate, unit, keep as f32]
            }
            _ => [rate, 1.0, 1.0],
        }
    }

    /// What the states count in after `step` steps. For RMSprop it shrinks by `alpha` from step to step, so that what is
    /// kept of a mean stays the same number, and now and then starts again from one.
    pub fn unit(&self, step: u64) -> f32 {
        match *self {
            Rule::RmsProp { alpha, .. } => f64::from(alpha).powf((step % period(alpha)) as f64) as f32,
            _ => 1.0,
        }
    }

    /// The step in ordinary ops: the meaning of [`Update`], for the interpreter and for gradients through training.
    fn emit(&self, b: &mut Builder, p: Value, g: Value, hyper: Value, states: &[Value]) -> Vec<Value> {
        let shape = b.shape(p);
        let number = |b: &mut Builder, i: usize| {
            let one = b.one(
                Slice {
                    start: vec![i],
                    stop: vec![i + 1],
                    step: vec![1],
                },
                &[hyper],
            );
            let scalar = b.one(Reshape { shape: [].into() }, &[one]);
            b.broadcast_to(scalar, &shape)
        };
        let rate = number(b, 0);
        let descend = |b: &mut Builder, p: Value, rate: Value, direction: Value| {
            let step = b.mul(rate, direction);
            b.sub(p, step)
        };
        let decayed = |b: &mut Builder, g: Value, weight_decay: f32| match weight_decay {
            0.0 => g,
            _ => {
                let penalty = b.scale(p, weight_decay);
                b.add(g, penalty)
            }
        };
        // beta * old + (1 - beta) * new
        let blend = |b: &mut Builder, beta: f32, old: Value, new: Value| {
            let (old, new) = (b.scale(old, beta), b.scale(new, 1.0 - beta));
            b.add(old, new)
        };
        let over_root = |b: &mut Builder, g: Value, v: Value, eps: f32| {
            let root = b.one(Unary::Sqrt, &[v]);
            let eps = b.full_like(eps, root);
            let below = b.add(root, eps);
            b.div(g, below)
        };
        match *self {
            Rule::Sgd { weight_decay } => {
                let g = decayed(b, g, weight_decay);
                vec![descend(b, p, rate, g)]
            }
            Rule::Momentum {
                momentum,
                nesterov,
                weight_decay,
            } => {
                let g = decayed(b, g, weight_decay);
                let kept = b.scale(states[0], momentum);
                let velocity = b.add(kept, g);
                let direction = match nesterov {
                    false => velocity,
                    true => {
                        let ahead = b.scale(velocity, momentum);
                        b.add(g, ahead)
                    }
                };
                vec![descend(b, p, rate, direction), velocity]
            }
            Rule::RmsProp { alpha, eps } => {
                let (unit, keep) = (number(b, 1), number(b, 2));
                let kept = b.mul(states[0], keep);
                let square = b.mul(g, g);
                let share = b.scale(square, 1.0 - alpha);
                let added = b.div(share, unit);
                let state = b.add(kept, added);
                let v = b.mul(state, unit);
                let direction = over_root(b, g, v, eps);
                vec![descend(b, p, rate, direction), state]
            }
            Rule::Adagrad { eps } => {
                let square = b.mul(g, g);
                let v = b.add(states[0], square);
                let direction = over_root(b, g, v, eps);
                vec![descend(b, p, rate, direction), v]
            }
            Rule::Adam {
                beta1,
                beta2,
                eps,
                weight_decay,
                decoupled,
            } => {
                let (c1, c2) = (number(b, 1), number(b, 2));
                let (mut start, mut g) = (p, g);
                if decoupled {
                    let penalty = b.scale(rate, weight_decay);
                    let shrink = b.mul(p, penalty);
                    start = b.sub(p, shrink);
                } else {
                    g = decayed(b, g, weight_decay);
                }
                let m = blend(b, beta1, states[0], g);
                let square = b.mul(g, g);
                let v = blend(b, beta2, states[1], square);
                let unbiased = b.div(v, c2);
                let direction = over_root(b, m, unbiased, eps);
                let rate = b.div(rate, c1);
                vec![descend(b, start, rate, direction), m, v]
            }
        }
    }
}

/// Steps after which a unit that shrinks by `alpha` starts again: while it is above a millionth.
fn period(alpha: f32) -> u64 {
    1 + (1e-6f64.ln() / f64::from(alpha).ln()).max(0.0) as u64
}

/// `(parameter, gradient, hyper[3], states...) -> (parameter, states...)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// The rule.
    pub rule: Rule,
}

impl Update {
    /// The step as a graph of ordinary ops.
    pub fn meaning(&self, parameter: &Type) -> Graph {
        let mut b = Builder::new();
        let p = b.param(parameter.clone(), "parameter");
        let g = b.param(parameter.clone(), "gradient");
        let hyper = b.param(Type::tensor([3]), "hyper");
        let states: Vec<Value> = (0..self.rule.states())
            .map(|_| b.param(parameter.clone(), "state"))
            .collect();
        let outs = self.rule.emit(&mut b, p, g, hyper, &states);
        b.finish(&outs).unwrap_or_default()
    }
}

impl Primitive for Update {
    fn name(&self) -> String {
        match self.rule {
            Rule::Sgd { .. } => "update.sgd",
            Rule::Momentum { .. } => "update.momentum",
            Rule::RmsProp { .. } => "update.rmsprop",
            Rule::Adam { decoupled: false, .. } => "update.adam",
            Rule::Adam { decoupled: true, .. } => "update.adamw",
            Rule::Adagrad { .. } => "update.adagrad",
        }
        .into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        let states = self.rule.states();
        if args.len() != 3 + states {
            return Err(format!(
                "it takes parameter, gradient, 3 numbers and {states} states"
            ));
        }
        let p = tensor(args, 0)?;
        for i in (0..args.len()).filter(|&i| i != 2) {
            let other = tensor(args, i)?;
            if other != p {
                return Err(format!("the parameter is {p} but argument {} is {other}", i + 1));
            }
        }
        if tensor(args, 2)?.dims() != [3] {
            return Err("the third argument is not 3 numbers".into());
        }
        Ok(vec![args[0].clone(); 1 + states])
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        let meaning = self.meaning(&b.ty(at.args[0]).clone());
        grad::inline_pullback(b, &meaning, at.args, d, at.wanted)
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let parameter = match (b.ty(args[0]), batched[0]) {
            (Type::Tensor(s), true) => Type::tensor(&s.dims()[1..]),
            (ty, _) => ty.clone(),
        };
        vmap::inline_batched(b, &self.meaning(&parameter), args, batched, n)
    }

    fn axes(&self, args: &[Type], outs: &[Type]) -> Axes {
        let mut axes = Axes::pointwise(args, outs);
        axes.args[2] = vec![super::Axis::Whole];
        axes
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        let per_element = match self.rule {
            Rule::Sgd { .. } => 2,
            Rule::Momentum { .. } => 4,
            Rule::RmsProp { .. } | Rule::Adagrad { .. } => 8,
            Rule::Adam { .. } => 13,
        };
        Cost {
            flops: args[0].slots() as u64 * per_element,
            bytes: traffic(args, outs),
        }
    }

    fn outputs_after_error(&self) -> usize {
        1 + self.rule.states()
    }
}
