//! What the tests of functions share.

use synod_engine::{Graph, Tensor, Type, trace};

pub(crate) type Function<'f> = &'f dyn Fn(&[Tensor]) -> Tensor;

pub(crate) fn traced(f: Function, args: &[Tensor]) -> Graph {
    let types: Vec<Type> = args.iter().map(|a| Type::Tensor(a.shape().clone())).collect();
    trace(&types, |x| vec![f(x)]).expect("the function can be traced")
}

pub(crate) fn doubles(args: &[Tensor]) -> Vec<Vec<f64>> {
    args.iter().map(|a| a.values().expect("arguments are concrete").iter().map(|&x| x.into()).collect()).collect()
}

pub(crate) fn scalar(x: f32) -> Tensor {
    Tensor::scalar(x)
}

pub(crate) fn vector(x: &[f32]) -> Tensor {
    Tensor::new(x.to_vec(), [x.len()])
}
