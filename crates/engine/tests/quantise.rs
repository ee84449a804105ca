//! What is promised of rounding to the levels of a byte: its values, and a gradient that is a definition.

mod common;

use common::for_seeds;
use proptest::prelude::*;
use synod_engine::ops::FakeQuant;
use synod_engine::{Builder, Graph, Op, Options, Session, Type, compile, grad, interpret, value_and_grad};

fn graph_of(op: FakeQuant, shape: &[usize], scales: &[usize]) -> Graph {
    let mut b = Builder::new();
    let x = b.param(Type::tensor(shape), "x");
    let scale = b.param(Type::tensor(scales), "scale");
    let y = b.one(op, &[x, scale]);
    b.finish(&[y]).expect("a sound graph")
}

/// `sum(weights · fake_quant(x, scale))`
fn loss_of(op: FakeQuant, shape: &[usize], scales: &[usize]) -> Graph {
    let mut b = Builder::new();
    let x = b.param(Type::tensor(shape), "x");
    let scale = b.param(Type::tensor(scales), "scale");
    let weights = b.param(Type::tensor(shape), "weights");
    let y = b.one(op, &[x, scale]);
    let product = b.mul(y, weights);
    let axes = (0..shape.len()).collect();
    let kind = synod_engine::ops::Reduction::Sum;
    let sum = b.one(synod_engine::ops::Reduce { kind, axes }, &[product]);
    b.finish(&[sum]).expect("a sound graph")
}

#[test]
fn values_are_rounded_to_whole_steps_within_the_levels_halves_to_even() {
    let graph = graph_of(FakeQuant::signed(None), &[7], &[]);
    let x = vec![0.0, 0.25, 0.75, -0.75, 1.3, 1000.0, -1000.0];
    let y = interpret::<f64>(&graph, &[x, vec![0.5]]).expect("sound");
    assert_eq!(y[0], [0.0, 0.0, 1.0, -1.0, 1.5, 63.5, -63.5]);
}

#[test]
fn a_zero_point_moves_the_levels_and_keeps_zero() {
    let graph = graph_of(FakeQuant::unsigned(55), &[4], &[]);
    let y = interpret::<f64>(&graph, &[vec![0.0, 3.4, 300.0, -300.0], vec![1.0]]).expect("sound");
    assert_eq!(y[0], [0.0, 3.0, 200.0, -55.0]);
}

#[test]
fn every_place_along_the_axis_has_its_own_scale() {
    let graph = graph_of(FakeQuant::signed(Some(1)), &[2, 2], &[2]);
    let y = interpret::<f64>(&graph, &[vec![1.2, 1.2, -7.0, -7.0], vec![1.0, 0.5]]).expect("sound");
    assert_eq!(y[0], [1.0, 1.0, -7.0, -7.0]);
    let y = interpret::<f64>(&graph, &[vec![1.3, 1.3, 0.4, 0.4], vec![1.0, 0.5]]).expect("sound");
    assert_eq!(y[0], [1.0, 1.5, 0.0, 0.5]);
}

#[test]
fn the_gradient_is_one_between_the_outermost_levels_and_zero_beyond_and_second_order_is_zero() {
    for_seeds(24, |rng| {
        let op = FakeQuant {
            axis: Some(1),
            least: -3,
            most: 4,
        };
        let (shape, scales) = ([3, 2], [0.25, 0.5]);
        let x: Vec<f64> = (0..6).map(|_| rng.between(-3.0, 3.0)).collect();
        let weights: Vec<f64> = (0..6).map(|_| rng.between(-1.0, 1.0)).collect();
        let loss = loss_of(op, &shape, &[2]);
        let slopes = grad(&loss, &[0, 1]).map_err(|e| e.to_string())?;
        let args = [x.clone(), scales.to_vec(), weights.clone()];
        let found = interpret(&slopes, &args).map_err(|e| e.to_string())?;
        let inside = |i: usize| (-3.0..=4.0).contains(&(x[i] / scales[i % 2]));
        let wanted: Vec<f64> = (0..6).map(|i| if inside(i) { weights[i] } else { 0.0 }).collect();
        if found[0] != wanted || found[1] != [0.0; 2] {
            return Err(format!("{found:?}, not {wanted:?} and no gradient of the scale"));
        }
        // The sum of the slopes, differentiated again by x.
        let mut b = Builder::new();
        let params: Vec<_> = slopes.param_types().into_iter().map(|t| b.param(t, "")).collect();
        let outs = b.inline(&slopes, &params);
        let kind = synod_engine::ops::Reduction::Sum;
        let sum = b.one(
            synod_engine::ops::Reduce {
                kind,
                axes: vec![0, 1],
            },
            &outs[..1],
        );
        let second = b
            .finish(&[sum])
            .and_then(|g| grad(&g, &[0]))
            .map_err(|e| e.to_string())?;
        match interpret(&second, &args).map_err(|e| e.to_string())?[0] == [0.0; 6] {
            true => Ok(()),
            false => Err("the second order is not zero".into()),
        }
    });
}

#[test]
fn training_through_it_compiles_and_agrees_with_the_interpreter() {
    let loss = loss_of(FakeQuant::signed(Some(0)), &[3, 5], &[3]);
    let graph = value_and_grad(&loss, &[0]).expect("sound");
    let x: Vec<f32> = (0..15).map(|i| (i as f32 - 7.0) * 0.37).collect();
    let weights: Vec<f32> = (0..15).map(|i| (i % 4) as f32 - 1.5).collect();
    let scales = vec![0.01, 0.03, 0.1];
    let wanted = interpret(&graph, &[x.clone(), scales.clone(), weights.clone()]).expect("sound");
    let program = compile(&graph, &Options::default()).expect("sound");
    let found = Session::new(program.into())
        .call(&[&x, &scales, &weights])
        .expect("sound");
    assert_eq!(found[1], wanted[1]);
    assert!((found[0][0] - wanted[0][0]).abs() < 1e-4 * wanted[0][0].abs().max(1.0));
}

#[test]
fn levels_that_leave_out_zero_and_scales_that_do_not_fit_are_refused() {
    let refused = |least: i32, most: i32, axis: Option<usize>, scales: &[usize]| {
        let mut b = Builder::new();
        let x = b.param(Type::tensor([2, 3]), "x");
        let scale = b.param(Type::tensor(scales), "scale");
        let y = b.one(FakeQuant { axis, least, most }, &[x, scale]);
        b.finish(&[y]).is_err()
    };
    assert!(!refused(-127, 127, Some(1), &[3]));
    assert!(refused(1, 5, None, &[]));
    assert!(refused(-5, -1, None, &[]));
    assert!(refused(0, 0, None, &[]));
    assert!(refused(i32::MIN, i32::MAX, None, &[]));
    assert!(refused(-127, 127, None, &[3]));
    assert!(refused(-127, 127, Some(1), &[2]));
    assert!(refused(-127, 127, Some(2), &[3]));
}

proptest! {
    #[test]
    fn the_compiled_op_gives_the_interpreters_numbers(
        x in proptest::collection::vec(-50.0f32..50.0, 24),
        scales in proptest::collection::vec(1e-3f32..2.0, 4),
        axis in 0usize..3,
    ) {
        let shape = [[4, 3, 2], [2, 4, 3], [3, 2, 4]][axis];
        let graph = graph_of(FakeQuant::signed(Some(axis)), &shape, &[4]);
        let wanted = interpret(&graph, &[x.clone(), scales.clone()]).expect("sound");
        let program = compile(&graph, &Options::default()).expect("sound");
        let found = Session::new(program.into()).call(&[&x, &scales]).expect("sound");
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn it_survives_a_file(least in -200i32..=0, most in 1i32..200, axis in proptest::option::of(0usize..4)) {
        let op = Op::FakeQuant(FakeQuant { axis, least, most });
        let text = serde_json::to_string(&op).expect("text");
        prop_assert_eq!(serde_json::from_str::<Op>(&text).expect("an op"), op);
    }
}
