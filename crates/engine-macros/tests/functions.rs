//! What `#[graph]` and `#[staged]` functions take, give and call.
#![deny(warnings, clippy::all)]

mod common;

use common::{every_way, scalar, vector};
use synod_engine::{Mode, Result, Tensor, compiled_functions, set_mode};
use synod_engine_macros::{graph, staged};

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
            _ => {
                if x.sum_all() > 0.0 {
                    x
                } else {
                    -x
                }
            }
        }
    }
}

#[test]
fn methods_take_their_tensors_from_self() {
    let weight = Tensor::new(vec![1.0, 2.0, 3.0, 4.0], [2, 2]);
    let mut layer = Layer {
        weight,
        bias: Some(vector(&[10.0, 20.0])),
        shape: Shape::Flat,
        calls: 0,
    };
    let x = Tensor::new(vec![1.0, 1.0], [1, 2]);
    every_way(
        &|a| layer.forward(&a[0], 35.0),
        std::slice::from_ref(&x),
        &[12.0, 22.0],
    );
    set_mode(Mode::Graph);
    layer.weight = Tensor::new(vec![1.0, 0.0, 0.0, 1.0], [2, 2]);
    assert_eq!(
        layer.forward(&x, 35.0).values().unwrap(),
        [11.0, 21.0],
        "a changed weight is seen without recompiling"
    );
    layer.shape = Shape::Round;
    layer.bias = None;
    let values = layer.forward(&x, 35.0);
    assert!((values.values().unwrap()[0] - 1_f32.tanh()).abs() < 1e-6);
    layer.shape = Shape::Flat;
    assert_eq!(layer.counted(vector(&[-1.0])).values().unwrap(), [1.0]);
    assert_eq!(layer.calls, 1);
}

#[graph]
#[allow(clippy::needless_lifetimes, reason = "a named lifetime must be accepted")]
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
#[allow(clippy::print_stdout, reason = "an eager function may print")]
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
fn halve(mut x: Tensor) -> Tensor {
    while x > 1.0 {
        x = x * 0.5;
    }
    x
}

#[staged]
fn inner(x: Tensor) -> Tensor {
    halve(x) * 2.0
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
    halve(scalar(3.0));
    assert_eq!(compiled_functions(), before);
    for x in [3.0, 4.0, 5.0] {
        inner(scalar(x));
    }
    assert_eq!(compiled_functions(), before + 1);
}

#[graph]
fn parted(x: &Tensor) -> (Tensor, Tensor) {
    let mut count = Tensor::scalar(0.0);
    if *x > 1.0 {
        count = count + 1.0;
    }
    (x * 2.0, count)
}

#[test]
fn an_error_in_an_argument_comes_back_in_every_part_of_the_result() {
    let wrong = Tensor::new(vec![1.0], [2]);
    for mode in [Mode::Eager, Mode::Graph] {
        set_mode(mode);
        let (y, count) = parted(&wrong);
        assert!(
            y.values().unwrap_err().to_string().contains("do not fill"),
            "{y:?}"
        );
        assert!(count.error().is_some(), "{count:?}");
    }
}
