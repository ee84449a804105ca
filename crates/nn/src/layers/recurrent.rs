//! Recurrent layers over sequences `[batch, time, features]`, which give every hidden state, `[batch, time, hidden]`.
//!
//! What depends on the input alone is computed for all times by one product. An LSTM is then one op; a GRU is a loop that
//! takes several times per pass: what a pass costs beside the steps themselves (a place in the sequence, a frame on the
//! tape) is shared.

use synod_engine::{Tensor, repeat};

use super::Layer;
use crate::init::Initializer;
use crate::parameters::{Param, Scope, Setup};

/// Steps per pass of the loop.
const STEPS: usize = 16;

/// A long short-term memory, with PyTorch's definitions and gate order (input, forget, cell, output) and one bias: the sum
/// of PyTorch's two, which only ever occur as a sum.
///
/// ```
/// use synod_nn::{Model, layers::Lstm};
/// let model = Model::build([20, 3], 1, |setup| Lstm::new(setup, 3, 16))?;
/// assert_eq!(model.layout().len(), 4 * 16 * (3 + 16 + 1));
/// assert_eq!(model.output_shape().dims(), [20, 16]);
/// # Ok::<(), synod_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lstm {
    from_input: Param,
    from_state: Param,
    bias: Param,
    hidden: usize,
}

impl Lstm {
    /// All parameters uniform within `1 / sqrt(hidden)`, as PyTorch's.
    pub fn new(setup: &mut Setup, features: usize, hidden: usize) -> Lstm {
        let init = within(hidden);
        Lstm {
            from_input: setup.param("from_input", [features, 4 * hidden], init),
            from_state: setup.param("from_state", [hidden, 4 * hidden], init),
            bias: setup.param("bias", [4 * hidden], init),
            hidden,
        }
    }
}

impl Layer for Lstm {
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor {
        let weights = [self.from_input, self.from_state, self.bias].map(|p| scope.get(p));
        let batch = x.shape().dims().first().copied().unwrap_or(0);
        let start = (
            Tensor::zeros([batch, self.hidden]),
            Tensor::zeros([batch, self.hidden]),
        );
        lstm(x, weights, start).0
    }
}

/// An LSTM over `[batch, time, features]` from the weights that [`Lstm`] holds (`from_input`, `from_state`, `bias`) and a
/// state (hidden, cell) to start with: every hidden state `[batch, time, hidden]`, and the state after the last time.
pub fn lstm(x: &Tensor, weights: [&Tensor; 3], start: (Tensor, Tensor)) -> (Tensor, (Tensor, Tensor)) {
    let [from_input, weight, bias] = weights;
    let inputs = projected(x, from_input, bias);
    let &[time, batch, _] = inputs.shape().dims() else {
        return (inputs, start);
    };
    let hidden = bias.shape().elements() / 4;
    if time == 0 {
        return (Tensor::zeros([batch, 0, hidden]), start);
    }
    let (states, cells) = inputs.lstm(weight, &start.0, &start.1);
    let last = |all: &Tensor| all.slice(0, time - 1..time).reshape([batch, hidden]);
    let after = (last(&states), last(&cells));
    (states.transpose(&[1, 0, 2]), after)
}

/// A gated recurrent unit, with PyTorch's definitions and gate order (reset, update, new) and both its biases.
#[derive(Clone, Copy, Debug)]
pub struct Gru {
    from_input: Param,
    from_state: Param,
    input_bias: Param,
    state_bias: Param,
    hidden: usize,
}

impl Gru {
    /// All parameters uniform within `1 / sqrt(hidden)`, as PyTorch's.
    pub fn new(setup: &mut Setup, features: usize, hidden: usize) -> Gru {
        let init = within(hidden);
        Gru {
            from_input: setup.param("from_input", [features, 3 * hidden], init),
            from_state: setup.param("from_state", [hidden, 3 * hidden], init),
            input_bias: setup.param("input_bias", [3 * hidden], init),
            state_bias: setup.param("state_bias", [3 * hidden], init),
            hidden,
        }
    }
}

impl Layer for Gru {
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor {
        let weights =
            [self.from_input, self.from_state, self.input_bias, self.state_bias].map(|p| scope.get(p));
        let batch = x.shape().dims().first().copied().unwrap_or(0);
        gru(x, weights, Tensor::zeros([batch, self.hidden])).0
    }
}

/// A GRU over `[batch, time, features]` from the weights that [`Gru`] holds (`from_input`, `from_state`, `input_bias`,
/// `state_bias`) and a state to start with: every state `[batch, time, hidden]`, and the one after the last time.
pub fn gru(x: &Tensor, weights: [&Tensor; 4], start: Tensor) -> (Tensor, Tensor) {
    let [from_input, weight, input_bias, bias] = weights;
    let n = bias.shape().elements() / 3;
    let inputs = projected(x, from_input, input_bias);
    // The second state is a stand-in: a unit has only one.
    let (all, (last, _)) = unrolled(&inputs, (start, Tensor::scalar(0.0)), |(h, none), input| {
        let state = h.dot(weight) + bias;
        let part = |x: &Tensor, i: usize| x.slice(1, i * n..(i + 1) * n);
        let reset = (part(&input, 0) + part(&state, 0)).sigmoid();
        let update = (part(&input, 1) + part(&state, 1)).sigmoid();
        let new = (part(&input, 2) + reset * part(&state, 2)).tanh();
        (&new + update * (h - &new), none)
    });
    (all, last)
}

/// The last element of a sequence: `[batch, time, features]` to `[batch, features]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastStep;

impl Layer for LastStep {
    fn forward(&self, _: &Scope, x: &Tensor) -> Tensor {
        match *x.shape().dims() {
            [batch, time, width] if time > 0 => x.slice(1, time - 1..time).reshape([batch, width]),
            _ => x.slice(1, 0..1),
        }
    }
}

fn within(hidden: usize) -> Initializer {
    Initializer::Uniform(1.0 / (hidden.max(1) as f32).sqrt())
}

/// `x · weight + bias` for all times at once, as `[time, batch, width]`.
fn projected(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
    let &[batch, time, features] = x.shape().dims() else {
        // The product reports what is wrong with anything but a batch of sequences.
        return x.dot(weight);
    };
    let width = bias.shape().elements();
    // Turned before the product, so that layers above one another turn nothing in between.
    let rows = x.transpose(&[1, 0, 2]).reshape([time * batch, features]);
    (rows.dot(weight) + bias).reshape([time, batch, width])
}

/// Runs `step` over the first axis of `inputs` and gives the first state after every step, `[batch, time, hidden]`, and
/// both after the last.
fn unrolled(
    inputs: &Tensor,
    start: (Tensor, Tensor),
    step: impl Fn((Tensor, Tensor), Tensor) -> (Tensor, Tensor),
) -> (Tensor, (Tensor, Tensor)) {
    let (&[time, batch, width], &[_, hidden]) = (inputs.shape().dims(), start.0.shape().dims()) else {
        return (inputs.clone(), start);
    };
    let some = |mut state: (Tensor, Tensor), part: &Tensor, count: usize| {
        let mut seen = vec![];
        for t in 0..count {
            let input = part.slice(0, t..t + 1).reshape([batch, width]);
            state = step(state, input);
            seen.push(state.0.reshape([1, batch, hidden]));
        }
        (Tensor::concat(&seen, 0), state)
    };
    let (passes, rest) = match time {
        0..=STEPS => (0, time),
        _ => (time / STEPS, time % STEPS),
    };
    if time == 0 {
        return (Tensor::zeros([batch, 0, hidden]), start);
    }
    let (mut all, mut state) = (vec![], start);
    if passes > 0 {
        let whole = passes * STEPS;
        let table = inputs.slice(0, 0..whole).reshape([passes, STEPS, batch, width]);
        let outs = Tensor::zeros([passes, STEPS, batch, hidden]);
        let (h, c, outs, _) = repeat(
            (state.0, state.1, outs, Tensor::scalar(0.0)),
            |(_, _, _, pass)| pass.less(passes as f32),
            |(h, c, outs, pass)| {
                let (seen, (h, c)) = some((h, c), &table.gather(&pass), STEPS);
                (h, c, outs + seen.scatter(&pass, passes), pass + 1.0)
            },
        );
        all.push(outs.reshape([whole, batch, hidden]));
        state = (h, c);
    }
    if rest > 0 {
        let last = inputs.slice(0, time - rest..time);
        let (seen, after) = some(state, &last, rest);
        all.push(seen);
        state = after;
    }
    (Tensor::concat(&all, 0).transpose(&[1, 0, 2]), state)
}
