//! Training steps, whose nodes the compiler fuses: every rule, activation and number of rows, with and without donation.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::catalogue::RULES;
use common::training::{self, Step};
use common::{Rng, agree_all, ops_of, to_f32, to_f64};
use synod_engine::backend::Cpu;
use synod_engine::ops::{FusedKind, Op, Rule, Unary, Update};
use synod_engine::{Builder, Graph, Options, Session, Type, compile, compile_with, grad, interpret, passes};
use synod_kernels::Simd;

const ACTIVATIONS: [Unary; 3] = [Unary::Relu, Unary::Sigmoid, Unary::Tanh];
const TOLERANCE: f64 = 1e-5;

fn steps(rows: &[usize]) -> impl Iterator<Item = (String, Step)> {
    let forms = rows.iter().flat_map(|&rows| ACTIVATIONS.map(|a| (rows, a)));
    forms.flat_map(|(rows, activation)| {
        RULES.map(|rule| {
            let step = training::step(&[5, 18, 7, 3], rows, activation, rule, &mut Rng(rows as u64));
            (format!("{rows} rows, {activation:?}, {rule:?}"), step)
        })
    })
}

/// Runs `count` steps in the interpreter, new parameters and states taking the place of the old.
fn interpreted(step: &Step, count: usize) -> Vec<Vec<f64>> {
    let mut args = step.args.clone();
    let mut outs = vec![];
    for _ in 0..count {
        outs = interpret(&step.graph, &args).unwrap();
        step.donate
            .iter()
            .for_each(|&(out, param)| args[param].clone_from(&outs[out]));
    }
    outs
}

fn loaded(step: &Step, options: &Options, cpu: &Cpu) -> Session {
    let mut session = Session::new(compile_with(&step.graph, options, &[cpu]).unwrap().into());
    to_f32(&step.args)
        .iter()
        .enumerate()
        .for_each(|(i, a)| session.param_mut(i).copy_from_slice(a));
    session
}

fn outputs(session: &Session) -> Vec<Vec<f32>> {
    (0..session.program().output_count())
        .map(|i| session.output(i).to_vec())
        .collect()
}

fn kinds(graph: &Graph) -> BTreeSet<String> {
    let optimised = passes::optimise(graph, |_, _| {}).unwrap();
    let fused = ops_of(&optimised)
        .into_iter()
        .filter_map(|op| if let Op::Fused(f) = op { Some(f.kind) } else { None });
    fused.map(|kind| format!("{kind:?}")).collect()
}

#[test]
fn training_steps_are_fused() {
    // The bias gradient of a single row is that row, which needs no sum.
    for (name, step) in steps(&[2, 16, 40]) {
        let kinds = kinds(&step.graph);
        for kind in [
            FusedKind::Dense,
            FusedKind::DotUpdate,
            FusedKind::SumUpdate,
            FusedKind::DenseBackward,
            FusedKind::Chain,
        ] {
            assert!(
                kinds.contains(&format!("{kind:?}")),
                "{name}: no {kind:?} among {kinds:?}"
            );
        }
    }
}

#[test]
fn a_gradient_without_an_update_fuses_its_gates() {
    for activation in ACTIVATIONS {
        for rows in [1, 10, 40] {
            let loss = training::loss(&[5, 18, 7, 3], rows, activation);
            let slope = grad(&loss, &[0, 1, 2, 3, 4, 5]).unwrap();
            assert!(
                kinds(&slope).contains("GatedDot"),
                "{activation:?}: {:?}",
                kinds(&slope)
            );
            let mut rng = Rng(rows as u64);
            let args: Vec<Vec<f64>> = slope
                .param_types()
                .iter()
                .map(|t| rng.numbers(t.slots()))
                .collect();
            let wanted = interpret(&slope, &args).unwrap();
            for simd in Simd::available() {
                let program = compile_with(&slope, &Options::default(), &[&Cpu::at(simd)]).unwrap();
                let given = to_f32(&args);
                let given: Vec<&[f32]> = given.iter().map(Vec::as_slice).collect();
                let found = to_f64(&Session::new(program.into()).call(&given).unwrap());
                agree_all(
                    &format!("{activation:?} at {}", simd.level()),
                    &found,
                    &wanted,
                    TOLERANCE,
                )
                .unwrap();
            }
        }
    }
}

#[test]
fn compiled_steps_equal_interpreted_ones_with_and_without_donation() {
    for (name, step) in steps(&[1, 2, 10, 16, 17, 40]) {
        let wanted = interpreted(&step, 1);
        for donate in [vec![], step.donate.clone()] {
            let options = Options {
                donate,
                ..Options::default()
            };
            let mut session = loaded(&step, &options, &Cpu::default());
            session.run();
            agree_all(&name, &to_f64(&outputs(&session)), &wanted, TOLERANCE).unwrap();
        }
    }
}

#[test]
fn donated_parameters_carry_training_from_step_to_step() {
    for (name, step) in steps(&[2, 40]) {
        let options = Options {
            donate: step.donate.clone(),
            ..Options::default()
        };
        let mut session = loaded(&step, &options, &Cpu::default());
        (0..4).for_each(|_| session.run());
        let wanted = interpreted(&step, 4);
        agree_all(&name, &to_f64(&outputs(&session)), &wanted, 1e-4).unwrap();
        for &(out, param) in &step.donate {
            assert_eq!(
                session.param(param),
                session.output(out),
                "{name}: output {out} is not in its place"
            );
        }
    }
}

#[test]
fn without_donation_a_run_leaves_its_parameters_alone() {
    for (name, step) in steps(&[3]) {
        let mut session = loaded(&step, &Options::default(), &Cpu::default());
        session.run();
        for (i, arg) in to_f32(&step.args).iter().enumerate() {
            assert_eq!(session.param(i), arg, "{name}: parameter {i} has changed");
        }
    }
}

#[test]
fn every_vector_level_takes_the_same_step() {
    for (name, step) in steps(&[2, 17, 40]) {
        let wanted = interpreted(&step, 1);
        let options = Options {
            donate: step.donate.clone(),
            ..Options::default()
        };
        for simd in Simd::available() {
            let mut session = loaded(&step, &options, &Cpu::at(simd));
            session.run();
            agree_all(
                &format!("{name} at {}", simd.level()),
                &to_f64(&outputs(&session)),
                &wanted,
                TOLERANCE,
            )
            .unwrap();
        }
    }
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    // Wide enough for products to be shared among threads.
    let step = training::step(&[200, 160, 150], 100, Unary::Relu, RULES[5], &mut Rng(1));
    let bits = |threads: usize| {
        let options = Options {
            donate: step.donate.clone(),
            threads,
            ..Options::default()
        };
        let mut session = loaded(&step, &options, &Cpu::new(threads));
        (0..3).for_each(|_| session.run());
        outputs(&session)
            .concat()
            .into_iter()
            .map(f32::to_bits)
            .collect::<Vec<u32>>()
    };
    let one = bits(1);
    assert_eq!(one, bits(1), "two sessions differ");
    assert!(one == bits(2), "two threads give other bits than one");
}

#[test]
fn a_donated_place_is_not_taken_by_another_output() {
    // Output 1 could live in the parameter's place, but output 0 is wanted there.
    let rule = Rule::Sgd { weight_decay: 0.0 };
    let mut b = Builder::new();
    let p = b.param(Type::tensor([4]), "p");
    let hyper = b.param(Type::tensor([3]), "hyper");
    let twice = b.add(p, p);
    let old = b.reshape(p, [2, 2]);
    let stepped = b.one(synod_engine::ops::Update { rule }, &[p, twice, hyper]);
    let moved = b.reshape(stepped, [2, 2]);
    for outputs in [[twice, old], [twice, moved], [twice, stepped], [stepped, old]] {
        let mut again = Builder::new();
        let params: Vec<_> = b
            .graph()
            .param_types()
            .into_iter()
            .map(|t| again.param(t, ""))
            .collect();
        let names = again.inline_all(b.graph(), &params);
        let graph = again.finish(&outputs.map(|o| names[o.index()])).unwrap();
        let args = [vec![1.0, -2.0, 3.0, 0.5], vec![0.25, 1.0, 1.0]];
        let wanted = interpret(&graph, &args).unwrap();
        for optimise in [false, true] {
            let options = Options {
                optimise,
                donate: vec![(0, 0)],
                ..Options::default()
            };
            let mut session = Session::new(compile(&graph, &options).unwrap().into());
            let given = to_f32(&args);
            let found = session.call(&[&given[0], &given[1]]).unwrap();
            assert_eq!(to_f64(&found), wanted, "{graph}");
            assert_eq!(
                to_f64(&[session.param(0).to_vec()])[0],
                wanted[0],
                "output 0 is not in its place\n{graph}"
            );
        }
    }
}

#[test]
fn parameters_that_are_exchanged_by_donation_are_exchanged() {
    let graph = synod_engine::trace(&[Type::tensor([3]), Type::tensor([3])], |s| {
        vec![s[1].clone(), s[0].clone()]
    });
    let options = Options {
        donate: vec![(0, 0), (1, 1)],
        ..Options::default()
    };
    let mut session = Session::new(Arc::new(compile(&graph.unwrap(), &options).unwrap()));
    session.call(&[&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]]).unwrap();
    assert_eq!(
        (session.param(0), session.param(1)),
        (&[4.0, 5.0, 6.0][..], &[1.0, 2.0, 3.0][..])
    );
    session.run();
    assert_eq!(session.param(0), [1.0, 2.0, 3.0]);
}

/// Whatever its state counts in, RMSprop is what PyTorch defines.
#[test]
fn a_mean_in_units_that_shrink_is_the_mean() {
    let (rate, eps) = (0.01f32, 1e-3f32);
    for alpha in [0.0f32, 0.5, 0.9, 0.99, 1.0] {
        let rule = Rule::RmsProp { alpha, eps };
        let meaning = Update { rule }.meaning(&Type::tensor([3]));
        let rng = &mut Rng(8);
        let (mut p, mut state) = (rng.numbers(3), vec![0.0; 3]);
        let (mut wanted, mut v) = (p.clone(), vec![0.0; 3]);
        let mut started_again = 0;
        for step in 1..=3000 {
            let g: Vec<f64> = rng.numbers(3);
            for i in 0..3 {
                v[i] = f64::from(alpha) * v[i] + f64::from(1.0 - alpha) * g[i] * g[i];
                wanted[i] -= f64::from(rate) * g[i] / (v[i].sqrt() + f64::from(eps));
            }
            let hyper = rule.hyper(rate, step);
            started_again += usize::from(hyper[1] == 1.0);
            let outs = interpret(&meaning, &[p, g, hyper.map(f64::from).to_vec(), state]).unwrap();
            [p, state] = outs.try_into().unwrap();
            let unit = f64::from(rule.unit(step));
            for i in 0..3 {
                let (far, of) = ((unit * state[i] - v[i]).abs(), v[i]);
                assert!(far <= 1e-6 * of, "{alpha} at step {step}: {far:e} from {of:e}");
                let far = (p[i] - wanted[i]).abs();
                assert!(
                    far <= 1e-6 * step as f64 * f64::from(rate),
                    "{alpha} at step {step}: {far:e}"
                );
            }
        }
        // From never, where all is kept, to always.
        let times = match alpha {
            0.0 | 1.0 => 3000,
            0.5 => 150,
            0.9 => 22,
            _ => 2,
        };
        assert_eq!(started_again, times, "{alpha}");
    }
}
