//! What depends on frozen parameters alone is computed once, and again when they were written.

mod common;

use common::{Rng, agree_all, for_seeds, random, to_f32, to_f64};
use synod_engine::ops::{Padding, Slide};
use synod_engine::{Graph, Options, Session, Tensor, Type, compile, interpret, trace};

fn frozen(graph: &Graph, count: usize) -> Result<Session, String> {
    let options = Options {
        frozen: count,
        ..Options::default()
    };
    let program = compile(graph, &options).map_err(|e| format!("{e}\n{graph}"))?;
    Ok(Session::new(program.into()))
}

fn set(session: &mut Session, args: &[Vec<f64>], which: std::ops::Range<usize>) {
    for i in which {
        session.param_mut(i).copy_from_slice(&to_f32(args)[i]);
    }
}

fn outputs(session: &mut Session) -> Vec<Vec<f64>> {
    session.run();
    let outs: Vec<Vec<f32>> = (0..session.program().output_count())
        .map(|i| session.output(i).to_vec())
        .collect();
    to_f64(&outs)
}

#[test]
fn random_graphs_mean_the_same_whatever_is_frozen_however_often_they_run() {
    for_seeds(300, |rng| {
        let size = 4 + rng.below(30);
        let sample = random::graph(rng, size);
        let (graph, mut args) = (&sample.graph, sample.args.clone());
        let all = args.len();
        let count = rng.below(all + 1);
        let mut session = frozen(graph, count)?;
        set(&mut session, &args, 0..all);
        let wanted = interpret(graph, &args).map_err(|e| e.to_string())?;
        for run in ["first", "second"] {
            let found = outputs(&mut session);
            agree_all(run, &found, &wanted, 1e-5).map_err(|e| format!("{count} frozen: {e}\n{graph}"))?;
        }
        for (what, changed) in [("inputs", count..all), ("frozen", 0..count)] {
            for arg in &mut args[changed.clone()] {
                arg.iter_mut().for_each(|x| *x = f64::from((*x * 0.75) as f32));
            }
            set(&mut session, &args, changed);
            let wanted = interpret(graph, &args).map_err(|e| e.to_string())?;
            let found = outputs(&mut session);
            agree_all(what, &found, &wanted, 1e-5).map_err(|e| format!("{count} frozen: {e}\n{graph}"))?;
        }
        Ok(())
    });
}

/// `(weights, gain, mean, shift, images, shortcut)`: a convolution, its normalisation, a shortcut and a rectifier.
fn normalised(groups: usize, swapped: bool) -> Graph {
    let types = [
        Type::tensor([3, 3, 6 / groups, 10]),
        Type::tensor([10]),
        Type::tensor([10]),
        Type::tensor([10]),
        Type::tensor([2, 7, 5, 6]),
        Type::tensor([2, 7, 5, 10]),
    ];
    let slide = Slide {
        padding: Padding::Same,
        ..Slide::default()
    };
    trace(&types, |a| {
        let sums = a[4].conv(&a[0], &slide, groups);
        let normal: Tensor = match swapped {
            false => (sums - &a[2]) * &a[1] + &a[3],
            true => &a[3] + (&a[2] + sums) / &a[1],
        };
        vec![(normal + &a[5]).relu()]
    })
    .unwrap()
}

fn arguments(graph: &Graph, rng: &mut Rng) -> Vec<Vec<f64>> {
    let sizes = graph.param_types().into_iter().map(|t| t.slots());
    sizes.map(|n| rng.apart(n)).collect()
}

#[test]
fn normalisation_with_frozen_numbers_disappears_in_the_convolution() {
    for_seeds(20, |rng| {
        let graph = normalised(*rng.pick(&[1, 2]), rng.chance(50));
        let args = arguments(&graph, rng);
        let mut session = frozen(&graph, 4)?;
        if session.program().calls() != 1 {
            return Err(format!("not one call:\n{}", session.program().describe()));
        }
        set(&mut session, &args, 0..6);
        let wanted = interpret(&graph, &args).map_err(|e| e.to_string())?;
        agree_all("absorbed", &outputs(&mut session), &wanted, 1e-5)
    });
}

#[test]
fn a_sum_that_is_needed_elsewhere_is_not_computed_twice() {
    let graph = trace(
        &[
            Type::tensor([1, 1, 4, 8]),
            Type::tensor([8]),
            Type::tensor([1, 5, 5, 4]),
        ],
        |a| {
            let sums = a[2].conv(&a[0], &Slide::default(), 1);
            vec![&sums * &a[1], sums]
        },
    )
    .unwrap();
    let session = frozen(&graph, 2).unwrap();
    let described = session.program().describe();
    assert_eq!(described.matches("conv").count(), 1, "{described}");
}
