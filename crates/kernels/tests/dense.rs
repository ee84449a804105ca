//! The dense layer against plain loops, at every level.

mod common;

use common::{Random, assert_close, erf, levels, rounds, ways};
use synod_kernels::{Activation, Dense, Gate, Hyper, Rule, Simd, update};

fn shapes() -> Vec<Dense> {
    let mut random = Random::new(7);
    let mut shapes = vec![
        Dense {
            rows: 0,
            inputs: 5,
            outputs: 5,
        },
        Dense {
            rows: 3,
            inputs: 0,
            outputs: 9,
        },
        Dense {
            rows: 3,
            inputs: 9,
            outputs: 0,
        },
        Dense {
            rows: 10,
            inputs: 40,
            outputs: 20,
        },
        Dense {
            rows: 1,
            inputs: 33,
            outputs: 130,
        },
    ];
    if !cfg!(miri) {
        let large = [
            (10, 100, 460),
            (3, 4, 2100),
            (4, 200, 460),
            (2, 520, 70),
            (40, 9, 200),
            (130, 530, 60),
        ];
        // Where the way to the input gradient changes.
        let edges = [
            (5, 16, 128),
            (6, 16, 128),
            (16, 33, 128),
            (17, 33, 128),
            (16, 15, 127),
            (7, 17, 129),
            (10, 784, 200),
            (10, 1040, 30),
        ];
        for (rows, inputs, outputs) in large.into_iter().chain(edges) {
            shapes.push(Dense {
                rows,
                inputs,
                outputs,
            });
        }
    }
    for rows in 1..=rounds(35) {
        let wide = if cfg!(miri) { 12 } else { 90 };
        shapes.push(Dense {
            rows,
            inputs: 1 + random.below(wide),
            outputs: 1 + random.below(wide),
        });
        shapes.push(Dense {
            rows,
            inputs: 1 + random.below(9),
            outputs: 1 + random.below(9),
        });
    }
    if !cfg!(miri) {
        shapes.extend(every_tile());
    }
    shapes
}

/// What a rectifier would leave of some numbers: every third round nothing is cut off, then half, then nearly all.
fn rectified(round: usize, mut x: Vec<f32>) -> Vec<f32> {
    let floor = [f32::NEG_INFINITY, 0.0, 0.8][round % 3];
    for x in &mut x {
        *x = if *x > floor { *x } else { 0.0 };
    }
    x
}

/// Columns that are zero in every row: none in every third round, then a few, then most.
fn silenced(round: usize, columns: usize, mut x: Vec<f32>) -> Vec<f32> {
    let silent = |column: usize| match round % 3 {
        0 => false,
        1 => (column + round).is_multiple_of(5),
        _ => column * column % 7 != 1,
    };
    for (i, x) in x.iter_mut().enumerate() {
        if silent(i % columns) {
            *x = 0.0;
        }
    }
    x
}

/// Every height and width of tile that any level has, with its last vector full and partial.
fn every_tile() -> impl Iterator<Item = Dense> {
    let widths = (1..=8).flat_map(|vectors| [16 * vectors, 16 * vectors - 3]);
    let shape = |rows| {
        move |outputs| Dense {
            rows,
            inputs: 9,
            outputs,
        }
    };
    (1..=13).flat_map(move |rows| widths.clone().map(shape(rows)))
}

fn activate(act: Activation, x: f64) -> f64 {
    match act {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::LeakyRelu(slope) => {
            if x > 0.0 {
                x
            } else {
                slope as f64 * x
            }
        }
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
        Activation::Gelu => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
    }
}

#[test]
fn forward_is_the_activated_affine_map() {
    let activations = [
        Activation::Identity,
        Activation::Relu,
        Activation::LeakyRelu(0.1),
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Gelu,
    ];
    let mut random = Random::new(1);
    for (i, shape) in shapes().into_iter().enumerate() {
        let Dense {
            rows,
            inputs,
            outputs,
        } = shape;
        let x = silenced(i / 9, inputs, rectified(i / 3, random.numbers(rows * inputs)));
        let w = random.numbers(inputs * outputs);
        let bias = (i % 3 > 0).then(|| random.numbers(outputs));
        let act = activations[i % activations.len()];
        let mut wanted = vec![0.0; rows * outputs];
        for r in 0..rows {
            for c in 0..outputs {
                let sum: f64 = (0..inputs)
                    .map(|k| x[r * inputs + k] as f64 * w[k * outputs + c] as f64)
                    .sum();
                wanted[r * outputs + c] = activate(act, sum + bias.as_ref().map_or(0.0, |b| b[c] as f64));
            }
        }
        for simd in levels() {
            let mut y = vec![f32::NAN; rows * outputs];
            shape.forward(simd, &x, &w, bias.as_deref(), act, &mut y);
            assert_close(&y, &wanted, 1e-5, &format!("{shape:?} {act:?} {simd:?}"));
        }
    }
}

/// A single one is more than the floats that are handled together.
#[test]
fn a_sample_may_be_of_any_width() {
    if cfg!(miri) {
        return;
    }
    let mut random = Random::new(9);
    for (rows, inputs, outputs) in [(1, 1, 70_000), (8, 1, 70_000), (48, 66_000, 2), (61, 3, 66_000)] {
        let shape = Dense {
            rows,
            inputs,
            outputs,
        };
        let (x, w) = (random.numbers(rows * inputs), random.numbers(inputs * outputs));
        let sum = |row: usize, column: usize| -> f64 {
            let term = |k: usize| x[row * inputs + k] as f64 * w[k * outputs + column] as f64;
            (0..inputs).map(term).sum()
        };
        let wanted: Vec<f64> = (0..rows * outputs)
            .map(|i| sum(i / outputs, i % outputs))
            .collect();
        for simd in levels() {
            let mut y = vec![f32::NAN; rows * outputs];
            shape.forward(simd, &x, &w, None, Activation::Identity, &mut y);
            assert_close(&y, &wanted, 1e-2, &format!("{shape:?} {simd:?}"));
        }
    }
}

/// A sample on its own has no inputs that are silent in others as well.
#[test]
fn samples_have_the_same_bits_alone_and_with_others_that_share_their_silence() {
    let mut random = Random::new(6);
    for (i, shape) in shapes().into_iter().enumerate() {
        let Dense {
            rows,
            inputs,
            outputs,
        } = shape;
        let x = silenced(i, inputs, random.numbers(rows * inputs));
        let w = random.numbers(inputs * outputs);
        for simd in levels() {
            let mut together = vec![f32::NAN; rows * outputs];
            shape.forward(simd, &x, &w, None, Activation::Identity, &mut together);
            for row in 0..rows {
                let mut alone = vec![f32::NAN; outputs];
                let x = &x[row * inputs..(row + 1) * inputs];
                let one = Dense { rows: 1, ..shape };
                one.forward(simd, x, &w, None, Activation::Identity, &mut alone);
                let found = &together[row * outputs..(row + 1) * outputs];
                assert_eq!(found, alone, "{shape:?} at {}", simd.level());
            }
        }
    }
}

#[test]
fn padded_weights_give_the_same_bits() {
    let mut random = Random::new(5);
    for (i, shape) in shapes().into_iter().enumerate() {
        let Dense {
            rows,
            inputs,
            outputs,
        } = shape;
        let x = rectified(i, random.numbers(rows * inputs));
        let (w, bias) = (random.numbers(inputs * outputs), random.numbers(outputs));
        let mut padded = vec![f32::NAN; shape.padded_len()];
        shape.pad_weights(&w, &mut padded);
        for simd in levels() {
            let mut y = [vec![f32::NAN; rows * outputs], vec![f32::NAN; rows * outputs]];
            shape.forward(simd, &x, &w, Some(&bias), Activation::Relu, &mut y[0]);
            shape.forward_padded(simd, &x, &padded, Some(&bias), Activation::Relu, &mut y[1]);
            assert_eq!(y[0], y[1], "{shape:?} at {}", simd.level());
        }
    }
}

#[test]
fn the_input_gradient_is_the_gated_product_with_the_transpose() {
    let mut random = Random::new(2);
    for (i, shape) in shapes().into_iter().enumerate() {
        let Dense {
            rows,
            inputs,
            outputs,
        } = shape;
        let (dy, w) = (random.numbers(rows * outputs), random.numbers(inputs * outputs));
        let dy = silenced(i / 5, outputs, dy);
        let y = silenced(i / 15, inputs, random.numbers(rows * inputs));
        let gate = match i % 5 {
            0 => Gate::Open,
            1 => Gate::Relu(&y),
            2 => Gate::LeakyRelu(0.25, &y),
            3 => Gate::Sigmoid(&y),
            _ => Gate::Tanh(&y),
        };
        let mut wanted = vec![0.0; rows * inputs];
        for r in 0..rows {
            for k in 0..inputs {
                let d: f64 = (0..outputs)
                    .map(|c| dy[r * outputs + c] as f64 * w[k * outputs + c] as f64)
                    .sum();
                let y = y[r * inputs + k] as f64;
                wanted[r * inputs + k] = match gate {
                    Gate::Open => d,
                    Gate::Relu(_) => {
                        if y > 0.0 {
                            d
                        } else {
                            0.0
                        }
                    }
                    Gate::LeakyRelu(slope, _) => {
                        if y > 0.0 {
                            d
                        } else {
                            slope as f64 * d
                        }
                    }
                    Gate::Sigmoid(_) => d * y * (1.0 - y),
                    Gate::Tanh(_) => d * (1.0 - y * y),
                };
            }
        }
        for simd in levels() {
            let mut dx = vec![f32::NAN; rows * inputs];
            shape.input_gradient(simd, &dy, &w, gate, &mut dx);
            assert_close(&dx, &wanted, 1e-5, &format!("{shape:?} {simd:?}"));
        }
    }
}

fn rules() -> [Rule; 7] {
    [
        Rule::Sgd { weight_decay: 0.0 },
        Rule::Sgd { weight_decay: 0.01 },
        Rule::Momentum {
            momentum: 0.9,
            nesterov: false,
            weight_decay: 0.0,
        },
        Rule::Momentum {
            momentum: 0.9,
            nesterov: true,
            weight_decay: 0.01,
        },
        Rule::RmsProp {
            alpha: 0.9,
            eps: 1e-7,
        },
        Rule::Adam {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.01,
            decoupled: true,
        },
        Rule::Adagrad { eps: 1e-10 },
    ]
}

/// Every rule in every way for the first shapes, which are those at the edges of what kernels are chosen by; for the others
/// one rule each.
fn calls(shape: usize) -> Vec<(Rule, Hyper, Simd)> {
    let fading = Hyper {
        rate: 0.01,
        more: [0.1, 0.001],
    };
    let keeping = Hyper {
        more: [0.1, 1.0],
        ..fading
    };
    let mut steps: Vec<(Rule, Hyper)> = rules().map(|rule| (rule, fading)).to_vec();
    let means = rules()
        .into_iter()
        .filter(|rule| matches!(rule, Rule::RmsProp { .. }));
    steps.extend(means.map(|rule| (rule, keeping)));
    let chosen = if shape < 20 && !cfg!(miri) {
        &steps[..]
    } else {
        let one = shape % steps.len();
        &steps[one..=one]
    };
    let ways = ways();
    let every = |&(rule, hyper): &(Rule, Hyper)| {
        ways.iter()
            .map(move |&simd| (rule, hyper, simd))
            .collect::<Vec<_>>()
    };
    chosen.iter().flat_map(every).collect()
}

struct Layer {
    w: Vec<f32>,
    states: [Vec<f32>; 2],
}

impl Layer {
    fn random(rule: &Rule, len: usize, random: &mut Random) -> Layer {
        let state = |used: bool, random: &mut Random| {
            random
                .numbers(if used { len } else { 0 })
                .iter()
                .map(|x| x.abs())
                .collect()
        };
        let states = [state(rule.states() > 0, random), state(rule.states() > 1, random)];
        Layer {
            w: random.numbers(len),
            states,
        }
    }

    fn copy(&self) -> Layer {
        Layer {
            w: self.w.clone(),
            states: self.states.clone(),
        }
    }

    fn states(&mut self) -> [&mut [f32]; 2] {
        let [a, b] = &mut self.states;
        [a, b]
    }
}

fn widen(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| x as f64).collect()
}

#[test]
fn the_weight_update_is_the_weight_gradient_and_then_the_rule() {
    let mut random = Random::new(3);
    for (i, shape) in shapes().into_iter().enumerate() {
        let Dense {
            rows,
            inputs,
            outputs,
        } = shape;
        let (x, dy) = (random.numbers(rows * inputs), random.numbers(rows * outputs));
        let x = silenced(i, inputs, x);
        let mut gradient = vec![0.0f64; inputs * outputs];
        for r in 0..rows {
            for k in 0..inputs {
                for c in 0..outputs {
                    gradient[k * outputs + c] += x[r * inputs + k] as f64 * dy[r * outputs + c] as f64;
                }
            }
        }
        for (rule, hyper, simd) in calls(i) {
            let layer = Layer::random(&rule, inputs * outputs, &mut random);
            let what = format!("{shape:?} {rule:?} {hyper:?} {simd:?}");
            let mut dw = vec![f32::NAN; inputs * outputs];
            shape.weight_gradient(simd, &x, &dy, &mut dw);
            assert_close(&dw, &gradient, 1e-5, &what);
            let (mut fused, mut apart) = (layer.copy(), layer.copy());
            let Layer { w, states: [a, b] } = &mut fused;
            shape.weight_update(simd, &x, &dy, &rule, hyper, w, [a, b]);
            let Layer { w, states: [a, b] } = &mut apart;
            update(simd, &rule, hyper, &dw, w, [a, b]);
            assert_close(&fused.w, &widen(&apart.w), 1e-6, &what);
            for (fused, apart) in fused.states().into_iter().zip(apart.states()) {
                assert_close(fused, &widen(apart), 1e-6, &what);
            }
        }
    }
}

#[test]
fn backward_is_its_two_parts() {
    let mut random = Random::new(4);
    for (i, shape) in shapes().into_iter().enumerate() {
        let Dense {
            rows,
            inputs,
            outputs,
        } = shape;
        let x = silenced(i / 3, inputs, rectified(i, random.numbers(rows * inputs)));
        let dy = silenced(i / 9, outputs, random.numbers(rows * outputs));
        for (rule, hyper, simd) in calls(i) {
            let layer = Layer::random(&rule, inputs * outputs, &mut random);
            let what = format!("{shape:?} {rule:?} {hyper:?} {simd:?}");
            let gate = if i % 5 == 0 { Gate::Open } else { Gate::Relu(&x) };
            let (mut fused, mut apart) = (layer.copy(), layer.copy());
            let mut dx = [vec![f32::NAN; rows * inputs], vec![0.0; rows * inputs]];
            let Layer { w, states: [a, b] } = &mut fused;
            shape.backward(simd, &x, &dy, gate, &mut dx[0], &rule, hyper, w, [a, b]);
            let Layer { w, states: [a, b] } = &mut apart;
            shape.input_gradient(simd, &dy, w, gate, &mut dx[1]);
            shape.weight_update(simd, &x, &dy, &rule, hyper, w, [a, b]);
            assert_close(&dx[0], &widen(&dx[1]), 1e-5, &what);
            assert_close(&fused.w, &widen(&apart.w), 1e-5, &what);
            for (fused, apart) in fused.states().into_iter().zip(apart.states()) {
                assert_close(fused, &widen(apart), 1e-5, &what);
            }
        }
    }
}

#[test]
#[should_panic(expected = "w has 5 floats, not 6")]
fn a_wrong_length_names_the_operand() {
    let shape = Dense {
        rows: 1,
        inputs: 2,
        outputs: 3,
    };
    shape.forward(
        Simd::best(),
        &[0.0; 2],
        &[0.0; 5],
        None,
        Activation::Relu,
        &mut [0.0; 3],
    );
}
