//! Compiled programs compute what the `f64` interpreter computes: on random graphs, their gradients and every op.

mod common;

use common::{Rng, agree_all, catalogue, for_seeds, ops_of, random, scalar_loss, to_f32, to_f64};
use synod_engine::backend::{Backend, Cpu};
use synod_engine::ops::Op;
use synod_engine::passes::PIPELINE;
use synod_engine::{Graph, Options, Session, compile, compile_with, interpret, value_and_grad};
use synod_kernels::Simd;

const TOLERANCE: f64 = 1e-5;

fn run(
    graph: &Graph,
    args: &[Vec<f64>],
    options: &Options,
    backends: &[&dyn Backend],
) -> Result<Vec<Vec<f64>>, String> {
    let program = compile_with(graph, options, backends).map_err(|e| format!("{e}\n{graph}"))?;
    let args = to_f32(args);
    let args: Vec<&[f32]> = args.iter().map(Vec::as_slice).collect();
    let outs = Session::new(program.into())
        .call(&args)
        .map_err(|e| e.to_string())?;
    Ok(to_f64(&outs))
}

/// Compiled, with and without the passes, equals interpreted.
fn same(graph: &Graph, args: &[Vec<f64>]) -> Result<(), String> {
    let wanted = interpret(graph, args).map_err(|e| e.to_string())?;
    for optimise in [false, true] {
        let options = Options {
            optimise,
            ..Options::default()
        };
        let found = run(graph, args, &options, &[&Cpu::default()])?;
        let what = if optimise { "optimised" } else { "as it is" };
        agree_all(what, &found, &wanted, TOLERANCE).map_err(|e| format!("{e}\n{graph}"))?;
    }
    Ok(())
}

fn gradient_of(graph: &Graph, rng: &mut Rng) -> Graph {
    let loss = scalar_loss(graph, rng);
    let all: Vec<usize> = (0..loss.params().len()).collect();
    value_and_grad(&loss, &all).expect("a random graph is differentiable")
}

#[test]
fn every_op_of_the_catalogue_compiles_to_its_meaning() {
    for case in catalogue::all() {
        same(&case.graph, &case.args).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let loss = gradient_of(&case.graph, &mut Rng(1));
        same(&loss, &case.args).unwrap_or_else(|e| panic!("gradient of {}: {e}", case.name));
    }
}

#[test]
fn random_graphs_compile_to_their_meaning() {
    for_seeds(400, |rng| {
        let size = 4 + rng.below(30);
        let sample = random::graph(rng, size);
        sample.graph.verify().map_err(|e| e.to_string())?;
        same(&sample.graph, &sample.args)
    });
}

#[test]
fn gradients_of_random_graphs_compile_to_their_meaning() {
    for_seeds(150, |rng| {
        let size = 3 + rng.below(12);
        let sample = random::graph(rng, size);
        same(&gradient_of(&sample.graph, rng), &sample.args)
    });
}

#[test]
fn second_gradients_of_random_graphs_compile_to_their_meaning() {
    for_seeds(40, |rng| {
        let size = 2 + rng.below(6);
        let sample = random::graph(rng, size);
        let first = gradient_of(&sample.graph, rng);
        same(&gradient_of(&first, rng), &sample.args)
    });
}

#[test]
fn random_graphs_reach_every_op_that_users_can_write() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let sample = random::graph(&mut Rng(seed), 20);
        seen.extend(ops_of(&sample.graph).iter().map(catalogue::family));
    }
    // Tapes appear in gradients, updates in training steps, fused nodes in optimised graphs, custom ops by hand, and
    // sequences, and rounding, whose steps no tolerance forgives, in the catalogue.
    let elsewhere = [
        "Empty",
        "Push",
        "Pop",
        "NotEmpty",
        "Merge",
        "Update",
        "Fused",
        "Custom",
        "Random",
        "FakeQuant",
        "Lstm",
        "BatchNorm",
    ];
    let missing: Vec<_> = catalogue::FAMILIES
        .iter()
        .filter(|f| !seen.contains(*f) && !elsewhere.contains(f))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_pass_keeps_the_meaning() {
    for_seeds(120, |rng| {
        let sample = random::graph(rng, 16);
        let mut graph = if rng.chance(50) {
            gradient_of(&sample.graph, rng)
        } else {
            sample.graph
        };
        let wanted = interpret(&graph, &sample.args).map_err(|e| e.to_string())?;
        for pass in PIPELINE {
            graph = pass.run(&graph).map_err(|e| format!("{}: {e}", pass.name()))?;
            graph.verify().map_err(|e| format!("{}: {e}", pass.name()))?;
            let found = interpret(&graph, &sample.args).map_err(|e| e.to_string())?;
            // Folding computes literals in f32.
            agree_all(pass.name(), &found, &wanted, TOLERANCE)?;
        }
        Ok(())
    });
}

#[test]
fn every_vector_level_computes_the_same_meaning() {
    let levels = Simd::available();
    assert!(!levels.is_empty());
    for_seeds(40, |rng| {
        let sample = random::graph(rng, 16);
        let wanted = interpret(&sample.graph, &sample.args).map_err(|e| e.to_string())?;
        for &simd in &levels {
            let found = run(
                &sample.graph,
                &sample.args,
                &Options::default(),
                &[&Cpu::at(simd)],
            )?;
            agree_all(&simd.level().to_string(), &found, &wanted, TOLERANCE)?;
        }
        Ok(())
    });
}

#[test]
fn two_runs_of_a_session_give_the_same_bits() {
    for_seeds(60, |rng| {
        let sample = random::graph(rng, 20);
        let graph = gradient_of(&sample.graph, rng);
        let program = compile(&graph, &Options::default()).map_err(|e| e.to_string())?;
        let mut session = Session::new(program.into());
        let args = to_f32(&sample.args);
        let args: Vec<&[f32]> = args.iter().map(Vec::as_slice).collect();
        let bits = |outs: Vec<Vec<f32>>| outs.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let one = bits(session.call(&args).map_err(|e| e.to_string())?);
        let two = bits(session.call(&args).map_err(|e| e.to_string())?);
        if one == two {
            Ok(())
        } else {
            Err("the second run differs".into())
        }
    });
}

#[test]
fn chains_of_any_length_and_width_compile() {
    let graph = synod_engine::trace(&vec![synod_engine::Type::tensor([5]); 81], |s| {
        let mut chain = s[0].clone();
        s[1..]
            .chunks_exact(2)
            .for_each(|pair| chain = pair[0].floor().select(&chain, &pair[1]));
        let mut wide = s[0].clone();
        s.chunks_exact(3)
            .enumerate()
            .for_each(|(i, t)| wide = t[0].select(&wide, &t[1]) + i as f32 * 0.1);
        vec![chain, wide]
    });
    let args: Vec<Vec<f64>> = (0..81).map(|i| Rng(i).apart(5)).collect();
    same(&graph.unwrap(), &args).unwrap();
}

#[test]
fn chains_that_would_wait_for_each_other_stay_apart() {
    // `a` and `a + b` could be one chain, and `b` and `b * aᵀ` another; but each would need a result of the other.
    let graph = synod_engine::trace(&vec![synod_engine::Type::tensor([2, 2]); 2], |s| {
        let a = s[0].exp();
        let turned = a.transpose(&[1, 0]);
        let b = s[1].sin();
        vec![&a + &b, &b * &turned]
    });
    same(&graph.unwrap(), &[Rng(1).apart(4), Rng(2).apart(4)]).unwrap();
}

#[test]
fn a_sum_of_small_products_becomes_one_product_and_of_large_ones_stays() {
    let shared = |rows: usize| {
        let types = vec![synod_engine::Type::tensor([rows, 6]); 3];
        let types = [&[synod_engine::Type::tensor([6, 8])], &types[..]].concat();
        synod_engine::trace(&types, |s| {
            let used = s[1..].iter().map(|x| x.dot(&s[0]).sin());
            vec![used.reduce(|x, y| x + y).expect("three uses").sum_all()]
        })
        .and_then(|loss| value_and_grad(&loss, &[0]))
        .unwrap()
    };
    let by_rows = |g: &Graph| {
        let is = |op: &&Op| matches!(op, Op::Dot(d) if d.ta && !d.tb);
        ops_of(g).iter().filter(is).count()
    };
    for (rows, products) in [(2, 1), (20, 3)] {
        let graph = shared(rows);
        assert_eq!(by_rows(&graph), 3);
        let optimised = synod_engine::passes::optimise(&graph, |_, _| {}).unwrap();
        assert_eq!(by_rows(&optimised), products, "{rows} rows\n{optimised}");
        let args: Vec<Vec<f64>> = graph
            .params()
            .iter()
            .enumerate()
            .map(|(i, &p)| Rng(i as u64).apart(graph.shape(p).elements()))
            .collect();
        same(&graph, &args).unwrap();
    }
}

#[test]
fn reductions_of_equal_elements_are_known_whatever_their_number() {
    let graph = synod_engine::trace(&[synod_engine::Type::tensor([2])], |s| {
        let ones = synod_engine::Tensor::full(1.0, [40, 50, 2]);
        let none = synod_engine::Tensor::full(1.0, [0, 2]);
        let halves = synod_engine::Tensor::full(0.5, [40, 50, 2]);
        vec![
            &s[0] * ones.sum(&[0, 1]) + halves.mean(&[0, 1]) + halves.max(&[0, 1]),
            &s[0] + none.sum(&[0]) + none.mean(&[0]),
        ]
    })
    .unwrap();
    same(&graph, &[vec![0.25, -3.0]]).unwrap();
    let optimised = synod_engine::passes::optimise(&graph, |_, _| {}).unwrap();
    let left = |op: &Op| matches!(op, Op::Reduce(_));
    assert!(!ops_of(&optimised).iter().any(left), "{optimised}");
}

#[test]
fn fused_nodes_appear_and_unfused_graphs_have_none() {
    let sample = random::graph(&mut Rng(3), 25);
    let optimised = synod_engine::passes::optimise(&sample.graph, |_, _| {}).unwrap();
    let fused = |g: &Graph| ops_of(g).iter().filter(|op| matches!(op, Op::Fused(_))).count();
    assert_eq!(fused(&sample.graph), 0);
    assert!(fused(&optimised) > 0);
}
