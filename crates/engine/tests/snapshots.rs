//! What people see: a training step after each pass, and a drawing.

mod common;

use common::{Rng, catalogue, training};
use synod_engine::ops::Unary;
use synod_engine::{Graph, Tensor, Type, branch, passes, repeat, trace, trace_named};

/// Source lines move when this file is edited; their place in the print does not.
fn without_lines(text: &str) -> String {
    let line = |line: &str| match line.split_once("snapshots.rs:") {
        Some((before, after)) => format!(
            "{before}snapshots.rs:LINE{}",
            after.trim_start_matches(|c: char| c.is_ascii_digit())
        ),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_training_step_after_each_pass() {
    let step = training::step(&[4, 3, 2], 5, Unary::Relu, catalogue::RULES[2], &mut Rng(1));
    let mut text = format!("as built\n{}", step.graph);
    passes::optimise(&step.graph, |name, graph: &Graph| {
        text += &format!("\nafter {name}\n{graph}")
    })
    .unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn a_loop_with_a_branch_as_text() {
    let graph = trace_named(&[(Type::tensor([2]), "x"), (Type::scalar(), "limit")], |s| {
        let grow = |x: Tensor| branch(x.sum_all().less(1.0), x, |x| &x + 1.0, |x| &x * 2.0);
        vec![repeat(s[0].clone(), |x| x.sum_all().less(&s[1]), grow)]
    });
    insta::assert_snapshot!(without_lines(&graph.unwrap().to_string()));
}

#[test]
fn a_layer_as_a_drawing() {
    let params = [Type::tensor([2, 3]), Type::tensor([3, 4]), Type::tensor([4])];
    let graph = trace(&params, |s| vec![(s[0].dot(&s[1]) + &s[2]).relu()]).unwrap();
    insta::assert_snapshot!(without_lines(&graph.to_dot()));
}
