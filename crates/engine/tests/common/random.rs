//! Random well-typed graphs over all ops, with values that stay of moderate size.

use std::sync::Arc;

use synod_engine::ops::{
    Binary, Broadcast, Concat, Conv, ConvRole, Distribution, Dot, Full, Gather, If, Op, Pad, Pool, PoolRole,
    Random, Reduce, Reshape, Scatter, Select, Slice, Slide, Transpose, Unary, While,
};
use synod_engine::{Builder, Graph, Shape, Type, Value};

use super::Rng;
use super::catalogue::{DOTS, KINDS};

/// A graph and arguments for it.
pub struct Sample {
    pub graph: Graph,
    pub args: Vec<Vec<f64>>,
}

/// A graph of about `size` ops with several outputs.
pub fn graph(rng: &mut Rng, size: usize) -> Sample {
    let mut g = Growing {
        b: Builder::new(),
        values: vec![],
        fresh: vec![],
        depth: 0,
    };
    let mut args = vec![];
    for i in 0..2 + rng.below(3) {
        let shape = random_shape(rng);
        args.push(rng.apart(shape.elements()));
        let value = g.b.param(Type::Tensor(shape), &format!("p{i}"));
        g.values.push(value);
        g.fresh.push(value);
    }
    (0..size).for_each(|_| g.grow(rng));
    let outputs: Vec<Value> = (0..1 + rng.below(3)).map(|_| *rng.pick(&g.values)).collect();
    let last = *g.values.last().expect("there are parameters");
    let graph =
        g.b.finish(&[&[last], &outputs[..]].concat())
            .expect("random graphs are well typed");
    Sample { graph, args }
}

fn random_shape(rng: &mut Rng) -> Shape {
    let extent = |rng: &mut Rng| *rng.pick(&[1, 2, 3, 3, 4, 5, 17]);
    let rank = *rng.pick(&[0, 1, 2, 2, 2, 3]);
    (0..rank).map(|_| extent(rng)).collect::<Vec<_>>().into()
}

struct Growing {
    b: Builder,
    values: Vec<Value>,
    /// Parameters, whose values are known to keep away from kinks and jumps.
    fresh: Vec<Value>,
    depth: usize,
}

impl Growing {
    fn any(&self, rng: &mut Rng) -> Value {
        // Newer values more often, so that graphs grow deep.
        let n = self.values.len();
        self.values[if rng.chance(60) {
            n - 1 - rng.below(n.min(4))
        } else {
            rng.below(n)
        }]
    }

    fn push(&mut self, op: impl Into<Op>, args: &[Value]) -> Value {
        let out = self.b.one(op, args);
        self.values.push(out);
        out
    }

    /// A value of the given shape: an existing one, or another one moved into it.
    fn shaped(&mut self, rng: &mut Rng, shape: &Shape) -> Value {
        let fitting: Vec<Value> = self
            .values
            .iter()
            .copied()
            .filter(|&v| self.b.shape(v) == *shape)
            .collect();
        if !fitting.is_empty() && rng.chance(80) {
            return *rng.pick(&fitting);
        }
        let kept: Vec<usize> = (0..shape.rank()).filter(|_| rng.chance(50)).collect();
        let from: Shape = kept.iter().map(|&a| shape.dims()[a]).collect::<Vec<_>>().into();
        let n = from.elements();
        let small = self
            .b
            .constant((0..n).map(|i| (i as f32 * 0.37).sin()).collect(), from);
        match kept.len() == shape.rank() {
            true => small,
            false => self.b.one(
                Broadcast {
                    axes: kept,
                    shape: shape.clone(),
                },
                &[small],
            ),
        }
    }

    /// A value in `0.6..1.6`, where logarithms, roots, powers and quotients are tame.
    fn tame(&mut self, x: Value) -> Value {
        let squashed = self.b.one(Unary::Sigmoid, &[x]);
        let shift = self.b.full_like(0.6, squashed);
        self.b.add(squashed, shift)
    }

    fn grow(&mut self, rng: &mut Rng) {
        let x = self.any(rng);
        let shape = self.b.shape(x);
        match rng.below(if self.depth < 2 { 21 } else { 19 }) {
            0..=3 => self.unary(rng, x),
            4..=7 => self.binary(rng, x, &shape),
            8 => {
                let (c, y) = (self.jump(rng, &shape), self.shaped(rng, &shape));
                self.push(Select, &[c, x, y]);
            }
            9 => {
                let axes = (0..shape.rank()).filter(|_| rng.chance(50)).collect();
                let kind = *rng.pick(&KINDS);
                let squashed = self.b.one(Unary::Tanh, &[x]);
                self.push(Reduce { kind, axes }, &[squashed]);
            }
            10 => {
                let at = rng.below(shape.rank() + 1);
                let axes = (0..=shape.rank()).filter(|&a| a != at).collect();
                let mut dims = shape.dims().to_vec();
                dims.insert(at, 1 + rng.below(4));
                if dims.iter().product::<usize>() <= 400 {
                    self.push(
                        Broadcast {
                            axes,
                            shape: dims.into(),
                        },
                        &[x],
                    );
                }
            }
            11 | 12 => self.product(rng, x, &shape),
            13 => {
                let mut order: Vec<usize> = (0..shape.rank()).collect();
                (1..order.len())
                    .rev()
                    .for_each(|i| order.swap(i, rng.below(i + 1)));
                let turned = self.push(Transpose { order }, &[x]);
                if rng.chance(30) {
                    self.push(
                        Reshape {
                            shape: [shape.elements()].into(),
                        },
                        &[turned],
                    );
                }
            }
            14 => self.slice(rng, x, &shape),
            15 => {
                let pick = |rng: &mut Rng| (0..shape.rank()).map(|_| rng.below(3)).collect::<Vec<_>>();
                if shape.elements() < 60 {
                    self.push(
                        Pad {
                            low: pick(rng),
                            high: pick(rng),
                            gap: pick(rng),
                        },
                        &[x],
                    );
                }
            }
            16 if shape.rank() > 0 => {
                let y = self.shaped(rng, &shape);
                self.push(
                    Concat {
                        axis: rng.below(shape.rank()),
                    },
                    &[x, y],
                );
            }
            17 => self.indexed(rng, x, &shape),
            18 => self.image(rng, x, &shape),
            19 => self.branch(rng),
            20 => self.repeat(rng, x),
            _ => {
                let key = self.b.constant(vec![1.0, 2.0, rng.below(9) as f32, 0.0], [4]);
                let random = Random {
                    distribution: Distribution::Normal,
                    shape,
                    salt: 3,
                };
                self.push(random, &[key]);
            }
        }
    }

    fn unary(&mut self, rng: &mut Rng, x: Value) {
        let f = *rng.pick(&Unary::ALL);
        let x = match f {
            Unary::Sign | Unary::Floor => *rng.pick(&self.fresh),
            Unary::Log | Unary::Sqrt | Unary::Recip => self.tame(x),
            Unary::Exp => self.b.one(Unary::Sin, &[x]),
            _ => x,
        };
        self.push(f, &[x]);
    }

    fn binary(&mut self, rng: &mut Rng, x: Value, shape: &Shape) {
        let f = *rng.pick(&Binary::ALL);
        let y = self.shaped(rng, shape);
        match f {
            Binary::Less | Binary::Equal => {
                let x = *rng.pick(&self.fresh);
                let shape = self.b.shape(x);
                let y = self.b.one(Full { shape, value: 0.05 }, &[]);
                self.push(f, &[x, y]);
            }
            Binary::Div => {
                let y = self.tame(y);
                self.push(f, &[x, y]);
            }
            Binary::Pow => {
                let (x, y) = (self.tame(x), self.b.one(Unary::Tanh, &[y]));
                self.push(f, &[x, y]);
            }
            Binary::Mul => {
                let y = self.b.one(Unary::Tanh, &[y]);
                self.push(f, &[x, y]);
            }
            _ => {
                self.push(f, &[x, y]);
            }
        }
    }

    /// Zeros and ones.
    fn jump(&mut self, rng: &mut Rng, shape: &Shape) -> Value {
        let n = shape.elements();
        let bits = (0..n).map(|_| f32::from(u8::from(rng.chance(50)))).collect();
        self.b.constant(bits, shape.clone())
    }

    fn product(&mut self, rng: &mut Rng, x: Value, shape: &Shape) {
        let dot: Dot = *rng.pick(&DOTS);
        let (lead, [p, q]) = match *shape.dims() {
            [p, q] => (vec![], [p, q]),
            [batch, p, q] => (vec![batch], [p, q]),
            _ => return self.unary(rng, x),
        };
        let (k, n) = (if dot.ta { p } else { q }, *rng.pick(&[1, 2, 3, 5, 17]));
        let right = if dot.tb { [n, k] } else { [k, n] };
        let y = self.shaped(rng, &[&lead[..], &right].concat().into());
        let (x, y) = (self.b.one(Unary::Sin, &[x]), self.b.one(Unary::Tanh, &[y]));
        let out = self.push(dot, &[x, y]);
        if lead.is_empty() && rng.chance(60) {
            let shape = self.b.shape(out);
            let row = self.shaped(rng, &[shape.dims()[1]].into());
            let bias = self.b.one(Broadcast { axes: vec![1], shape }, &[row]);
            let sum = self.push(Binary::Add, &[out, bias]);
            let activation = *rng.pick(&[Unary::Relu, Unary::Sigmoid, Unary::Tanh]);
            self.push(activation, &[sum]);
        }
    }

    /// A convolution and a pooling of a value seen as one image.
    fn image(&mut self, rng: &mut Rng, x: Value, shape: &Shape) {
        let dims = match *shape.dims() {
            [h, w] => [1, h, w, 1],
            [h, w, c] => [1, h, w, c],
            _ => return self.unary(rng, x),
        };
        if dims.contains(&0) || shape.elements() > 200 {
            return;
        }
        let squashed = self.b.one(Unary::Sin, &[x]);
        let image = self.b.reshape(squashed, dims);
        let kernel = [1 + rng.below(3), 1 + rng.below(3)];
        let slide = Slide {
            stride: [1 + rng.below(2), 1 + rng.below(2)],
            ..Slide::by(1)
        };
        let window = slide.same().over([dims[1], dims[2]], kernel);
        let outputs = 1 + rng.below(3);
        let weights = self.shaped(rng, &[kernel[0], kernel[1], dims[3], outputs].into());
        let (role, groups) = (ConvRole::Forward, 1);
        self.push(Conv { role, window, groups }, &[image, weights]);
        let role = *rng.pick(&[PoolRole::MaxPick, PoolRole::Sum]);
        let pooled = match role {
            // What is largest is decided by a literal: equals would make the choice a matter of rounding.
            PoolRole::MaxPick => {
                let apart = rng.apart(shape.elements()).iter().map(|&x| x as f32).collect();
                let chooser = self.b.constant(apart, dims);
                self.push(Pool { role, window }, &[chooser, image])
            }
            _ => self.push(Pool { role, window }, &[image]),
        };
        let n = self.b.shape(pooled).elements();
        self.push(Reshape { shape: [n].into() }, &[pooled]);
    }

    fn slice(&mut self, rng: &mut Rng, x: Value, shape: &Shape) {
        let (mut start, mut stop, mut step) = (vec![], vec![], vec![]);
        for &d in shape.dims() {
            let from = rng.below(d.max(1));
            start.push(from);
            stop.push(from + 1 + rng.below(d - from));
            step.push(1 + rng.below(3));
        }
        self.push(Slice { start, stop, step }, &[x]);
    }

    fn indexed(&mut self, rng: &mut Rng, x: Value, shape: &Shape) {
        // Sums of many numbers would lose the digits that the comparison is about.
        let Some(&rows) = shape.dims().first().filter(|&&rows| rows <= 20) else {
            return;
        };
        let mut whole = |n: usize, below: usize| (0..n).map(|_| rng.below(below) as f32).collect::<Vec<_>>();
        let (picked, placed) = (whole(3, rows), whole(rows, 4));
        let indices = self.b.constant(picked, [3]);
        self.push(Gather, &[x, indices]);
        let indices = self.b.constant(placed, [rows]);
        self.push(Scatter { rows: 4 }, &[indices, x]);
    }

    /// A body of a few random ops over fresh parameters of the given types, ending in values of those types.
    fn body(&self, rng: &mut Rng, types: &[Type], count: usize) -> Graph {
        let mut inner = Growing {
            b: Builder::new(),
            values: vec![],
            fresh: vec![],
            depth: self.depth + 1,
        };
        let params: Vec<Value> = types.iter().map(|t| inner.b.param(t.clone(), "")).collect();
        inner.values.clone_from(&params);
        // Inside a body nothing is known to keep away from jumps.
        let still = inner.b.constant(vec![0.3, -0.4], [2]);
        inner.fresh.push(still);
        (0..1 + rng.below(4)).for_each(|_| inner.grow(rng));
        let outs: Vec<Value> = (0..count)
            .map(|i| {
                let shape = inner.b.shape(params[i]);
                let made = inner.shaped(rng, &shape);
                let mixed = inner.b.add(made, params[i]);
                inner.b.one(Unary::Sin, &[mixed])
            })
            .collect();
        inner.b.finish(&outs).expect("random bodies are well typed")
    }

    fn branch(&mut self, rng: &mut Rng) {
        let operands: Vec<Value> = (0..1 + rng.below(3)).map(|_| self.any(rng)).collect();
        let types: Vec<Type> = operands.iter().map(|&v| self.b.ty(v).clone()).collect();
        let count = 1 + rng.below(types.len());
        let (then, otherwise) = (self.body(rng, &types, count), self.body(rng, &types, count));
        let condition = self.b.constant(vec![f32::from(u8::from(rng.chance(50)))], [1]);
        // A condition that is not a literal, so that no pass can decide it.
        let zero = self.b.scale(self.fresh[0], 0.0);
        let zero = super::sum_all(&mut self.b, zero);
        let condition = self.b.reshape(condition, []);
        let condition = self.b.add(condition, zero);
        let outs = self.b.apply(
            If {
                then: then.into(),
                otherwise: otherwise.into(),
            },
            &[&[condition], &operands[..]].concat(),
        );
        self.values.extend(outs);
    }

    /// A loop that counts to a limit it is given, with `x` as state and another value as capture.
    fn repeat(&mut self, rng: &mut Rng, x: Value) {
        let capture = self.any(rng);
        let types = [self.b.ty(x).clone(), self.b.ty(capture).clone()];
        let inner = self.body(rng, &types, 1);
        let all = [types[0].clone(), Type::scalar(), types[1].clone(), Type::scalar()];
        let mut cond = Builder::new();
        let p: Vec<Value> = all.iter().map(|t| cond.param(t.clone(), "")).collect();
        let more = cond.one(Binary::Less, &[p[1], p[3]]);
        let cond = cond.finish(&[more]).expect("a sound condition");
        let mut body = Builder::new();
        let p: Vec<Value> = all.iter().map(|t| body.param(t.clone(), "")).collect();
        let next = body.inline(&inner, &[p[0], p[2]])[0];
        let one = body.full_like(1.0, p[1]);
        let count = body.add(p[1], one);
        let body = body.finish(&[next, count]).expect("a sound body");
        let start = self.b.constant(vec![0.0], []);
        let limit = self.b.constant(vec![rng.below(4) as f32], []);
        let outs = self.b.apply(
            While {
                cond: Arc::new(cond),
                body: Arc::new(body),
            },
            &[x, start, capture, limit],
        );
        self.values.push(outs[0]);
    }
}
