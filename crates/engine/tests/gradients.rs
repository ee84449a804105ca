//! Every gradient rule agrees with central differences of the `f64` interpreter, at first and second order.

mod common;

use std::collections::BTreeSet;

use common::catalogue::{self, CONV_ROLES, Case, DOTS, FAMILIES, KINDS, POOL_ROLES, RULES, family};
use common::differences::{derivatives, first, next_order};
use common::{Rng, for_seeds, ops_of, scalar_loss};
use synod_engine::ops::{Binary, Dot, FusedKind, Op, Unary};
use synod_engine::{Graph, Tensor, Type, branch, grad, interpret, repeat, trace};

fn check(cases: impl IntoIterator<Item = Case>) {
    let differentiable: Vec<Case> = cases.into_iter().filter(|c| !c.wrt.is_empty()).collect();
    assert!(!differentiable.is_empty());
    let fails = |c: &Case| {
        derivatives(&c.graph, &c.args, &c.wrt, c.step)
            .err()
            .map(|e| format!("{}: {e}", c.name))
    };
    let failures: Vec<String> = differentiable.iter().filter_map(fails).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_catalogue_has_every_op_in_every_form() {
    let ops: Vec<Op> = catalogue::all().iter().flat_map(|c| ops_of(&c.graph)).collect();
    let found: BTreeSet<&str> = ops.iter().map(family).collect();
    assert_eq!(found, FAMILIES.iter().copied().collect());
    for f in Unary::ALL {
        assert!(ops.contains(&f.into()), "{f:?} has no case");
    }
    for f in Binary::ALL {
        assert!(ops.contains(&f.into()), "{f:?} has no case");
    }
    for kind in KINDS {
        assert!(
            ops.iter().any(|op| matches!(op, Op::Reduce(r) if r.kind == kind)),
            "{kind:?} has no case"
        );
    }
    for dot in DOTS {
        assert!(ops.contains(&Op::Dot(dot)), "{dot:?} has no case");
    }
    for role in CONV_ROLES {
        let is = |op: &Op| matches!(op, Op::Conv(c) if c.role == role);
        assert!(ops.iter().any(is), "{role:?} has no case");
    }
    for role in POOL_ROLES {
        let is = |op: &Op| matches!(op, Op::Pool(p) if p.role == role);
        assert!(ops.iter().any(is), "{role:?} has no case");
    }
    for rule in RULES {
        assert!(
            ops.iter().any(|op| matches!(op, Op::Update(u) if u.rule == rule)),
            "{rule:?} has no case"
        );
    }
    for kind in [
        FusedKind::Dense,
        FusedKind::SumUpdate,
        FusedKind::DenseBackward,
        FusedKind::DotUpdate,
        FusedKind::Chain,
    ] {
        assert!(
            ops.iter().any(|op| matches!(op, Op::Fused(f) if f.kind == kind)),
            "{kind:?} has no case"
        );
    }
}

#[test]
fn every_op_of_the_catalogue_has_right_first_and_second_derivatives() {
    check(catalogue::all());
}

#[test]
fn products_of_random_extents_have_right_derivatives() {
    for_seeds(24, |rng| {
        let dot: Dot = *rng.pick(&DOTS);
        let [m, n, k, batch] = [(); 4].map(|()| rng.below(5));
        let stack: &[usize] = if rng.chance(50) { &[batch] } else { &[] };
        let x = [stack, &if dot.ta { [k, m] } else { [m, k] }].concat();
        let y = [stack, &if dot.tb { [n, k] } else { [k, n] }].concat();
        let graph = trace(&[Type::tensor(&x[..]), Type::tensor(&y[..])], |s| {
            vec![s[0].dot_with(&s[1], dot)]
        });
        let args = [x, y].map(|s| rng.apart(s.iter().product()));
        derivatives(&graph.map_err(|e| e.to_string())?, &args, &[0, 1], 1e-3)
    });
}

#[test]
fn chains_of_moves_over_random_shapes_have_right_derivatives() {
    for_seeds(24, |rng| {
        let dims: Vec<usize> = (0..3).map(|_| 1 + rng.below(4)).collect();
        let (axis, cut) = (rng.below(3), rng.below(3));
        let graph = trace(&[Type::tensor(&dims[..])], |s| {
            let turned = s[0].transpose(&[2, 0, 1]).exp();
            let part = turned.slice(axis, 0..turned.shape().dims()[axis].min(cut));
            let joined = Tensor::concat(&[part, turned.clone()], axis);
            let wide = joined.pad(&[1, 0, 2], &[0, 1, 0]);
            vec![wide.mean(&[axis]) * wide.max(&[axis]), joined.min(&[0, 1, 2])]
        });
        let args = [rng.apart(dims.iter().product())];
        derivatives(&graph.map_err(|e| e.to_string())?, &args, &[0], 1e-3)
    });
}

/// A loop whose trip count depends on data, a branch inside it, a loop inside that, and closures over outer tensors.
fn tangled(s: &[Tensor]) -> Vec<Tensor> {
    let (x, w) = (&s[0], &s[1]);
    let (y, _) = repeat(
        (x.clone(), Tensor::scalar(0.0)),
        |(y, n)| (y * y).sum_all().less(4.0).select(n.less(6.0), 0.0),
        |(y, n)| {
            let y = branch(
                y.sum_all().less(0.5),
                y,
                |y| &y * 1.3 + w.sin(),
                |y| {
                    repeat(
                        (y, n.clone()),
                        |(_, m)| m.less(3.0),
                        |(y, m)| (&y + &y * w * 0.5, m + 1.0),
                    )
                    .0
                },
            );
            (y, n + 1.0)
        },
    );
    vec![(&y * &y).sum_all()]
}

#[test]
fn a_tangled_loop_is_differentiable_three_times() {
    let loss = trace(&[Type::tensor([2]), Type::tensor([2])], tangled).unwrap();
    for args in [
        [vec![0.3, 0.4], vec![0.6, 0.5]],
        [vec![-0.3, 0.2], vec![0.4, -0.35]],
        [vec![2.0, 2.0], vec![0.1, 0.2]],
    ] {
        let mut rng = Rng(5);
        first(&loss, &args, &[0, 1], 1e-3).unwrap();
        let second = next_order(&loss, &args, &[0, 1], 1e-3, &mut rng).unwrap();
        next_order(&second, &args, &[0, 1], 1e-3, &mut rng).unwrap();
    }
}

#[test]
fn nested_loops_are_differentiable_three_times() {
    let cases = catalogue::all();
    let case = cases
        .iter()
        .find(|c| c.name == "nested while")
        .expect("the catalogue has nested loops");
    let mut rng = Rng(9);
    let loss = scalar_loss(&case.graph, &mut rng);
    let second = next_order(&loss, &case.args, &case.wrt, 1e-3, &mut rng).unwrap();
    next_order(&second, &case.args, &case.wrt, 1e-3, &mut rng).unwrap();
}

#[test]
fn grad_applies_to_its_own_output_as_often_as_one_likes() {
    // The derivatives of exp(2x) double each time; those of x⁴ end.
    let f = trace(&[Type::scalar()], |s| vec![(&s[0] * 2.0).exp() + s[0].pow(4.0)]).unwrap();
    let polynomial = |order: u32, x: f64| match order {
        0 => x.powi(4),
        1 => 4.0 * x.powi(3),
        2 => 12.0 * x * x,
        3 => 24.0 * x,
        4 => 24.0,
        _ => 0.0,
    };
    let (mut graph, x) = (f, 0.75_f64);
    for order in 0..6 {
        let found = interpret(&graph, &[vec![x]]).unwrap()[0][0];
        let wanted = 2f64.powi(order as i32) * (2.0 * x).exp() + polynomial(order, x);
        assert!(
            (found - wanted).abs() < 1e-6 * wanted.abs(),
            "order {order}: {found} instead of {wanted}"
        );
        graph = grad(&graph, &[0]).unwrap();
    }
}

#[test]
fn a_parameter_the_output_does_not_depend_on_has_gradient_zero() {
    let f = trace(&[Type::tensor([2]), Type::tensor([3])], |s| {
        vec![(&s[0] * 3.0).sum_all() + s[1].floor().sum_all()]
    });
    let slopes = grad(&f.unwrap(), &[1, 0]).unwrap();
    let found = interpret(&slopes, &[vec![1.0, 2.0], vec![0.5, 0.25, 4.5]]).unwrap();
    assert_eq!(found, [vec![0.0; 3], vec![3.0; 2]]);
}

#[test]
fn ties_share_the_cotangent_so_that_it_is_neither_lost_nor_doubled() {
    let sum_of_slopes = |graph: Graph, args: &[Vec<f64>]| -> f64 {
        let all: Vec<usize> = (0..args.len()).collect();
        interpret(&grad(&graph, &all).unwrap(), args)
            .unwrap()
            .iter()
            .flatten()
            .sum()
    };
    let pair = [Type::scalar(), Type::scalar()];
    let larger = trace(&pair, |s| vec![s[0].maximum(&s[1])]).unwrap();
    let smaller = trace(&pair, |s| vec![s[0].minimum(&s[1])]).unwrap();
    for graph in [larger, smaller] {
        assert_eq!(sum_of_slopes(graph, &[vec![2.0], vec![2.0]]), 1.0);
    }
    let most = trace(&[Type::tensor([4])], |s| vec![s[0].max(&[0])]).unwrap();
    let slope = grad(&most, &[0]).unwrap();
    assert_eq!(
        interpret(&slope, &[vec![1.0, 3.0, 3.0, 0.0]]).unwrap(),
        [[0.0, 0.5, 0.5, 0.0]]
    );
}
