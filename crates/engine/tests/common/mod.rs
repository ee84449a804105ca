//! What the engine's tests share.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

pub mod catalogue;
pub mod differences;
pub mod random;
pub mod training;

use synod_engine::ops::{Broadcast, Const, Op, Reduce, Reduction};
use synod_engine::{Builder, Graph, Shape, Value};

/// Reproducible random numbers (SplitMix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Uniform in `from..to`, exact in `f32`.
    pub fn between(&mut self, from: f64, to: f64) -> f64 {
        let unit = (self.bits() >> 11) as f64 / (1u64 << 53) as f64;
        f64::from((from + (to - from) * unit) as f32)
    }

    /// Numbers of both signs that keep away from 0, from ±1 and from each other, so that no kink is near.
    pub fn apart(&mut self, n: usize) -> Vec<f64> {
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|i| order.swap(i, self.below(i + 1)));
        let at = |i: usize| f64::from((0.2 + 0.6 * (i as f64 + 0.5) / n as f64) as f32);
        order
            .into_iter()
            .map(|i| if self.chance(50) { at(i) } else { -at(i) })
            .collect()
    }

    /// Directions of few bits, so that moving along them is exact.
    pub fn directions(&mut self, n: usize) -> Vec<f64> {
        (0..n)
            .map(|_| (1 + self.below(8)) as f64 / if self.chance(50) { 8.0 } else { -8.0 })
            .collect()
    }

    pub fn numbers(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.between(-1.0, 1.0)).collect()
    }
}

/// Runs a property on many seeds; the seed of a failure is part of its message.
#[track_caller]
pub fn for_seeds(count: u64, property: impl Fn(&mut Rng) -> Result<(), String>) {
    for seed in 0..count {
        if let Err(problem) = property(&mut Rng(seed)) {
            panic!("seed {seed}: {problem}");
        }
    }
}

pub fn to_f32(args: &[Vec<f64>]) -> Vec<Vec<f32>> {
    args.iter()
        .map(|a| a.iter().map(|&x| x as f32).collect())
        .collect()
}

pub fn to_f64(args: &[Vec<f32>]) -> Vec<Vec<f64>> {
    args.iter()
        .map(|a| a.iter().map(|&x| f64::from(x)).collect())
        .collect()
}

/// Checks `found` against `wanted` up to `tolerance` times the largest wanted magnitude (at least `floor`).
pub fn agree(what: &str, found: &[f64], wanted: &[f64], tolerance: f64, floor: f64) -> Result<(), String> {
    if found.len() != wanted.len() {
        return Err(format!(
            "{what}: {} numbers instead of {}",
            found.len(),
            wanted.len()
        ));
    }
    let scale = wanted
        .iter()
        .filter(|x| x.is_finite())
        .fold(floor, |m, x| m.max(x.abs()));
    for (i, (&f, &w)) in found.iter().zip(wanted).enumerate() {
        let same = f == w || (f.is_nan() && w.is_nan());
        let near = (f - w).abs() <= tolerance * scale;
        if !same && !near {
            return Err(format!(
                "{what}: element {i} is {f:e} instead of {w:e} (scale {scale:e})"
            ));
        }
    }
    Ok(())
}

pub fn agree_all(what: &str, found: &[Vec<f64>], wanted: &[Vec<f64>], tolerance: f64) -> Result<(), String> {
    if found.len() != wanted.len() {
        return Err(format!(
            "{what}: {} outputs instead of {}",
            found.len(),
            wanted.len()
        ));
    }
    let pairs = found.iter().zip(wanted).enumerate();
    pairs
        .into_iter()
        .try_for_each(|(i, (f, w))| agree(&format!("{what}, output {i}"), f, w, tolerance, 1.0))
}

/// A scalar loss over all outputs `y`: `Σ w (y + y²/2)` with fixed weights, so that every element of every output has
/// first and second derivatives of its own.
pub fn scalar_loss(graph: &Graph, rng: &mut Rng) -> Graph {
    let mut b = Builder::new();
    let params: Vec<Value> = graph.param_types().into_iter().map(|t| b.param(t, "")).collect();
    let mut loss = b.constant(vec![0.0], []);
    for out in b.inline(graph, &params) {
        let shape = b.shape(out);
        let weights = (0..shape.elements())
            .map(|_| rng.between(0.5, 1.5) as f32)
            .collect();
        let weights = b.constant(weights, shape.clone());
        let square = b.mul(out, out);
        let half = b.scale(square, 0.5);
        let both = b.add(out, half);
        let weighted = b.mul(weights, both);
        let sum = sum_all(&mut b, weighted);
        loss = b.add(loss, sum);
    }
    b.finish(&[loss]).expect("the loss of a sound graph")
}

pub fn sum_all(b: &mut Builder, x: Value) -> Value {
    let axes = (0..b.shape(x).rank()).collect();
    b.one(
        Reduce {
            kind: Reduction::Sum,
            axes,
        },
        &[x],
    )
}

/// `Σᵢ vᵢ · outputᵢ` over all outputs, the directions `v` being literals.
pub fn directional(graph: &Graph, directions: &[Vec<f64>]) -> Graph {
    let mut b = Builder::new();
    let params: Vec<Value> = graph.param_types().into_iter().map(|t| b.param(t, "")).collect();
    let mut total = b.constant(vec![0.0], []);
    for (out, v) in b.inline(graph, &params).into_iter().zip(directions) {
        let (shape, data) = (b.shape(out), v.iter().map(|&x| x as f32).collect::<Vec<_>>());
        let v = b.one(
            Const {
                shape,
                data: data.into(),
            },
            &[],
        );
        let scaled = b.mul(v, out);
        let sum = sum_all(&mut b, scaled);
        total = b.add(total, sum);
    }
    b.finish(&[total])
        .expect("a directional derivative of a sound graph")
}

/// Every op of a graph and of the graphs inside it.
pub fn ops_of(graph: &Graph) -> Vec<Op> {
    let mut ops = vec![];
    for node in graph.nodes() {
        ops.push(node.op.clone());
        node.op.graphs().into_iter().for_each(|g| ops.extend(ops_of(g)));
    }
    ops
}

/// A row repeated over `rows` rows.
pub fn repeat_rows(b: &mut Builder, row: Value, rows: usize) -> Value {
    let n = b.shape(row).elements();
    b.one(
        Broadcast {
            axes: vec![1],
            shape: Shape::from([rows, n]),
        },
        &[row],
    )
}
