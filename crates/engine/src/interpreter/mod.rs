//! The oracle: a slow, obvious evaluator of graphs, in `f32` or `f64`. Every fast path is tested against it.

pub(crate) mod images;
mod moves;
mod real;

use std::rc::Rc;

use crate::error::{Error, Result};
use crate::graph::{Graph, Node};
use crate::ops::{Distribution, Op, Reduction, uniform_bits};
use crate::types::{Shape, Type};
use moves::Indices;
pub use real::Real;

/// A value while interpreting: its type is known from the graph.
#[derive(Clone, Debug)]
enum Datum<T> {
    Tensor(Rc<[T]>),
    Stack(Option<Rc<Frame<T>>>),
}

#[derive(Debug)]
struct Frame<T> {
    below: Option<Rc<Frame<T>>>,
    values: Vec<Datum<T>>,
}

/// A long tape is taken apart in a loop: one frame dropping the next would overflow the call stack.
impl<T> Drop for Frame<T> {
    fn drop(&mut self) {
        let mut next = self.below.take();
        while let Some(mut frame) = next.and_then(Rc::into_inner) {
            next = frame.below.take();
        }
    }
}

/// Evaluates a graph whose parameters and outputs are tensors.
pub fn interpret<T: Real>(graph: &Graph, args: &[Vec<T>]) -> Result<Vec<Vec<T>>> {
    let given: Vec<&[T]> = args.iter().map(Vec::as_slice).collect();
    interpret_slices(graph, &given)
}

/// [`interpret`] on borrowed arguments.
pub(crate) fn interpret_slices<T: Real>(graph: &Graph, args: &[&[T]]) -> Result<Vec<Vec<T>>> {
    check_call(graph, args.iter().map(|a| a.len()))?;
    let args = args.iter().map(|&a| Datum::Tensor(Rc::from(a))).collect();
    let outs = run(graph, args)?;
    let tensor = |d: Datum<T>| match d {
        Datum::Tensor(data) => Ok(data.to_vec()),
        Datum::Stack(_) => Err(Error::Call("an output is a loop's tape".into())),
    };
    outs.into_iter().map(tensor).collect()
}

/// Checks the number and sizes of arguments.
pub(crate) fn check_call(graph: &Graph, sizes: impl ExactSizeIterator<Item = usize>) -> Result<()> {
    let params = graph.params();
    if sizes.len() != params.len() {
        return Err(Error::Call(format!(
            "{} arguments for {} parameters",
            sizes.len(),
            params.len()
        )));
    }
    for (i, (size, &p)) in sizes.zip(params).enumerate() {
        let ty = graph.ty(p);
        if ty.shape().map(|s| s.elements()) != Some(size) {
            let name = graph.param_name(i);
            return Err(Error::Call(format!(
                "parameter {i} `{name}` is {ty} and was given {size} numbers"
            )));
        }
    }
    Ok(())
}

fn run<T: Real>(graph: &Graph, args: Vec<Datum<T>>) -> Result<Vec<Datum<T>>> {
    let mut values: Vec<Option<Datum<T>>> = vec![None; graph.values()];
    for (p, a) in graph.params().iter().zip(args) {
        values[p.index()] = Some(a);
    }
    let missing = || Error::Internal("a value is read before it is defined".into());
    for node in graph.nodes() {
        let args: Option<Vec<Datum<T>>> = node.args.iter().map(|a| values[a.index()].clone()).collect();
        let outs = evaluate(graph, node, args.ok_or_else(missing)?)?;
        for (o, v) in node.outs.iter().zip(outs) {
            values[o.index()] = Some(v);
        }
    }
    graph
        .outputs()
        .iter()
        .map(|o| values[o.index()].clone().ok_or_else(missing))
        .collect()
}

fn evaluate<T: Real>(graph: &Graph, node: &Node, args: Vec<Datum<T>>) -> Result<Vec<Datum<T>>> {
    let shape = |i: usize| graph.shape(node.args[i]);
    let out = graph.shape(node.outs[0]);
    let x = |i: usize| -> &[T] {
        match &args[i] {
            Datum::Tensor(data) => data,
            Datum::Stack(_) => &[],
        }
    };
    let map = |f: &dyn Fn(usize) -> T| vec![Datum::Tensor((0..out.elements()).map(f).collect())];
    let tensor = |data: Vec<T>| Ok(vec![Datum::Tensor(data.into())]);
    Ok(match &node.op {
        Op::Unary(f) => map(&|i| T::unary(*f, x(0)[i])),
        Op::Binary(f) => map(&|i| T::binary(*f, x(0)[i], x(1)[i])),
        Op::Select(_) => map(&|i| if x(0)[i] != T::of(0.0) { x(1)[i] } else { x(2)[i] }),
        Op::Full(f) => map(&|_| T::of(f64::from(f.value))),
        Op::Const(c) => map(&|i| T::of(f64::from(c.data[i]))),
        Op::Reduce(r) => {
            let start = match r.kind {
                Reduction::Sum | Reduction::Mean => 0.0,
                Reduction::Max => f64::NEG_INFINITY,
                Reduction::Min => f64::INFINITY,
            };
            let mut data = vec![T::of(start); out.elements()];
            let kept = r.kept(shape(0).rank());
            for (i, index) in Indices::of(shape(0)).enumerate() {
                let at = moves::offset(out, kept.iter().map(|&a| index[a]));
                data[at] = match r.kind {
                    Reduction::Sum | Reduction::Mean => data[at] + x(0)[i],
                    Reduction::Max => data[at].max(x(0)[i]),
                    Reduction::Min => data[at].min(x(0)[i]),
                };
            }
            if r.kind == Reduction::Mean {
                let count = T::of(r.count(shape(0)).max(1) as f64);
                data.iter_mut().for_each(|v| *v = *v / count);
            }
            return tensor(data);
        }
        Op::Dot(dot) => {
            let e = dot.extents(shape(0), shape(1)).map_err(Error::Internal)?;
            let a = |s: usize, i: usize, l: usize| {
                x(0)[s * e.m * e.k + if dot.ta { l * e.m + i } else { i * e.k + l }]
            };
            let b = |s: usize, l: usize, j: usize| {
                x(1)[s * e.k * e.n + if dot.tb { j * e.k + l } else { l * e.n + j }]
            };
            map(&|at| {
                let (s, i, j) = (at / (e.m * e.n), at / e.n % e.m, at % e.n);
                (0..e.k).fold(T::of(0.0), |sum, l| sum + a(s, i, l) * b(s, l, j))
            })
        }
        Op::Conv(op) => {
            let extents = op.extents(shape(0), shape(1)).map_err(Error::Internal)?;
            let mut data = vec![T::of(0.0); out.elements()];
            images::conv(op, &extents, x(0), x(1), &mut data);
            return tensor(data);
        }
        Op::Pool(op) => {
            let shapes: Vec<&Shape> = (0..args.len()).map(shape).collect();
            let extents = op.extents(&shapes).map_err(Error::Internal)?;
            let given: Vec<&[T]> = (0..args.len()).map(x).collect();
            let mut data = vec![T::of(0.0); out.elements()];
            images::pool(op, extents, &given, &mut data);
            return tensor(data);
        }
        Op::Reshape(_) => vec![args[0].clone()],
        Op::Broadcast(_) | Op::Transpose(_) | Op::Slice(_) => tensor(
            moves::read(&node.op, shape(0), out)
                .into_iter()
                .map(|i| x(0)[i])
                .collect(),
        )?,
        Op::Pad(pad) => {
            let mut data = vec![T::of(0.0); out.elements()];
            for (i, at) in moves::padded(pad, shape(0), out).into_iter().enumerate() {
                data[at] = x(0)[i];
            }
            return tensor(data);
        }
        Op::Concat(c) => {
            let inner: usize = out.dims()[c.axis + 1..].iter().product();
            let outer: usize = out.dims()[..c.axis].iter().product();
            let mut data = Vec::with_capacity(out.elements());
            for o in 0..outer {
                for i in 0..args.len() {
                    let block = shape(i).dims()[c.axis] * inner;
                    data.extend_from_slice(&x(i)[o * block..(o + 1) * block]);
                }
            }
            return tensor(data);
        }
        Op::Gather(_) => {
            let (rows, width) = (shape(0).dims()[0], shape(0).dims()[1..].iter().product::<usize>());
            let mut data = Vec::with_capacity(out.elements());
            for index in x(1) {
                match moves::row(index.to_f64(), rows) {
                    Some(r) => data.extend_from_slice(&x(0)[r * width..(r + 1) * width]),
                    None => data.extend(std::iter::repeat_n(T::of(f64::NAN), width)),
                }
            }
            return tensor(data);
        }
        Op::Scatter(s) => {
            let width: usize = out.dims()[1..].iter().product();
            let mut data = vec![T::of(0.0); out.elements()];
            for (i, index) in x(0).iter().enumerate() {
                let Some(r) = moves::row(index.to_f64(), s.rows) else {
                    continue;
                };
                (0..width).for_each(|j| data[r * width + j] = data[r * width + j] + x(1)[i * width + j]);
            }
            return tensor(data);
        }
        Op::Random(r) => {
            let per_key = r.shape.elements();
            let key = |k: usize| std::array::from_fn(|j| x(0)[k * crate::ops::KEY + j].to_f64() as u32);
            map(&|i| {
                T::of(f64::from(random(
                    r.distribution,
                    key(i / per_key),
                    r.salt,
                    i % per_key,
                )))
            })
        }
        Op::If(op) => {
            let graph = if x(0)[0] != T::of(0.0) {
                &op.then
            } else {
                &op.otherwise
            };
            run(graph, args[1..].to_vec())?
        }
        Op::While(op) => {
            let k = op.carried();
            let mut all = args.clone();
            loop {
                let more = run(&op.cond, all.clone())?;
                if matches!(&more[0], Datum::Tensor(c) if c[0] == T::of(0.0)) {
                    break;
                }
                let next = run(&op.body, all.clone())?;
                all.splice(..k, next);
            }
            all.truncate(k);
            all
        }
        Op::Empty(_) => vec![Datum::Stack(None)],
        Op::Push(_) => match &args[0] {
            Datum::Stack(below) => {
                let frame = Frame {
                    below: below.clone(),
                    values: args[1..].to_vec(),
                };
                vec![Datum::Stack(Some(Rc::new(frame)))]
            }
            Datum::Tensor(_) => return Err(Error::Internal("push on a tensor".into())),
        },
        Op::Pop(_) => match &args[0] {
            Datum::Stack(Some(top)) => std::iter::once(Datum::Stack(top.below.clone()))
                .chain(top.values.iter().cloned())
                .collect(),
            _ => node.outs.iter().map(|&o| zero(graph.ty(o))).collect(),
        },
        Op::NotEmpty(_) => {
            let some = matches!(&args[0], Datum::Stack(Some(_)));
            map(&|_| T::of(f64::from(u8::from(some))))
        }
        Op::Merge(_) => vec![merge(&args[0], &args[1])],
        Op::Update(op) => run(&op.meaning(graph.ty(node.args[0])), args)?,
        Op::Lstm(op) => {
            let types: Vec<Type> = node.args.iter().map(|&a| graph.ty(a).clone()).collect();
            run(&op.meaning(&types), args)?
        }
        Op::BatchNorm(op) => {
            let types: Vec<Type> = node.args.iter().map(|&a| graph.ty(a).clone()).collect();
            run(&op.meaning(&types), args)?
        }
        Op::FakeQuant(op) => {
            let (_, scales, inner) = op.runs(shape(0));
            map(&|i| {
                let scale = x(1)[i / inner.max(1) % scales.max(1)];
                let level = (x(0)[i] / scale).to_f64();
                let level = level.clamp(f64::from(op.least), f64::from(op.most));
                T::of(level.round_ties_even()) * scale
            })
        }
        Op::Fused(op) => run(&op.body, args)?,
        Op::Custom(op) => {
            let given: Vec<Vec<f32>> = (0..args.len())
                .map(|i| x(i).iter().map(|v| v.to_f64() as f32).collect())
                .collect();
            let given: Vec<&[f32]> = given.iter().map(Vec::as_slice).collect();
            let mut outs: Vec<Vec<f32>> = node
                .outs
                .iter()
                .map(|&o| vec![0.0; graph.ty(o).slots()])
                .collect();
            let mut views: Vec<&mut [f32]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
            (op.evaluate)(&given, &mut views);
            let lift = |v: Vec<f32>| Datum::Tensor(v.into_iter().map(|x| T::of(f64::from(x))).collect());
            outs.into_iter().map(lift).collect()
        }
    })
}

fn zero<T: Real>(ty: &Type) -> Datum<T> {
    match ty {
        Type::Tensor(shape) => Datum::Tensor(vec![T::of(0.0); shape.elements()].into()),
        Type::Stack(_) => Datum::Stack(None),
    }
}

fn merge<T: Real>(a: &Datum<T>, b: &Datum<T>) -> Datum<T> {
    match (a, b) {
        (Datum::Tensor(x), Datum::Tensor(y)) => {
            Datum::Tensor(x.iter().zip(y.iter()).map(|(&x, &y)| x + y).collect())
        }
        (Datum::Stack(x), Datum::Stack(y)) => {
            let (mut x, mut y) = (x.clone(), y.clone());
            let mut pairs = vec![];
            while let (Some(a), Some(b)) = (x.clone(), y.clone()) {
                (x, y) = (a.below.clone(), b.below.clone());
                pairs.push((a, b));
            }
            // Below the end of the shorter stack the longer one goes on alone.
            let mut below = x.or(y);
            for (a, b) in pairs.into_iter().rev() {
                let values = a.values.iter().zip(&b.values).map(|(a, b)| merge(a, b)).collect();
                below = Some(Rc::new(Frame { below, values }));
            }
            Datum::Stack(below)
        }
        (other, _) => other.clone(),
    }
}

/// Element `index` of the random numbers under a key: one definition for every mode, and for all of Synod.
pub fn random(distribution: Distribution, key: [u32; crate::ops::KEY], salt: u32, index: usize) -> f32 {
    let unit = |bits: u64| (bits >> 40) as f32 / (1u64 << 24) as f32;
    match distribution {
        Distribution::Uniform => unit(uniform_bits(key, salt, index as u64)),
        Distribution::Normal => {
            let bits = uniform_bits(key, salt, index as u64);
            let radius = (-2.0 * f64::ln(((bits >> 32) as f64 + 1.0) / 4_294_967_296.0)).sqrt();
            let angle = std::f64::consts::TAU * ((bits & 0xffff_ffff) as f64 / 4_294_967_296.0);
            (radius * angle.cos()) as f32
        }
    }
}
pub(crate) use moves::{padded as padded_offsets, row as row_of};
