//! The sequence kernel against plain loops, and its gradient against differences of those loops.

mod common;

use common::{Random, assert_close, levels, rounds};
use synod_kernels::{Lstm, LstmCotangents, LstmInputs};

/// Inputs, weights, state, cell.
type Given = [Vec<f64>; 4];

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// States, cells and gates, number by number.
fn plain(shape: Lstm, [inputs, weights, state, cell]: &Given) -> [Vec<f64>; 3] {
    let Lstm { time, batch, hidden } = shape;
    let (mut h, mut c) = (state.clone(), cell.clone());
    let mut found = [vec![], vec![], vec![]];
    for t in 0..time {
        let earlier = h.clone();
        for row in 0..batch {
            let sum = |gate: usize, i: usize| {
                let column = gate * hidden + i;
                let from_state =
                    (0..hidden).map(|k| earlier[row * hidden + k] * weights[k * 4 * hidden + column]);
                inputs[(t * batch + row) * 4 * hidden + column] + from_state.sum::<f64>()
            };
            let gate = |gate: usize, i: usize| match gate {
                2 => sum(gate, i).tanh(),
                _ => sigmoid(sum(gate, i)),
            };
            found[2].extend(
                (0..4)
                    .flat_map(|g| (0..hidden).map(move |i| (g, i)))
                    .map(|(g, i)| gate(g, i)),
            );
            for i in 0..hidden {
                let at = row * hidden + i;
                c[at] = gate(1, i) * c[at] + gate(0, i) * gate(2, i);
                h[at] = gate(3, i) * c[at].tanh();
            }
        }
        found[0].extend(&h);
        found[1].extend(&c);
    }
    found
}

fn shapes(random: &mut Random) -> Vec<Lstm> {
    let mut shapes = vec![];
    for (time, batch, hidden) in [
        (0, 2, 3),
        (2, 0, 3),
        (2, 3, 0),
        (1, 1, 1),
        (3, 10, 40),
        (2, 13, 33),
    ] {
        shapes.push(Lstm { time, batch, hidden });
    }
    while shapes.len() < rounds(40) {
        let (time, batch, hidden) = (1 + random.below(4), 1 + random.below(27), 1 + random.below(36));
        shapes.push(Lstm { time, batch, hidden });
    }
    shapes
}

fn given(shape: Lstm, random: &mut Random) -> [Vec<f32>; 4] {
    let Lstm { time, batch, hidden } = shape;
    [
        4 * time * batch * hidden,
        4 * hidden * hidden,
        batch * hidden,
        batch * hidden,
    ]
    .map(|n| random.numbers(n))
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

#[test]
fn every_state_cell_and_gate_is_that_of_the_plain_loop() {
    let mut random = Random::new(7);
    for shape in shapes(&mut random) {
        let all = given(shape, &mut random);
        let wanted = plain(shape, &all.each_ref().map(|x| wide(x)));
        for simd in levels() {
            let found = forward(simd, shape, &all);
            for (found, wanted) in found.iter().zip(&wanted) {
                assert_close(found, wanted, 1e-5, &format!("{shape:?} at {}", simd.level()));
            }
        }
    }
}

fn forward(
    simd: synod_kernels::Simd,
    shape: Lstm,
    [inputs, weights, state, cell]: &[Vec<f32>; 4],
) -> [Vec<f32>; 3] {
    let Lstm { time, batch, hidden } = shape;
    let all = time * batch * hidden;
    let [mut states, mut cells, mut gates] = [all, all, 4 * all].map(|n| vec![f32::NAN; n]);
    let mut workspace = vec![f32::NAN; shape.forward_workspace()];
    let given = LstmInputs {
        inputs,
        weights,
        state,
        cell,
    };
    shape.forward(simd, given, &mut states, &mut cells, &mut gates, &mut workspace);
    [states, cells, gates]
}

/// `sum(states * d_states + cells * d_cells)` by the plain loop.
fn loss(shape: Lstm, given: &Given, d: &[Vec<f32>; 2]) -> f64 {
    let [states, cells, _] = plain(shape, given);
    let dot = |x: &[f64], d: &[f32]| x.iter().zip(d).map(|(x, &d)| x * f64::from(d)).sum::<f64>();
    dot(&states, &d[0]) + dot(&cells, &d[1])
}

#[test]
fn cotangents_are_the_differences_of_the_plain_loop() {
    let mut random = Random::new(8);
    for shape in shapes(&mut random).into_iter().take(rounds(20)) {
        let all = given(shape, &mut random);
        let n = shape.time * shape.batch * shape.hidden;
        let d = [random.numbers(n), random.numbers(n)];
        let wide_given = all.each_ref().map(|x| wide(x));
        let difference = |which: usize, i: usize| {
            let moved = |by: f64| {
                let mut given = wide_given.clone();
                given[which][i] += by;
                loss(shape, &given, &d)
            };
            (moved(1e-5) - moved(-1e-5)) / 2e-5
        };
        for simd in levels() {
            let found = backward(simd, shape, &all, &d);
            for (which, found) in [0, 2, 3].into_iter().zip(&found) {
                // Some of each: every difference costs two passes.
                let some: Vec<usize> = (0..found.len()).step_by(found.len() / 7 + 1).collect();
                let wanted: Vec<f64> = some.iter().map(|&i| difference(which, i)).collect();
                let found: Vec<f32> = some.iter().map(|&i| found[i]).collect();
                assert_close(
                    &found,
                    &wanted,
                    1e-4,
                    &format!("{shape:?}, {which} at {}", simd.level()),
                );
            }
        }
    }
}

fn backward(simd: synod_kernels::Simd, shape: Lstm, all: &[Vec<f32>; 4], d: &[Vec<f32>; 2]) -> [Vec<f32>; 3] {
    let [_, cells, gates] = forward(simd, shape, all);
    let Lstm { batch, hidden, .. } = shape;
    let [mut d_inputs, mut d_state, mut d_cell] =
        [gates.len(), batch * hidden, batch * hidden].map(|n| vec![f32::NAN; n]);
    let mut workspace = vec![f32::NAN; shape.backward_workspace()];
    let given = LstmCotangents {
        gates: &gates,
        cells: &cells,
        weights: &all[1],
        cell: &all[3],
        d_states: &d[0],
        d_cells: &d[1],
    };
    shape.backward(
        simd,
        given,
        &mut d_inputs,
        &mut d_state,
        &mut d_cell,
        &mut workspace,
    );
    [d_inputs, d_state, d_cell]
}
