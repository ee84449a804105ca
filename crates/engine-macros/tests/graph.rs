//! `#[graph]` functions give the same eagerly, compiled and interpreted, and what plain Rust would give.
#![deny(warnings, clippy::all)]

mod common;

use common::{Function, doubles, scalar, traced, vector};
use synod_engine::{Mode, Result, Tensor, compiled_functions, interpret, set_mode};
use synod_engine_macros::{graph, staged};

/// Runs `f` eagerly, in graph mode, staged and interpreted, and checks each result.
fn every_way(f: Function, args: &[Tensor], expected: &[f64]) {
    let check = |way: &str, found: Vec<f64>| {
        assert_eq!(found.len(), expected.len(), "{way}: {found:?}");
        for (x, y) in found.iter().zip(expected) {
            assert!((x - y).abs() <= 1e-5 * (1.0 + y.abs()), "{way}: {found:?}, expected {expected:?}");
        }
    };
    let values = |t: &Tensor| t.values().expect("a value").iter().map(|&x| f64::from(x)).collect();
    set_mode(Mode::Eager);
    check("eager", values(&f(args)));
    check("staged", values(&synod_engine::staged(args, |x| vec![f(x)])[0]));
    check("interpreted", interpret(&traced(f, args), &doubles(args)).expect("the graph runs").remove(0));
    set_mode(Mode::Graph);
    check("graph mode", values(&f(args)));
    set_mode(Mode::Eager);
}

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
        every_way(&|a| wander(&a[0], &a[1]), &args, &[plain_wander(x.into(), turns.into())]);
    }
}

#[graph]
fn grade(x: Tensor) -> Tensor {
    if x < 0.0 {
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
    for (x, expected) in
        [(-2.0, 2.0), (0.25, 2.5), (0.5, 0.5), (1.5, 1.5), (2.0, 100.0), (2.5, 2.5), (3.0, 100.0), (9.0, 100.0)]
    {
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
        every_way(&|a| host_loops(&a[0], 5, &[-1.0]), &[scalar(x)], &[plain(x.into())]);
    }
}

#[derive(PartialEq)]
enum Shape {
    Round,
    Flat,
}

struct Layer {
    weight: Tensor,
    bias: Option<Tensor>,
    shape: Shape,
    calls: usize,
}

impl Layer {
    #[graph]
    fn forward(&self, x: &Tensor, scale: f32) -> Tensor {
        let mut y = x.dot(&self.weight);
        if self.shape == Shape::Round {
            y = y.tanh();
        }
        if let Some(bias) = &self.bias {
            y = y + bias;
        }
        while y.sum_all() > scale {
            y = y - &self.weight.slice(0, 0..1);
        }
        y
    }

    #[staged]
    fn counted(&mut self, x: Tensor) -> Tensor {
        if self.shape == Shape::Flat {
            self.calls += 1;
        }
        match self.shape {
            Shape::Flat if x.shape().rank() == 2 => x,
            _ => if x.sum_all() > 0.0 { x } else { -x },
        }
    }
}

#[test]
fn methods_take_their_tensors_from_self() {
    let weight = Tensor::new(vec![1.0, 2.0, 3.0, 4.0], [2, 2]);
    let mut layer = Layer { weight, bias: Some(vector(&[10.0, 20.0])), shape: Shape::Flat, calls: 0 };
    let x = Tensor::new(vec![1.0, 1.0], [1, 2]);
    every_way(&|a| layer.forward(&a[0], 35.0), &[x.clone()], &[12.0, 22.0]);
    set_mode(Mode::Graph);
    layer.weight = Tensor::new(vec![1.0, 0.0, 0.0, 1.0], [2, 2]);
    assert_eq!(layer.forward(&x, 35.0).values().unwrap(), [11.0, 21.0], "a changed weight is seen without recompiling");
    layer.shape = Shape::Round;
    layer.bias = None;
    let values = layer.forward(&x, 35.0);
    assert!((values.values().unwrap()[0] - 1_f32.tanh()).abs() < 1e-6);
    layer.shape = Shape::Flat;
    assert_eq!(layer.counted(vector(&[-1.0])).values().unwrap(), [1.0]);
    assert_eq!(layer.calls, 1);
}

#[graph]
fn rotate<'a>((mut a, b): (Tensor, Tensor), rest: &'a [Tensor], twice: Option<Tensor>) -> Vec<Tensor> {
    let mut all = vec![b];
    all.extend(rest.iter().cloned());
    let mut total = Tensor::scalar(0.0);
    let mut add = |x: &Tensor| {
        if *x > 0.0 {
            total = &total + x;
        }
    };
    all.iter().for_each(&mut add);
    if a > 0.0 {
        (a, total) = (total, a);
    }
    if let Some(factor) = twice {
        a = a * factor;
    }
    if a > total { vec![a, total] } else { vec![total, a] }
}

#[test]
fn arguments_and_results_may_be_tuples_slices_and_vectors() {
    let joined = |a: &[Tensor]| {
        let result = rotate((a[0].clone(), a[1].clone()), &a[2..4], Some(a[4].clone()));
        &result[0] * 100.0 + &result[1]
    };
    let args = [1.0, 2.0, 4.0, -8.0, 3.0].map(scalar);
    every_way(&joined, &args, &[1801.0]);
    let args = [-1.0, 2.0, 4.0, -8.0, 3.0].map(scalar);
    every_way(&joined, &args, &[597.0]);
}

#[graph]
fn measured(x: &Tensor) -> Result<(Tensor, usize)> {
    let mut steps = 0;
    let mut y = x.clone();
    while y.item()? > 1.0 {
        y = y * 0.5;
        steps += 1;
        if steps > 100 {
            return Ok((y, usize::MAX));
        }
    }
    println!("{steps} steps to {y:?}");
    Ok((y, steps))
}

#[test]
fn an_eager_function_may_look_at_numbers() {
    let (y, steps) = measured(&scalar(20.0)).unwrap();
    assert_eq!((y.item().unwrap(), steps), (0.625, 5));
    assert_eq!(measured(&scalar(f32::INFINITY)).unwrap().1, usize::MAX);
    set_mode(Mode::Graph);
    let error = measured(&scalar(20.0)).unwrap_err().to_string();
    assert!(error.contains("not known while tracing"), "{error}");
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

#[staged]
fn inner(x: Tensor) -> Tensor {
    halve(x, 1.0) * 2.0
}

#[graph]
fn outer(x: &Tensor) -> Tensor {
    let mut y = inner(x.clone());
    if y > 1.5 {
        y = inner(y);
    }
    y
}

#[test]
fn graph_functions_call_each_other() {
    every_way(&|a| outer(&a[0]), &[scalar(7.0)], &[1.75]);
    every_way(&|a| outer(&a[0]), &[scalar(5.0)], &[1.25]);
}

#[test]
fn staged_compiles_once_in_eager_mode_and_graph_does_not() {
    set_mode(Mode::Eager);
    let before = compiled_functions();
    halve(scalar(3.0), 1.0);
    assert_eq!(compiled_functions(), before);
    for x in [3.0, 4.0, 5.0] {
        inner(scalar(x));
    }
    assert_eq!(compiled_functions(), before + 1);
}

#[test]
fn an_error_in_an_argument_comes_back_in_every_part_of_the_result() {
    let wrong = Tensor::new(vec![1.0], [2]);
    for mode in [Mode::Eager, Mode::Graph] {
        set_mode(mode);
        let (y, count) = one_sided(wrong.clone(), scalar(3.0));
        assert!(y.values().unwrap_err().to_string().contains("do not fill"), "{y:?}");
        assert!(count.error().is_some(), "{count:?}");
    }
}
