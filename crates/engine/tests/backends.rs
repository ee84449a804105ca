//! Several backends: assignment by cost, convex regions, and the same results wherever a node runs.

mod common;

use std::collections::BTreeSet;

use common::catalogue::RULES;
use common::{Rng, agree_all, for_seeds, random, scalar_loss, to_f32, to_f64, training};
use synod_engine::backend::{Backend, Cpu, Interpreter, KernelCall, RowDependence, assign, partition};
use synod_engine::ops::Unary;
use synod_engine::{
    Graph, Node, Options, Result, Session, Type, compile_with, interpret, trace, value_and_grad,
};

/// A backend that prices nodes by their place in the graph.
struct Priced<B> {
    inner: B,
    name: &'static str,
    price: fn(usize) -> Option<f64>,
}

impl<B: Backend> Backend for Priced<B> {
    fn name(&self) -> &str {
        self.name
    }

    fn seconds(&self, graph: &Graph, node: &Node) -> Option<f64> {
        self.inner.seconds(graph, node)?;
        (self.price)(graph.nodes().iter().position(|n| n.outs == node.outs)?)
    }

    fn compile(&self, region: &Graph, rows: RowDependence) -> Result<Vec<KernelCall>> {
        self.inner.compile(region, rows)
    }
}

/// The processor is far cheaper for every other pair of nodes, the interpreter for the rest.
fn alternating() -> (Priced<Cpu>, Priced<Interpreter>) {
    (
        Priced {
            inner: Cpu::default(),
            name: "even",
            price: |i| Some(if i / 2 % 2 == 0 { 1e-9 } else { 1.0 }),
        },
        Priced {
            inner: Interpreter,
            name: "odd",
            price: |i| Some(if i / 2 % 2 == 1 { 1e-9 } else { 1.0 }),
        },
    )
}

fn both_ways(graph: &Graph, args: &[Vec<f64>], options: &Options) -> std::result::Result<(), String> {
    let (even, odd) = alternating();
    let wanted = interpret(graph, args).map_err(|e| e.to_string())?;
    let program = compile_with(graph, options, &[&even, &odd]).map_err(|e| e.to_string())?;
    let given = to_f32(args);
    let given: Vec<&[f32]> = given.iter().map(Vec::as_slice).collect();
    let found = Session::new(program.into())
        .call(&given)
        .map_err(|e| e.to_string())?;
    agree_all("two backends", &to_f64(&found), &wanted, 1e-5).map_err(|e| format!("{e}\n{graph}"))
}

#[test]
fn two_backends_that_take_turns_compute_the_same() {
    for_seeds(100, |rng| {
        let sample = random::graph(rng, 18);
        both_ways(&sample.graph, &sample.args, &Options::default())?;
        let loss = scalar_loss(&sample.graph, rng);
        let slope = value_and_grad(&loss, &[0, 1]).map_err(|e| e.to_string())?;
        both_ways(
            &slope,
            &sample.args,
            &Options {
                optimise: false,
                ..Options::default()
            },
        )
    });
}

#[test]
fn two_backends_that_take_turns_take_the_same_training_step() {
    for rule in RULES {
        let step = training::step(&[4, 6, 3], 5, Unary::Tanh, rule, &mut Rng(4));
        for donate in [vec![], step.donate.clone()] {
            both_ways(
                &step.graph,
                &step.args,
                &Options {
                    donate,
                    ..Options::default()
                },
            )
            .unwrap();
        }
    }
}

#[test]
fn every_node_goes_where_it_is_cheapest_when_handing_over_is_worth_it() {
    let graph = trace(&[Type::tensor([3])], |s| {
        vec![s[0].exp().sin().cos().tanh().abs()]
    })
    .unwrap();
    let (even, odd) = alternating();
    assert_eq!(assign(&graph, &[&even, &odd]).unwrap(), [0, 0, 1, 1, 0]);
    // Differences below the price of handing over do not scatter the graph.
    let slightly = |price| Priced {
        inner: Cpu::default(),
        name: "slightly",
        price,
    };
    let (a, b) = (
        slightly(|i| Some(1e-9 * (1 + i % 2) as f64)),
        slightly(|i| Some(1e-9 * (2 - i % 2) as f64)),
    );
    let assigned = assign(&graph, &[&a, &b]).unwrap();
    assert_eq!(BTreeSet::from_iter(&assigned).len(), 1, "{assigned:?}");
}

#[test]
fn no_assignment_is_cheaper_than_the_one_chosen() {
    let graph = trace(&[Type::tensor([3])], |s| {
        vec![s[0].exp().sin().cos().tanh().abs().relu()]
    })
    .unwrap();
    let (x, y) = (
        Priced {
            inner: Cpu::default(),
            name: "x",
            price: |i| Some([3e-6, 9e-6, 1e-6, 8e-6, 2e-6, 7e-6][i]),
        },
        Priced {
            inner: Cpu::default(),
            name: "y",
            price: |i| Some([6e-6, 1e-6, 5e-6, 1e-6, 9e-6, 6e-6][i]),
        },
    );
    let backends: [&dyn Backend; 2] = [&x, &y];
    let total = |assigned: &[usize]| -> f64 {
        let work = graph
            .nodes()
            .iter()
            .zip(assigned)
            .map(|(n, &b)| backends[b].seconds(&graph, n).unwrap());
        let changes = assigned.windows(2).filter(|w| w[0] != w[1]).count();
        // Three numbers handed over: two microseconds, and twelve bytes at five gigabytes a second.
        work.sum::<f64>() + changes as f64 * (2e-6 + 12.0 / 5e9)
    };
    let chosen = total(&assign(&graph, &backends).unwrap());
    let best = (0..64)
        .map(|bits| total(&(0..6).map(|i| bits >> i & 1).collect::<Vec<_>>()))
        .fold(f64::MAX, f64::min);
    assert!((chosen - best).abs() < 1e-12, "{chosen} chosen, {best} possible");
}

#[test]
fn a_node_nobody_can_run_is_named_with_its_line() {
    let graph = trace(&[Type::tensor([3])], |s| vec![s[0].exp().sin()]).unwrap();
    let refuses = Priced {
        inner: Cpu::default(),
        name: "refuses",
        price: |i| (i == 0).then_some(1.0),
    };
    let error = assign(&graph, &[&refuses, &refuses]).unwrap_err().to_string();
    assert!(
        error.contains("sin") && error.contains("refuses") && error.contains("backends.rs:"),
        "{error}"
    );
}

#[test]
fn regions_are_convex_and_together_are_the_graph() {
    for_seeds(60, |rng| {
        let sample = random::graph(rng, 20);
        let graph = &sample.graph;
        let assigned: Vec<usize> = graph.nodes().iter().map(|_| rng.below(3)).collect();
        let regions = partition(graph, &assigned).map_err(|e| e.to_string())?;
        let mut defined: BTreeSet<u32> = graph.params().iter().map(|p| p.0).collect();
        for region in &regions {
            region.graph.verify().map_err(|e| e.to_string())?;
            // Everything a region reads is there before it starts: no path leaves it and comes back.
            if let Some(missing) = region.args.iter().find(|a| !defined.contains(&a.0)) {
                return Err(format!("a region reads {missing}, which is not defined yet"));
            }
            defined.extend(region.outs.iter().map(|o| o.0));
        }
        let count: usize = regions.iter().map(|r| r.graph.nodes().len()).sum();
        if count != graph.nodes().len() {
            return Err(format!(
                "{count} nodes in regions, {} in the graph",
                graph.nodes().len()
            ));
        }
        match graph.outputs().iter().find(|o| !defined.contains(&o.0)) {
            Some(lost) => Err(format!("output {lost} is in no region")),
            None => Ok(()),
        }
    });
}
