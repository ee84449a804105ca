//! The `if`, `while` and `for` of `#[graph]` functions do the same eagerly, compiled and interpreted.
#![deny(warnings, clippy::all)]

mod common;

use common::{every_way, scalar, traced, vector};
use synod_engine::Tensor;
use synod_engine_macros::graph;

#[graph]
fn halve(mut x: Tensor, limit: f32) -> Tensor {
    while x.abs().sum_all() > limit {
        x = x * 0.5;
    }
    x
}

#[test]
fn a_while_runs_as_often_as_the_data_say() {
    for (x, expected) in [([8.0, 4.0], [0.5, 0.25]), ([0.25, 0.5], [0.25, 0.5])] {
        every_way(&|a| halve(a[0].clone(), 1.0), &[vector(&x)], &expected);
    }
    let graph = traced(&|a| halve(a[0].clone(), 1.0), &[vector(&[1.0, 2.0])]);
    assert!(graph.to_string().contains("while"), "{graph}");
}

#[graph]
fn wander(x: &Tensor, turns: &Tensor) -> Tensor {
    let mut y = x.clone();
    let mut steps = Tensor::scalar(0.0);
    while steps < *turns && y.abs() < 10.0 {
        if y > 1.0 {
            y = &y * &y * 1.5;
        } else {
            y = &y + x;
        }
        steps = steps + 1.0;
    }
    y * steps
}

fn plain_wander(x: f64, turns: f64) -> f64 {
    let (mut y, mut steps) = (x, 0.0);
    while steps < turns && y.abs() < 10.0 {
        y = if y > 1.0 { y * y * 1.5 } else { y + x };
        steps += 1.0;
    }
    y * steps
}

#[test]
fn an_if_inside_a_while_is_decided_in_every_turn() {
    for (x, turns) in [(0.5, 6.0), (2.0, 5.0), (0.25, 3.0), (0.5, 0.0)] {
        let args = [scalar(x), scalar(turns)];
        every_way(
            &|a| wander(&a[0], &a[1]),
            &args,
            &[plain_wander(x.into(), turns.into())],
        );
    }
    let graph = traced(&|a| wander(&a[0], &a[1]), &[scalar(1.0), scalar(1.0)]).to_string();
    assert!(graph.contains("= while ") && graph.contains("= if "), "{graph}");
}

#[graph]
fn grade(x: Tensor) -> Tensor {
    if x <= -1.0 {
        -x
    } else if x < 1.0 && !(x == 0.5) {
        x * 10.0
    } else if x >= 3.0 || x == 2.0 {
        Tensor::scalar(100.0)
    } else {
        x
    }
}

#[test]
fn a_chain_of_else_if_takes_the_first_that_holds() {
    for (x, expected) in [
        (-2.0, 2.0),
        (-1.0, 1.0),
        (-0.5, -5.0),
        (1.0, 1.0),
        (0.25, 2.5),
        (0.5, 0.5),
        (1.5, 1.5),
        (2.0, 100.0),
        (2.5, 2.5),
        (3.0, 100.0),
        (9.0, 100.0),
    ] {
        every_way(&|a| grade(a[0].clone()), &[scalar(x)], &[expected]);
    }
}

#[graph]
fn one_sided(x: Tensor, step: Tensor) -> (Tensor, Tensor) {
    let mut y = x.clone();
    let mut count = Tensor::scalar(0.0);
    if x > 1.0 {
        let y_before = y;
        y = y_before * &step;
        count = count + 1.0;
        if y != 6.0 {
            count = count + 10.0;
        }
    }
    (y * step, count)
}

#[test]
fn an_if_without_else_keeps_the_variables() {
    let joined = |a: &[Tensor]| {
        let (y, count) = one_sided(a[0].clone(), a[1].clone());
        y + count * 1000.0
    };
    for (x, expected) in [(2.0, 1018.0), (4.0, 11036.0), (1.0, 3.0)] {
        every_way(&joined, &[scalar(x), scalar(3.0)], &[expected]);
    }
}

#[graph]
fn host_loops(x: &Tensor, n: usize, signs: &[f32]) -> Tensor {
    let mut sum = Tensor::scalar(0.0);
    let mut odd = 0;
    for i in 0..n {
        if i % 2 == 1 {
            odd += 1;
            continue;
        }
        if i < signs.len() && signs[i] < 0.0 {
            sum = sum - x;
        } else {
            sum = sum + x * i as f32;
        }
        if sum > 100.0 {
            sum = sum * 0.0;
        }
    }
    let mut left = odd;
    while left > 0 {
        sum = sum * 2.0;
        left -= 1;
    }
    loop {
        odd += 1;
        if odd >= 5 {
            break;
        }
    }
    sum + odd as f32
}

#[test]
fn host_integers_drive_host_loops() {
    let plain = |x: f64| {
        let sum = -x;
        let sum = if sum + 2.0 * x > 100.0 { 0.0 } else { sum + 2.0 * x };
        let sum = if sum + 4.0 * x > 100.0 { 0.0 } else { sum + 4.0 * x };
        sum * 4.0 + 5.0
    };
    for x in [1.0, 30.0, 200.0] {
        every_way(
            &|a| host_loops(&a[0], 5, &[-1.0]),
            &[scalar(x)],
            &[plain(x.into())],
        );
    }
}

#[graph]
fn shadowed(x: &Tensor) -> Tensor {
    let mut y = x * 2.0;
    let log = "kept";
    if *x > 0.0 {
        y = y + 1.0;
        let mut y = Tensor::scalar(50.0);
        y = y + 1.0;
        let mut log = y.shape().rank();
        log += 1;
        assert_eq!((log, y.shape().rank()), (1, 0));
    }
    assert_eq!(log, "kept");
    y
}

#[test]
fn a_variable_declared_inside_does_not_touch_the_one_outside() {
    every_way(&|a| shadowed(&a[0]), &[scalar(3.0)], &[7.0]);
    every_way(&|a| shadowed(&a[0]), &[scalar(-3.0)], &[-6.0]);
}

struct Pair {
    a: Tensor,
    b: Tensor,
}

#[graph]
fn moves(a: Tensor, b: Tensor) -> Tensor {
    let pair = if a > b { vec![a, b] } else { vec![b, a] };
    let pair = (pair[0].clone(), pair[1].clone());
    let (a, b) = (pair.0, pair.1);
    let larger = if a > 10.0 {
        let pair = Pair { a, b };
        pair.a * pair.b
    } else {
        let whole = (a, b);
        whole.0 - whole.1
    };
    let mut y = larger.clone();
    'rows: for i in 0..3 {
        for j in 0..3 {
            if j > i {
                continue 'rows;
            }
            if i == 2 {
                break 'rows;
            }
            if larger > 0.0 || j == 0 {
                y = y + 1.0;
            }
        }
    }
    y
}

#[test]
fn both_sides_of_an_if_may_move_the_same_variable() {
    for (a, b, expected) in [
        (2.0, 5.0, 6.0),
        (5.0, 5.0, 2.0),
        (20.0, 3.0, 63.0),
        (-2.0, 20.0, -38.0),
    ] {
        every_way(
            &|x| moves(x[0].clone(), x[1].clone()),
            &[scalar(a), scalar(b)],
            &[expected],
        );
    }
}
