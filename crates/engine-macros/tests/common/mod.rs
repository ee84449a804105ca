//! What the tests of functions share.

use synod_engine::{Graph, Mode, Tensor, Type, interpret, set_mode, staged, trace};

pub(crate) type Function<'f> = &'f dyn Fn(&[Tensor]) -> Tensor;

pub(crate) fn traced(f: Function, args: &[Tensor]) -> Graph {
    let types: Vec<Type> = args.iter().map(|a| Type::Tensor(a.shape().clone())).collect();
    trace(&types, |x| vec![f(x)]).expect("the function can be traced")
}

pub(crate) fn doubles(args: &[Tensor]) -> Vec<Vec<f64>> {
    args.iter()
        .map(|a| {
            a.values()
                .expect("arguments are concrete")
                .iter()
                .map(|&x| x.into())
                .collect()
        })
        .collect()
}

/// Runs `f` eagerly, in graph mode, staged and interpreted, and checks each result.
pub(crate) fn every_way(f: Function, args: &[Tensor], expected: &[f64]) {
    let check = |way: &str, found: Vec<f64>| {
        assert_eq!(found.len(), expected.len(), "{way}: {found:?}");
        for (x, y) in found.iter().zip(expected) {
            assert!(
                (x - y).abs() <= 1e-5 * (1.0 + y.abs()),
                "{way}: {found:?}, expected {expected:?}"
            );
        }
    };
    let values = |t: &Tensor| {
        t.values()
            .expect("a value")
            .iter()
            .map(|&x| f64::from(x))
            .collect()
    };
    set_mode(Mode::Eager);
    check("eager", values(&f(args)));
    check("staged", values(&staged(args, |x| vec![f(x)])[0]));
    check(
        "interpreted",
        interpret(&traced(f, args), &doubles(args))
            .expect("the graph runs")
            .remove(0),
    );
    set_mode(Mode::Graph);
    check("graph mode", values(&f(args)));
    set_mode(Mode::Eager);
}

pub(crate) fn scalar(x: f32) -> Tensor {
    Tensor::scalar(x)
}

pub(crate) fn vector(x: &[f32]) -> Tensor {
    Tensor::new(x.to_vec(), [x.len()])
}
