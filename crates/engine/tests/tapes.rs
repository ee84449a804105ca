//! Tapes of long loops: no depth of recursion, no growth from run to run, and sums of tapes of different lengths.

mod common;

use std::sync::Arc;

use common::{agree_all, to_f64};
use synod_engine::ops::{Binary, Empty, Merge, NotEmpty, Pop, Push, While};
use synod_engine::{
    Builder, Graph, Options, Session, Tensor, Type, Value, compile, grad, interpret, repeat, trace,
};

fn compiled(graph: &Graph, args: &[&[f32]]) -> Vec<Vec<f64>> {
    to_f64(
        &Session::new(compile(graph, &Options::default()).unwrap().into())
            .call(args)
            .unwrap(),
    )
}

/// `y` moved towards `x` by a thousandth, as often as `count` says.
fn towards() -> Graph {
    trace(&[Type::scalar(), Type::scalar()], |s| {
        let step = |(y, n): (Tensor, Tensor)| (&y + (&s[0] * &s[0] - &y) * 1e-3, n + 1.0);
        let (y, _) = repeat(
            (Tensor::scalar(0.0), Tensor::scalar(0.0)),
            |(_, n)| n.less(&s[1]),
            step,
        );
        vec![y]
    })
    .unwrap()
}

#[test]
fn a_loop_of_many_steps_is_differentiable_twice() {
    let steps = 30_000.0;
    // y tends to x², so its derivatives tend to 2x and 2.
    let slope = grad(&towards(), &[0]).unwrap();
    let curve = grad(&slope, &[0]).unwrap();
    for (graph, wanted) in [(slope, 3.0), (curve, 2.0)] {
        let wanted = [vec![wanted]];
        agree_all(
            "interpreted",
            &interpret(&graph, &[vec![1.5_f64], vec![steps]]).unwrap(),
            &wanted,
            1e-4,
        )
        .unwrap();
        agree_all(
            "compiled",
            &compiled(&graph, &[&[1.5], &[steps as f32]]),
            &wanted,
            1e-3,
        )
        .unwrap();
    }
}

/// A loop that pushes its counter `count` times.
fn counted(b: &mut Builder, count: f32) -> Value {
    let frame: Arc<[Type]> = vec![Type::scalar()].into();
    let types = [Type::Stack(frame.clone()), Type::scalar()];
    let mut cond = Builder::new();
    let p = types.clone().map(|t| cond.param(t, ""));
    let limit = cond.constant(vec![count], []);
    let more = cond.one(Binary::Less, &[p[1], limit]);
    let mut body = Builder::new();
    let p = types.map(|t| body.param(t, ""));
    let pushed = body.one(Push, &p);
    let one = body.full_like(1.0, p[1]);
    let next = body.add(p[1], one);
    let (cond, body) = (
        cond.finish(&[more]).unwrap(),
        body.finish(&[pushed, next]).unwrap(),
    );
    let (empty, zero) = (b.one(Empty { frame }, &[]), b.constant(vec![0.0], []));
    b.apply(
        While {
            cond: cond.into(),
            body: body.into(),
        },
        &[empty, zero],
    )[0]
}

/// The sum over all frames of `frame * (place from the top)`, and the number of frames.
fn weigh(b: &mut Builder, stack: Value) -> Vec<Value> {
    let types = [b.ty(stack).clone(), Type::scalar(), Type::scalar()];
    let mut cond = Builder::new();
    let p = types.clone().map(|t| cond.param(t, ""));
    let more = cond.one(NotEmpty, &p[..1]);
    let mut body = Builder::new();
    let p = types.map(|t| body.param(t, ""));
    let popped = body.apply(Pop, &p[..1]);
    let one = body.full_like(1.0, p[2]);
    let place = body.add(p[2], one);
    let weighted = body.mul(popped[1], place);
    let sum = body.add(p[1], weighted);
    let (cond, body) = (
        cond.finish(&[more]).unwrap(),
        body.finish(&[popped[0], sum, place]).unwrap(),
    );
    let zero = b.constant(vec![0.0], []);
    b.apply(
        While {
            cond: cond.into(),
            body: body.into(),
        },
        &[stack, zero, zero],
    )[1..]
        .to_vec()
}

#[test]
fn tapes_are_added_from_the_top_whatever_their_lengths() {
    for (long, short) in [(3, 2), (2, 3), (4, 0), (0, 0), (5, 5), (40_000, 30_000)] {
        let mut b = Builder::new();
        let (x, y) = (counted(&mut b, long as f32), counted(&mut b, short as f32));
        let both = b.one(Merge, &[x, y]);
        let outs = weigh(&mut b, both);
        let graph = b.finish(&outs).unwrap();
        let frames = |n: i32| (0..n).rev().map(f64::from).collect::<Vec<_>>();
        let weighted = |n: i32| {
            frames(n)
                .iter()
                .zip(1..)
                .map(|(f, place)| f * f64::from(place))
                .sum::<f64>()
        };
        let wanted = [
            vec![weighted(long) + weighted(short)],
            vec![f64::from(long.max(short))],
        ];
        assert_eq!(
            interpret::<f64>(&graph, &[]).unwrap(),
            wanted,
            "{long} and {short}"
        );
        agree_all("compiled", &compiled(&graph, &[]), &wanted, 1e-3).unwrap();
    }
}

#[test]
fn a_second_run_uses_the_tape_of_the_first_again() {
    let slope = grad(&towards(), &[0]).unwrap();
    let mut session = Session::new(compile(&slope, &Options::default()).unwrap().into());
    let first = session.call(&[&[1.5], &[2000.0]]).unwrap();
    session.call(&[&[0.5], &[10.0]]).unwrap();
    assert_eq!(session.call(&[&[1.5], &[2000.0]]).unwrap(), first);
}
