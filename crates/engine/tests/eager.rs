//! Eager ops, gradients in every mode, and the cache of compiled functions.

mod common;

use common::{Rng, agree_all, to_f64};
use synod_engine::ops::{Distribution, Dot};
use synod_engine::{
    Mode, Result, Tensor, Type, branch, compiled_functions, grad, interpret, mode, repeat, set_mode, staged,
    trace, value_and_grad, value_and_gradient,
};

type Function = fn(&[Tensor]) -> Vec<Tensor>;

fn tensors(shapes: &[&[usize]], seed: u64) -> Vec<Tensor> {
    let mut rng = Rng(seed);
    let fill = |s: &&[usize]| {
        let data: Vec<f32> = rng
            .apart(s.iter().product())
            .iter()
            .map(|x| x.abs() as f32)
            .collect();
        Tensor::new(data, *s)
    };
    shapes.iter().map(fill).collect()
}

fn numbers(tensors: &[Tensor]) -> Vec<Vec<f64>> {
    to_f64(
        &tensors
            .iter()
            .map(|t| t.values().expect("a sound tensor").to_vec())
            .collect::<Vec<_>>(),
    )
}

fn types(tensors: &[Tensor]) -> Vec<Type> {
    tensors.iter().map(|t| Type::Tensor(t.shape().clone())).collect()
}

/// Runs in a mode and restores the one before.
fn in_mode<T>(new: Mode, f: impl FnOnce() -> T) -> T {
    let before = mode();
    set_mode(new);
    let out = f();
    set_mode(before);
    out
}

#[test]
fn eager_ops_equal_interpreted_ones() {
    let functions: &[(&[&[usize]], Function)] = &[
        (&[&[2, 3], &[3]], |s| {
            vec![&s[0] + &s[1], &s[0] - &s[1], &s[0] * &s[1], &s[0] / &s[1], -&s[0]]
        }),
        (&[&[2, 1], &[3]], |s| {
            vec![
                &s[0] * &s[1],
                s[0].maximum(&s[1]),
                s[0].minimum(&s[1]),
                s[0].pow(&s[1]),
            ]
        }),
        (&[&[4]], |s| {
            vec![
                &s[0] + 1.0,
                2.0 - &s[0],
                3.0 * &s[0],
                1.0 / &s[0],
                s[0].less(0.5),
                s[0].greater(0.5),
            ]
        }),
        (&[&[4]], |s| {
            vec![
                s[0].abs(),
                s[0].sign(),
                s[0].exp(),
                s[0].log(),
                s[0].sqrt(),
                s[0].recip(),
                s[0].sin(),
            ]
        }),
        (&[&[4]], |s| {
            vec![
                s[0].cos(),
                s[0].tanh(),
                s[0].sigmoid(),
                s[0].relu(),
                s[0].erf(),
                s[0].floor(),
            ]
        }),
        (&[&[4], &[4]], |s| {
            vec![
                s[0].equals(&s[0]),
                s[0].less(&s[1]).select(&s[0], 7.0),
                !s[0].floor(),
            ]
        }),
        (&[&[2, 3], &[3, 4]], |s| {
            vec![s[0].dot(&s[1]), s[1].dot_with(&s[0], Dot { ta: true, tb: true })]
        }),
        (&[&[2, 3]], |s| {
            vec![
                s[0].sum(&[0]),
                s[0].mean(&[1]),
                s[0].max(&[1, 0]),
                s[0].min(&[]),
                s[0].sum_all(),
            ]
        }),
        (&[&[2, 3]], |s| {
            vec![
                s[0].reshape([3, 2]),
                s[0].transpose(&[1, 0]),
                s[0].slice(1, 1..3),
                s[0].mean_all(),
            ]
        }),
        (&[&[2, 3]], |s| {
            vec![
                s[0].pad(&[1, 0], &[0, 2]),
                s[0].broadcast_to([2, 2, 3]),
                Tensor::concat(s, 1),
            ]
        }),
        (&[&[4, 2], &[3]], |s| {
            vec![
                s[0].gather(&s[1].floor()),
                s[0].slice(0, 0..3).scatter(&s[1].floor(), 2),
            ]
        }),
        (&[&[4]], |s| {
            vec![
                (&s[0] * 10.0).floor().random(Distribution::Normal, [3], 1),
                Tensor::full(2.0, [2]) * 3.0,
            ]
        }),
        (&[&[2]], |s| {
            vec![branch(s[0].sum_all().less(9.0), s[0].clone(), |x| x.exp(), |x| x)]
        }),
        (&[&[2]], |s| {
            vec![repeat(
                s[0].clone(),
                |x| x.sum_all().less(9.0),
                |x| &x * 1.5 + 0.1,
            )]
        }),
    ];
    for (i, (shapes, f)) in functions.iter().enumerate() {
        let args = tensors(shapes, i as u64);
        let graph = trace(&types(&args), f).unwrap();
        let wanted = interpret(&graph, &numbers(&args)).unwrap();
        agree_all(&format!("function {i}"), &numbers(&f(&args)), &wanted, 1e-6).unwrap();
        agree_all(
            &format!("staged function {i}"),
            &numbers(&staged(&args, f)),
            &wanted,
            1e-6,
        )
        .unwrap();
    }
}

fn loss(s: &[Tensor]) -> Tensor {
    let hidden = (s[0].dot(&s[1]) + &s[2]).tanh();
    let grown = repeat(hidden, |h| (h * h).sum_all().less(4.0), |h| &h * 1.4 + 0.05);
    branch(
        grown.sum_all().less(0.0),
        grown,
        |g| g.exp().mean_all(),
        |g| (&g * &g).mean_all(),
    )
}

fn all(result: Result<(Tensor, Vec<Tensor>)>) -> Vec<Vec<f64>> {
    let (value, gradients) = result.expect("a sound function");
    numbers(&[&[value], &gradients[..]].concat())
}

#[test]
fn a_gradient_is_the_same_eagerly_in_graph_mode_and_traced() {
    let args = tensors(&[&[3, 4], &[4, 2], &[2]], 5);
    let graph = trace(&types(&args), |s| vec![loss(s)]).unwrap();
    let wanted = interpret(&value_and_grad(&graph, &[0, 1, 2]).unwrap(), &numbers(&args)).unwrap();
    agree_all("eager", &all(value_and_gradient(loss, &args)), &wanted, 1e-5).unwrap();
    agree_all(
        "graph mode",
        &all(in_mode(Mode::Graph, || value_and_gradient(loss, &args))),
        &wanted,
        1e-5,
    )
    .unwrap();
    let inside = trace(&types(&args), |s| {
        let (value, gradients) = value_and_gradient(loss, s).expect("a sound function");
        [&[value], &gradients[..]].concat()
    });
    agree_all(
        "traced",
        &interpret(&inside.unwrap(), &numbers(&args)).unwrap(),
        &wanted,
        1e-5,
    )
    .unwrap();
    let staged = staged(&args, |s| {
        let (value, gradients) = value_and_gradient(loss, s).expect("a sound function");
        [&[value], &gradients[..]].concat()
    });
    agree_all("staged", &numbers(&staged), &wanted, 1e-5).unwrap();
}

#[test]
fn eager_functions_may_look_at_their_values() {
    let seen = std::cell::RefCell::new(vec![]);
    let f = |s: &[Tensor]| {
        let square = &s[0] * &s[0];
        seen.borrow_mut().push(square.item().unwrap());
        if square.item().unwrap() > 5.0 {
            square * 3.0
        } else {
            s[0].clone()
        }
    };
    let (value, gradients) = value_and_gradient(f, &[Tensor::scalar(3.0)]).unwrap();
    assert_eq!(
        (value.item().unwrap(), gradients[0].item().unwrap()),
        (27.0, 18.0)
    );
    assert_eq!(*seen.borrow(), [9.0]);
}

#[test]
fn free_tensors_are_constants_of_a_gradient() {
    let w = Tensor::new(vec![2.0, -1.0], [2]);
    for mode in [Mode::Eager, Mode::Graph] {
        let f = |s: &[Tensor]| (&s[0] * &w).sum_all();
        let (_, gradients) = in_mode(mode, || {
            value_and_gradient(f, &[Tensor::new(vec![5.0, 7.0], [2])])
        })
        .unwrap();
        assert_eq!(gradients[0].values().unwrap(), [2.0, -1.0]);
    }
}

/// The squared length of the gradient of `Σ x³ + loops`, itself differentiated.
fn slope_length(s: &[Tensor]) -> Tensor {
    let inner = |s: &[Tensor]| {
        let x = &s[0];
        let grown = repeat(x.clone(), |x| (x * x).sum_all().less(3.0), |x| &x * 1.2 + 0.1);
        (x * x * x).sum_all() + (&grown * &grown).sum_all()
    };
    let (value, gradients) = value_and_gradient(inner, s).expect("a sound function");
    (&gradients[0] * &gradients[0]).sum_all() + value
}

#[test]
fn gradients_nest_in_every_mode() {
    let args = tensors(&[&[3]], 2);
    let graph = trace(&types(&args), |s| vec![slope_length(s)]).unwrap();
    let wanted = interpret(&value_and_grad(&graph, &[0]).unwrap(), &numbers(&args)).unwrap();
    agree_all(
        "eager",
        &all(value_and_gradient(slope_length, &args)),
        &wanted,
        1e-5,
    )
    .unwrap();
    let in_graph = in_mode(Mode::Graph, || value_and_gradient(slope_length, &args));
    agree_all("graph mode", &all(in_graph), &wanted, 1e-5).unwrap();
}

#[test]
fn the_second_derivative_of_a_cube_is_six_x_in_eager_mode() {
    let slope = |s: &[Tensor]| {
        let (_, d) = value_and_gradient(|s| &s[0] * &s[0] * &s[0], s).expect("a sound function");
        assert_eq!(d[0].item().expect("a value, for this is eager mode"), 12.0);
        d[0].clone()
    };
    let (value, gradients) = value_and_gradient(slope, &[Tensor::scalar(2.0)]).unwrap();
    assert_eq!(
        (value.item().unwrap(), gradients[0].item().unwrap()),
        (12.0, 12.0)
    );
}

#[test]
fn a_staged_function_is_compiled_once_per_graph() {
    let f: Function = |s| vec![(&s[0] * 2.0).exp()];
    let before = compiled_functions();
    let first = staged(&tensors(&[&[3]], 1), f);
    assert_eq!(compiled_functions(), before + 1);
    let second = staged(&tensors(&[&[3]], 2), f);
    assert_eq!(
        compiled_functions(),
        before + 1,
        "other values of one shape are the same graph"
    );
    assert_ne!(first[0].values().unwrap(), second[0].values().unwrap());
    staged(&tensors(&[&[4]], 1), f);
    assert_eq!(compiled_functions(), before + 2, "another shape is another graph");
}

#[test]
fn a_staged_function_sees_free_tensors_as_they_are_at_each_call() {
    let before = compiled_functions();
    for k in 1..4 {
        let w = Tensor::new(vec![k as f32; 2], [2]);
        let out = staged(&[Tensor::new(vec![1.0, 2.0], [2])], |s| vec![&s[0] * &w]);
        assert_eq!(out[0].values().unwrap(), [k as f32, 2.0 * k as f32]);
    }
    assert_eq!(compiled_functions(), before + 1);
}

#[test]
fn the_cache_of_compiled_functions_is_bounded() {
    for n in 1..100 {
        staged(&[Tensor::full(1.0, [n])], |s| vec![s[0].sum_all()]);
    }
    assert!(
        compiled_functions() <= 64,
        "{} functions are kept",
        compiled_functions()
    );
    let again = staged(&[Tensor::full(1.0, [1])], |s| vec![s[0].sum_all()]);
    assert_eq!(
        again[0].item().unwrap(),
        1.0,
        "a function that was dropped is compiled again"
    );
}

#[test]
fn third_derivatives_agree_between_modes_and_transforms() {
    let f = |x: &Tensor| x.sin() * x.exp();
    let graph = trace(&[Type::scalar()], |s| vec![f(&s[0])]).unwrap();
    let third = grad(&grad(&grad(&graph, &[0]).unwrap(), &[0]).unwrap(), &[0]).unwrap();
    let wanted = interpret(&third, &[vec![0.7_f64]]).unwrap()[0][0];
    let d1 = |s: &[Tensor]| value_and_gradient(|s| f(&s[0]), s).expect("sound").1.remove(0);
    let d2 = |s: &[Tensor]| value_and_gradient(d1, s).expect("sound").1.remove(0);
    for mode in [Mode::Eager, Mode::Graph] {
        let found = in_mode(mode, || value_and_gradient(d2, &[Tensor::scalar(0.7)]))
            .unwrap()
            .1[0]
            .item()
            .unwrap();
        assert!(
            (f64::from(found) - wanted).abs() < 1e-5 * wanted.abs(),
            "{mode:?}: {found} instead of {wanted}"
        );
    }
}
