//! LSTM and GRU, with the definitions that PyTorch exports.

use synod_engine::Tensor;
use synod_nn::layers::{gru, lstm};

use super::call::{Call, Item, Outcome};
use super::view::View;

/// The sequences `[batch, time, features]`, and which axes of ONNX's result they are.
fn sequences(call: &Call<'_>) -> Result<Tensor, String> {
    let view = call.view(0)?;
    if view.rank() != 3 {
        return Err(format!("{:?} is not a batch of sequences", view.dims()));
    }
    match call.int("layout", 0) {
        0 => Ok(view.arranged(&[1, 0, 2])),
        other => Err(format!("layout {other} is not supported; export with layout 0")),
    }
}

/// What Synod's units leave out must be at its default.
fn check(call: &Call<'_>, gates: &[&str]) -> Result<(), String> {
    let plain: Vec<String> = gates.iter().map(|g| (*g).to_owned()).collect();
    let activations = call.texts("activations");
    if !activations.chunks(gates.len()).all(|chunk| chunk == plain) {
        return Err(format!(
            "activations {activations:?} are not supported; {gates:?} are"
        ));
    }
    if call.has("clip") || call.int("input_forget", 0) != 0 {
        return Err("clip and input_forget are not supported".into());
    }
    if call.optional(4).is_some() {
        return Err("sequence_lens is not supported; sequences are as long as their axis".into());
    }
    if call.optional(7).is_some() {
        return Err("peepholes are not supported".into());
    }
    Ok(())
}

/// Which directions a node runs in: for each, whether it runs backwards.
fn directions(call: &Call<'_>) -> Result<Vec<bool>, String> {
    match call.text("direction").as_deref() {
        None | Some("forward" | "") => Ok(vec![false]),
        Some("reverse") => Ok(vec![true]),
        Some("bidirectional") => Ok(vec![false, true]),
        Some(other) => Err(format!("direction `{other}` is not known")),
    }
}

/// The part of a weight `[directions, ...]` that belongs to one direction.
fn part(weight: &Tensor, direction: usize, directions: usize) -> Result<Tensor, String> {
    match weight.shape().dims() {
        [1, rest @ ..] if directions == 1 => Ok(weight.reshape(rest)),
        [n, rest @ ..] if *n == directions => Ok(weight.slice(0, direction..direction + 1).reshape(rest)),
        other => Err(format!("weights {other:?} are not for {directions} directions")),
    }
}

/// The state to start with, `[batch, hidden]`: given as `[directions, batch, hidden]`, or zeros.
fn start(call: &Call<'_>, input: usize, d: usize, n: usize, shape: [usize; 2]) -> Result<Tensor, String> {
    if call.optional(input).is_none() {
        return Ok(Tensor::zeros(shape));
    }
    let given = part(&call.tensor(input)?, d, n)?;
    match given.shape().dims() {
        [_, hidden] if *hidden == shape[1] => Ok(given.broadcast_to(shape)),
        other => Err(format!("an initial state {other:?} does not fit {shape:?}")),
    }
}

/// The sequences with the times the other way round.
fn reversed(x: &Tensor) -> Tensor {
    let time = x.shape().dims()[1];
    let order: Vec<f32> = (0..time).rev().map(|t| t as f32).collect();
    let swapped = x.transpose(&[1, 0, 2]);
    swapped.gather(&Tensor::new(order, [time])).transpose(&[1, 0, 2])
}

/// All states `[batch, time, hidden]` and the last ones, of one direction.
type Run = (Tensor, Vec<Tensor>);

fn run(
    call: &Call<'_>,
    gates: usize,
    unit: impl Fn(&Tensor, usize, usize, [usize; 2]) -> Result<Run, String>,
) -> Outcome {
    let x = sequences(call)?;
    let ways = directions(call)?;
    let weight = call.formed(1)?;
    let (rows, &[batch, time, features]) = (weight.shape().dims(), x.shape().dims()) else {
        return Err("no sequences".into());
    };
    if rows.len() != 3 || rows[1] != features || time == 0 || time > 1 << 16 {
        return Err(format!("weights {rows:?} do not fit sequences {}", x.shape()));
    }
    let shape = [batch, rows[2] / gates];
    if call.int("hidden_size", shape[1] as i64) != shape[1] as i64 {
        return Err("hidden_size does not fit the weights".into());
    }
    let (mut all, mut lasts): (Vec<Tensor>, Vec<Vec<Tensor>>) = (vec![], vec![]);
    for (d, &backwards) in ways.iter().enumerate() {
        let input = if backwards { reversed(&x) } else { x.clone() };
        let (states, last) = unit(&input, d, ways.len(), shape)?;
        if let Some(error) = states.error() {
            return Err(error.to_string());
        }
        let states = if backwards { reversed(&states) } else { states };
        // ONNX's result is [time, directions, batch, hidden].
        all.push(states.reshape([batch, time, 1, shape[1]]));
        lasts.push(last);
    }
    let joined = if all.len() == 1 {
        all.swap_remove(0)
    } else {
        Tensor::concat(&all, 2)
    };
    let mut items = vec![Item::View(View::stored(joined, vec![1, 2, 0, 3]))];
    for state in 0..lasts[0].len() {
        let each: Vec<Tensor> = lasts
            .iter()
            .map(|l| l[state].reshape([1, batch, shape[1]]))
            .collect();
        items.push(Tensor::concat(&each, 0).into());
    }
    Ok(items)
}

/// A weight of the node for one direction; zeros for biases that are left out.
fn bias(call: &Call<'_>, d: usize, n: usize, dims: &[usize]) -> Result<Tensor, String> {
    match call.optional(3) {
        Some(_) => {
            let given = part(&call.formed(3)?, d, n)?;
            match given.shape().dims() == dims {
                true => Ok(given),
                false => Err(format!("biases {} are not {dims:?}", given.shape())),
            }
        }
        None => Ok(Tensor::zeros(dims)),
    }
}

pub(super) fn lstm_node(call: &Call<'_>) -> Outcome {
    check(call, &["Sigmoid", "Tanh", "Tanh"])?;
    run(call, 4, |x, d, n, shape| {
        let (w, r) = (part(&call.formed(1)?, d, n)?, part(&call.formed(2)?, d, n)?);
        let bias = bias(call, d, n, &[4 * shape[1]])?;
        let begin = (start(call, 5, d, n, shape)?, start(call, 6, d, n, shape)?);
        let (states, (h, c)) = lstm(x, [&w, &r, &bias], begin);
        Ok((states, vec![h, c]))
    })
}

pub(super) fn gru_node(call: &Call<'_>) -> Outcome {
    check(call, &["Sigmoid", "Tanh"])?;
    if call.int("linear_before_reset", 0) == 0 {
        return Err("a GRU with linear_before_reset 0 is not supported; PyTorch exports 1".into());
    }
    run(call, 3, |x, d, n, shape| {
        let (w, r) = (part(&call.formed(1)?, d, n)?, part(&call.formed(2)?, d, n)?);
        let width = 3 * shape[1];
        let both = bias(call, d, n, &[2, width])?;
        let of = |i: usize| both.slice(0, i..i + 1).reshape([width]);
        let (states, h) = gru(x, [&w, &r, &of(0), &of(1)], start(call, 5, d, n, shape)?);
        Ok((states, vec![h]))
    })
}
