//! A long short-term memory over a whole sequence, and its gradient: two ops whose meanings are graphs of ordinary ops.
//!
//! Gates stand in the order input, forget, cell, output. What the forward pass keeps (every cell and every gate) is a
//! result like any other, so that the gradient recomputes nothing and no tape is needed.

use serde::{Deserialize, Serialize};

use super::{Applied, Concat, Cost, Dot, Primitive, Slice, arity, tensor, traffic};
use crate::graph::{Builder, Graph, Value};
use crate::tensor::Tensor;
use crate::trace::trace;
use crate::types::{Shape, Type};
use crate::{grad, vmap};

/// Which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LstmRole {
    /// `(inputs [time, batch, 4 hidden], weights [hidden, 4 hidden], state [batch, hidden], cell [batch, hidden]) ->
    /// (states [time, batch, hidden], cells [time, batch, hidden], gates [time, batch, 4 hidden])`, where the inputs hold
    /// what the gates get from outside, and the gates are after their functions.
    Forward,
    /// `(gates, cells, weights, first cell, cotangents of the states, cotangents of the cells) ->
    /// (cotangents of the inputs, of the first state, of the first cell)`.
    Backward,
}

/// See [`LstmRole`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lstm {
    /// Forward or backward.
    pub role: LstmRole,
}

/// The sizes of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LstmExtents {
    /// Steps.
    pub time: usize,
    /// Sequences side by side.
    pub batch: usize,
    /// Numbers of a state.
    pub hidden: usize,
}

impl LstmExtents {
    fn states(self) -> Shape {
        [self.time, self.batch, self.hidden].into()
    }

    fn gates(self) -> Shape {
        [self.time, self.batch, 4 * self.hidden].into()
    }

    fn state(self) -> Shape {
        [self.batch, self.hidden].into()
    }
}

impl Lstm {
    /// The sizes, from the shape of the inputs or the gates, whichever comes first.
    pub fn extents(&self, first: &Shape) -> Result<LstmExtents, String> {
        match *first.dims() {
            [time, batch, gates] if time > 0 && gates.is_multiple_of(4) => Ok(LstmExtents {
                time,
                batch,
                hidden: gates / 4,
            }),
            _ => Err(format!(
                "the first argument is {first}, not [time, batch, 4 x hidden] with at least one time"
            )),
        }
    }

    /// The op in ordinary ops, time after time, on arguments of these types.
    pub fn meaning(&self, args: &[Type]) -> Graph {
        let extents = args.first().and_then(Type::shape).map(|s| self.extents(s));
        let Some(Ok(extents)) = extents else {
            return Graph::default();
        };
        let traced = trace(args, |args| match self.role {
            LstmRole::Forward => forward(extents, args),
            LstmRole::Backward => backward(extents, args),
        });
        traced.unwrap_or_default()
    }
}

/// The four parts of `[batch, 4 hidden]`.
fn parts(gates: &Tensor, hidden: usize) -> [Tensor; 4] {
    [0, 1, 2, 3].map(|i| gates.slice(1, i * hidden..(i + 1) * hidden))
}

/// What a sequence holds at one time, without the axis of time.
fn at(sequence: &Tensor, t: usize) -> Tensor {
    let dims = sequence.shape().dims();
    sequence.slice(0, t..t + 1).reshape(&dims[1..])
}

/// What was found at every time as a sequence.
fn sequence(found: &[Tensor]) -> Tensor {
    let lines: Vec<Tensor> = found
        .iter()
        .map(|x| x.reshape([&[1], x.shape().dims()].concat()))
        .collect();
    Tensor::concat(&lines, 0)
}

fn forward(e: LstmExtents, args: &[Tensor]) -> Vec<Tensor> {
    let [inputs, weights, mut h, mut c] = [0, 1, 2, 3].map(|i| args[i].clone());
    let (mut states, mut cells, mut gates) = (vec![], vec![], vec![]);
    for t in 0..e.time {
        let [i, f, g, o] = parts(&(h.dot(&weights) + at(&inputs, t)), e.hidden);
        let (i, f, g, o) = (i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid());
        c = &f * c + &i * &g;
        h = &o * c.tanh();
        states.push(h.clone());
        cells.push(c.clone());
        gates.push(Tensor::concat(&[i, f, g, o], 1));
    }
    [states, cells, gates].map(|found| sequence(&found)).to_vec()
}

fn backward(e: LstmExtents, args: &[Tensor]) -> Vec<Tensor> {
    let [gates, cells, weights, cell, d_states, d_cells] = [0, 1, 2, 3, 4, 5].map(|i| &args[i]);
    let transposed = weights.transpose(&[1, 0]);
    let mut d_inputs = vec![];
    let (mut dh, mut dc) = (Tensor::zeros(e.state()), Tensor::zeros(e.state()));
    for t in (0..e.time).rev() {
        let [i, f, g, o] = parts(&at(gates, t), e.hidden);
        let before = if t == 0 { cell.clone() } else { at(cells, t - 1) };
        let squashed = at(cells, t).tanh();
        dh = dh + at(d_states, t);
        dc = dc + at(d_cells, t) + &dh * &o * (1.0 - &squashed * &squashed);
        let d = [
            &dc * &g * &i * (1.0 - &i),
            &dc * before * &f * (1.0 - &f),
            &dc * &i * (1.0 - &g * &g),
            &dh * squashed * &o * (1.0 - &o),
        ];
        let d = Tensor::concat(&d, 1);
        dh = d.dot(&transposed);
        dc = dc * f;
        d_inputs.push(d);
    }
    d_inputs.reverse();
    vec![sequence(&d_inputs), dh, dc]
}

impl Primitive for Lstm {
    fn name(&self) -> String {
        match self.role {
            LstmRole::Forward => "lstm",
            LstmRole::Backward => "lstm.backward",
        }
        .into()
    }

    fn infer(&self, args: &[&Type]) -> Result<Vec<Type>, String> {
        let count = match self.role {
            LstmRole::Forward => 4,
            LstmRole::Backward => 6,
        };
        arity(args, count)?;
        let e = self.extents(tensor(args, 0)?)?;
        let weights: Shape = [e.hidden, 4 * e.hidden].into();
        let wanted = match self.role {
            LstmRole::Forward => vec![weights, e.state(), e.state()],
            LstmRole::Backward => vec![e.states(), weights, e.state(), e.states(), e.states()],
        };
        for (i, wanted) in wanted.into_iter().enumerate() {
            let found = tensor(args, i + 1)?;
            if *found != wanted {
                let first = tensor(args, 0)?;
                return Err(format!(
                    "argument {} is {found}, but must be {wanted} for {first}",
                    i + 2
                ));
            }
        }
        let given = match self.role {
            LstmRole::Forward => [e.states(), e.states(), e.gates()],
            LstmRole::Backward => [e.gates(), e.state(), e.state()],
        };
        Ok(given.map(Type::Tensor).to_vec())
    }

    fn vjp(&self, b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
        // Gates get cotangents only where gradients are differentiated again.
        if self.role == LstmRole::Forward && d[2].is_none() {
            return pulled_back(b, at, d);
        }
        let types: Vec<Type> = at.args.iter().map(|&a| b.ty(a).clone()).collect();
        grad::inline_pullback(b, &self.meaning(&types), at.args, d, at.wanted)
    }

    fn batch(
        &self,
        b: &mut Builder,
        args: &[Value],
        batched: &[bool],
        n: usize,
    ) -> Result<Vec<Value>, String> {
        let single = |(&a, &is): (&Value, &bool)| match (b.ty(a), is) {
            (Type::Tensor(s), true) => Type::tensor(&s.dims()[1..]),
            (ty, _) => ty.clone(),
        };
        let types: Vec<Type> = args.iter().zip(batched).map(single).collect();
        vmap::inline_batched(b, &self.meaning(&types), args, batched, n)
    }

    fn cost(&self, args: &[Type], outs: &[Type]) -> Cost {
        let elements = args[0].slots() as u64;
        let hidden = args[0].shape().and_then(|s| s.dims().last()).map_or(0, |g| g / 4) as u64;
        Cost {
            flops: elements * (2 * hidden + 6),
            bytes: traffic(args, outs),
        }
    }

    fn outputs_after_error(&self) -> usize {
        3
    }
}

/// The forward pass's pullback: one backward op, and one product for the weights.
fn pulled_back(b: &mut Builder, at: &Applied<'_>, d: &[Option<Value>]) -> Vec<Option<Value>> {
    let (&[_, weights, state, cell], &[states, cells, gates]) = (at.args, at.outs) else {
        return vec![None; at.args.len()];
    };
    if d.iter().all(Option::is_none) {
        return vec![None; 4];
    }
    let [d_states, d_cells] = [0, 1].map(|i| d[i].unwrap_or_else(|| b.zero_like(at.outs[i])));
    let role = LstmRole::Backward;
    let given = b.apply(Lstm { role }, &[gates, cells, weights, cell, d_states, d_cells]);
    let mut d_weights = None;
    if at.wanted[1] {
        let &[time, batch, hidden] = b.shape(states).dims() else {
            return vec![None; 4];
        };
        let rows = [time * batch, hidden];
        let earlier = b.one(
            Slice {
                start: vec![0; 3],
                stop: vec![time.saturating_sub(1), batch, hidden],
                step: vec![1; 3],
            },
            &[states],
        );
        let first = b.reshape(state, [1, batch, hidden]);
        let before = b.one(Concat { axis: 0 }, &[first, earlier]);
        let before = b.reshape(before, rows);
        let errors = b.reshape(given[0], [time * batch, 4 * hidden]);
        d_weights = Some(b.one(Dot { ta: true, tb: false }, &[before, errors]));
    }
    vec![Some(given[0]), d_weights, Some(given[1]), Some(given[2])]
}
