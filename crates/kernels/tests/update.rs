//! Every optimiser against its definition in double precision.

mod common;

use common::{Random, rounds, ways};
use synod_kernels::{Hyper, Rule, bias_update, update};

/// One step by PyTorch's definition: the new parameter and states.
fn definition(rule: &Rule, hyper: Hyper, mut g: f64, mut p: f64, s: [f64; 2]) -> (f64, [f64; 2]) {
    let wide = |x: f32| x as f64;
    let rate = wide(hyper.rate);
    match *rule {
        Rule::Sgd { weight_decay } => (p - rate * (g + wide(weight_decay) * p), s),
        Rule::Momentum {
            momentum,
            nesterov,
            weight_decay,
        } => {
            g += wide(weight_decay) * p;
            let b = wide(momentum) * s[0] + g;
            (
                p - rate * if nesterov { g + wide(momentum) * b } else { b },
                [b, s[1]],
            )
        }
        Rule::RmsProp { alpha, eps } => {
            let [unit, keep] = hyper.more.map(wide);
            let state = keep * s[0] + wide(1.0 - alpha) / unit * g * g;
            (p - rate * g / ((unit * state).sqrt() + wide(eps)), [state, s[1]])
        }
        Rule::Adagrad { eps } => {
            let v = s[0] + g * g;
            (p - rate * g / (v.sqrt() + wide(eps)), [v, s[1]])
        }
        Rule::Adam {
            beta1,
            beta2,
            eps,
            weight_decay,
            decoupled,
        } => {
            if decoupled {
                p *= 1.0 - rate * wide(weight_decay);
            } else {
                g += wide(weight_decay) * p;
            }
            let m = wide(beta1) * s[0] + wide(1.0 - beta1) * g;
            let v = wide(beta2) * s[1] + wide(1.0 - beta2) * g * g;
            let [c1, c2] = hyper.more.map(wide);
            (p - rate / c1 * m / (v.sqrt() / c2.sqrt() + wide(eps)), [m, v])
        }
    }
}

fn rules() -> Vec<Rule> {
    let adam = |eps, decoupled| Rule::Adam {
        beta1: 0.9,
        beta2: 0.999,
        eps,
        weight_decay: 0.02,
        decoupled,
    };
    vec![
        Rule::Sgd { weight_decay: 0.1 },
        Rule::Momentum {
            momentum: 0.9,
            nesterov: false,
            weight_decay: 0.1,
        },
        Rule::Momentum {
            momentum: 0.9,
            nesterov: true,
            weight_decay: 0.0,
        },
        Rule::RmsProp {
            alpha: 0.99,
            eps: 1e-8,
        },
        Rule::RmsProp {
            alpha: 0.9,
            eps: 1e-3,
        },
        adam(1e-8, false),
        adam(1e-8, true),
        Rule::Adagrad { eps: 1e-10 },
    ]
}

const HYPER: Hyper = Hyper {
    rate: 0.01,
    more: [0.271, 0.002_997],
};

/// The *step* must be accurate, not just the parameter it disappears in: so the parameter starts at zero.
#[test]
fn steps_follow_the_definition_from_tiny_to_huge_gradients() {
    let mut random = Random::new(11);
    let keeping = Rule::RmsProp {
        alpha: 1.0,
        eps: 1e-8,
    };
    for rule in rules().into_iter().chain([keeping]) {
        for simd in ways() {
            for round in 0..rounds(200) {
                let len = random.below(40);
                // Common rates, and one so small that its inverse times a large root would overflow.
                let hyper = Hyper {
                    rate: [0.01, 1e-5, 1e-30][round / 8 % 3],
                    more: match rule {
                        Rule::RmsProp { .. } => [[1.0, 0.9], [1e-6, 1.0], [0.3, 1.0]][round % 3],
                        _ => HYPER.more,
                    },
                };
                let magnitude = 10f32.powi(random.below(30) as i32 - 18);
                // Of one sign, so that no rule's own sums cancel.
                let sign = if round % 2 == 0 { 1.0 } else { -1.0 };
                let gradient: Vec<f32> = (0..len)
                    .map(|_| random.number().abs() * magnitude * sign)
                    .collect();
                let fresh = round % 4 == 0;
                let scale = if fresh { 0.0 } else { magnitude };
                let state = |used: bool, random: &mut Random, power: i32| -> Vec<f32> {
                    (0..if used { len } else { 0 })
                        .map(|_| random.number().abs() * (scale * sign).powi(power))
                        .collect()
                };
                let adam = matches!(rule, Rule::Adam { .. });
                let square = !matches!(rule, Rule::Momentum { .. }) && !adam;
                let mut first = state(rule.states() > 0, &mut random, if square { 2 } else { 1 });
                let mut second = state(rule.states() > 1, &mut random, 2);
                let (old_first, old_second) = (first.clone(), second.clone());
                let mut parameter = vec![0.0; len];
                update(
                    simd,
                    &rule,
                    hyper,
                    &gradient,
                    &mut parameter,
                    [&mut first, &mut second],
                );
                for i in 0..len {
                    let at = |x: &[f32]| x.get(i).map_or(0.0, |&x| x as f64);
                    let (p, s) = definition(
                        &rule,
                        hyper,
                        gradient[i] as f64,
                        0.0,
                        [at(&old_first), at(&old_second)],
                    );
                    let what = format!(
                        "{rule:?} at {} {simd:?} g={} s={:?}",
                        hyper.rate,
                        gradient[i],
                        [at(&old_first), at(&old_second)]
                    );
                    let near = |found: f32, wanted: f64| {
                        (found as f64 - wanted).abs() <= 1e-6 * wanted.abs() + 1e-37
                    };
                    // Below the normal range the square itself has lost its digits.
                    if !square && !adam || gradient[i].abs() > 1e-17 {
                        assert!(near(parameter[i], p), "{what}: {} is not {p}", parameter[i]);
                    }
                    assert!(parameter[i].is_finite(), "{what}: {}", parameter[i]);
                    if let Some(&found) = first.get(i) {
                        assert!(near(found, s[0]), "{what}: state {found} is not {}", s[0]);
                    }
                    if let Some(&found) = second.get(i) {
                        assert!(near(found, s[1]), "{what}: state {found} is not {}", s[1]);
                    }
                }
            }
        }
    }
}

#[test]
fn no_gradient_and_no_history_mean_no_step() {
    for rule in [
        Rule::RmsProp {
            alpha: 0.9,
            eps: 1e-8,
        },
        Rule::Adagrad { eps: 1e-10 },
    ] {
        for simd in ways() {
            for keep in [1.0, 0.9] {
                let mut p = vec![1.0; 19];
                let hyper = Hyper {
                    more: [0.5, keep],
                    ..HYPER
                };
                update(simd, &rule, hyper, &[0.0; 19], &mut p, [&mut [0.0; 19], &mut []]);
                assert!(p.iter().all(|&p| p == 1.0), "{rule:?} {keep} {simd:?}: {p:?}");
            }
        }
    }
}

#[test]
fn at_a_rate_of_zero_nothing_moves_but_the_states() {
    for rule in rules() {
        for simd in ways() {
            let (mut p, mut states) = ([0.0, 1.0, -3.0], [[0.5; 3]; 2]);
            let [a, b] = &mut states;
            let used = [
                &mut a[..if rule.states() > 0 { 3 } else { 0 }],
                &mut b[..if rule.states() > 1 { 3 } else { 0 }],
            ];
            let hyper = Hyper { rate: 0.0, ..HYPER };
            update(simd, &rule, hyper, &[2.0, -1.0, 4.0], &mut p, used);
            assert_eq!(p, [0.0, 1.0, -3.0], "{rule:?} {simd:?}");
            let moved = states.iter().filter(|state| **state != [0.5; 3]).count();
            assert_eq!(moved, rule.states(), "{rule:?} {simd:?}");
        }
    }
}

#[test]
fn a_bias_follows_the_column_sums() {
    let mut random = Random::new(12);
    let rule = Rule::Momentum {
        momentum: 0.5,
        nesterov: false,
        weight_decay: 0.0,
    };
    for simd in ways() {
        for len in [0, 1, 7, 8, 33] {
            for rows in [0, 1, 10] {
                let dy = random.numbers(rows * len);
                let mut sums = vec![0.0f32; len];
                for row in dy.chunks_exact(len.max(1)) {
                    sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                }
                let (mut a, mut b) = (vec![1.0; len], vec![1.0; len]);
                let (mut va, mut vb) = (vec![0.5; len], vec![0.5; len]);
                bias_update(simd, rows, &dy, &rule, HYPER, &mut a, [&mut va, &mut []]);
                update(simd, &rule, HYPER, &sums, &mut b, [&mut vb, &mut []]);
                assert_eq!((a, va), (b, vb));
            }
        }
    }
}
