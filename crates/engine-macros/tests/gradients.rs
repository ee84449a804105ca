//! Gradients go through the branches and loops of `#[graph]` functions.
#![deny(warnings, clippy::all)]

mod common;

use common::{Function, doubles, every_way, scalar, traced, vector};
use synod_engine::{Graph, Mode, Tensor, grad, interpret, set_mode, value_and_gradient};
use synod_engine_macros::graph;

#[graph]
fn spiral(x: &Tensor, w: &Tensor) -> Tensor {
    let mut y = x.clone();
    let mut turns = Tensor::scalar(0.0);
    while turns < 3.0 && y.abs() < 20.0 {
        y = if y > 1.0 {
            (&y * w).sin() + &y * &y * 0.5
        } else {
            (&y + w).exp()
        };
        turns = turns + 1.0;
    }
    y * x
}

#[graph]
fn clipped(x: &Tensor, n: usize) -> Tensor {
    let mut sum = Tensor::scalar(0.0);
    for i in 0..n {
        let part = x.slice(0, i..i + 1).reshape([]);
        if part > 0.0 {
            sum = sum + &part * &part * &part;
        } else if i > 0 {
            sum = sum - part.sin();
        }
    }
    while sum > 10.0 {
        sum = (sum + 1.0).sqrt();
    }
    sum
}

fn value(graph: &Graph, args: &[Vec<f64>]) -> Vec<f64> {
    interpret(graph, args).expect("the graph runs").concat()
}

/// The slopes of the first output of `graph`, from both sides of every element of every argument.
fn differences(graph: &Graph, args: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let step = 1e-6;
    let slope = |i: usize, j: usize| {
        let at = |by: f64| {
            let mut args = args.to_vec();
            args[i][j] += by;
            value(graph, &args)[0]
        };
        (at(step) - at(-step)) / (2.0 * step)
    };
    (0..args.len())
        .map(|i| (0..args[i].len()).map(|j| slope(i, j)).collect())
        .collect()
}

fn assert_close(way: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{way}");
    for (x, y) in found.iter().zip(expected) {
        assert!(
            (x - y).abs() <= tolerance * (1.0 + y.abs()),
            "{way}: {found:?}, expected {expected:?}"
        );
    }
}

/// The gradient eagerly, in graph mode, and of the graph, against differences.
fn check_gradient(f: Function, args: &[Tensor]) {
    let (graph, numbers) = (traced(f, args), doubles(args));
    every_way(f, args, &value(&graph, &numbers));
    let expected = differences(&graph, &numbers);
    let all: Vec<usize> = (0..args.len()).collect();
    let slope = grad(&graph, &all).expect("the graph has a gradient");
    let found = interpret(&slope, &numbers).expect("the gradient runs");
    for (found, expected) in found.iter().zip(&expected) {
        assert_close("of the graph", found, expected, 1e-6);
    }
    for mode in [Mode::Eager, Mode::Graph] {
        set_mode(mode);
        let (y, slopes) = value_and_gradient(f, args).expect("the function has a gradient");
        assert_close(
            &format!("{mode:?} value"),
            &doubles(&[y])[0],
            &value(&graph, &numbers),
            1e-5,
        );
        for (found, expected) in doubles(&slopes).iter().zip(&expected) {
            assert_close(&format!("{mode:?}"), found, expected, 1e-3);
        }
    }
    set_mode(Mode::Eager);
}

#[test]
fn through_an_if_inside_a_while() {
    // Three turns, one that stops early, and none at all.
    for (x, w) in [(0.3, 0.4), (2.5, 0.9), (30.0, 1.0)] {
        check_gradient(&|a| spiral(&a[0], &a[1]), &[scalar(x), scalar(w)]);
    }
}

#[test]
fn through_ifs_in_a_host_loop_and_a_loop_on_data() {
    for x in [[0.5, -1.0, 2.0], [-0.5, 3.0, 1.0]] {
        check_gradient(&|a| clipped(&a[0], 3), &[vector(&x)]);
    }
}

#[test]
fn twice() {
    for (x, w) in [(0.3, 0.4), (2.5, 0.9)] {
        let args = [scalar(x), scalar(w)];
        let slope = grad(&traced(&|a| spiral(&a[0], &a[1]), &args), &[0]).expect("a gradient");
        let curvature = grad(&slope, &[0, 1]).expect("a gradient of the gradient");
        let numbers = doubles(&args);
        let expected = differences(&slope, &numbers).concat();
        assert!(expected[0].abs() > 0.1, "the function is curved at {x}");
        assert_close("twice", &value(&curvature, &numbers), &expected, 1e-5);
    }
}

#[test]
fn of_a_gradient_taken_inside_the_function() {
    #[graph]
    fn slope(x: &Tensor) -> Tensor {
        let cube = |a: &[Tensor]| {
            if a[0] > 0.0 {
                &a[0] * &a[0] * &a[0]
            } else {
                a[0].sin()
            }
        };
        let (_, mut slopes) = value_and_gradient(cube, std::slice::from_ref(x)).expect("a gradient");
        slopes.remove(0)
    }
    for mode in [Mode::Eager, Mode::Graph] {
        set_mode(mode);
        for (x, expected) in [(2.0, 12.0), (-1.0, 1_f64.cos())] {
            assert_close(
                &format!("{mode:?}"),
                &doubles(&[slope(&scalar(x))])[0],
                &[expected],
                1e-5,
            );
        }
    }
}
