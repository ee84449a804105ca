//! What depends on known numbers alone is computed while the file is written.

use std::sync::Arc;

use synod_engine::{Builder, Graph, Op, Shape, Tensor, Type, interpret};

use super::held::{Held, Place};
use super::layout::known_dims;
use super::writer::Extent;

/// Results larger than this are left to the runtime.
const LARGEST: usize = 1 << 24;

/// The numbers of a tensor with its axes reordered: axis `i` of the result is axis `order[i]`.
pub(crate) fn transposed(dims: &[usize], values: &Arc<[f32]>, order: &[usize]) -> (Vec<usize>, Arc<[f32]>) {
    if order.iter().copied().eq(0..dims.len()) {
        return (dims.to_vec(), values.clone());
    }
    let strides = Shape::from(dims).strides();
    let wanted: Vec<usize> = order.iter().map(|&a| dims[a]).collect();
    let steps: Vec<usize> = order.iter().map(|&a| strides[a]).collect();
    let mut at = vec![0; wanted.len()];
    let mut moved = Vec::with_capacity(values.len());
    for _ in 0..values.len() {
        let place: usize = at.iter().zip(&steps).map(|(i, s)| i * s).sum();
        moved.push(values[place]);
        for axis in (0..at.len()).rev() {
            at[axis] += 1;
            if at[axis] < wanted[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
    (wanted, moved.into())
}

/// The extents, if they are the same for every batch size and not too many.
fn small(extents: &[Extent]) -> Option<Shape> {
    let dims: Option<Vec<usize>> = extents
        .iter()
        .map(|e| e.is_fixed().then_some(e.fixed.max(0) as usize))
        .collect();
    let shape = Shape::from(dims?);
    shape.checked_elements().filter(|&n| n <= LARGEST)?;
    Some(shape)
}

/// The numbers of a known value, repetitions made.
fn numbers(value: &Held) -> Option<(Shape, Vec<f32>)> {
    let Place::Known { values, .. } = &value.place else {
        return None;
    };
    let shape = small(&value.extents)?;
    let tensor = Tensor::new(values.clone(), known_dims(value)).broadcast_to(&shape);
    Some((shape, tensor.values().ok()?.to_vec()))
}

/// The results of an op on known numbers.
pub(super) fn fold(op: &Op, args: &[&Held], outs: &[Vec<Extent>]) -> Option<Vec<Held>> {
    let plain = !matches!(
        op,
        Op::Broadcast(_) | Op::Full(_) | Op::While(_) | Op::If(_) | Op::Random(_) | Op::Custom(_)
    );
    let [out] = outs else { return None };
    if !plain {
        return None;
    }
    let out = small(out)?;
    let args: Vec<(Shape, Vec<f32>)> = args.iter().map(|a| numbers(a)).collect::<Option<_>>()?;
    let graph = applied(op, &args)?;
    let inputs: Vec<Vec<f32>> = args.into_iter().map(|(_, v)| v).collect();
    let results: Vec<Vec<f32>> = interpret(&graph, &inputs).ok()?;
    let values = results.into_iter().next()?;
    (values.len() == out.elements()).then(|| vec![Held::known("folded", out.dims(), values.into())])
}

fn applied(op: &Op, args: &[(Shape, Vec<f32>)]) -> Option<Graph> {
    let mut builder = Builder::new();
    let params: Vec<_> = args
        .iter()
        .map(|(shape, _)| builder.param(Type::tensor(shape), ""))
        .collect();
    let outs = builder.apply(op.clone(), &params);
    builder.finish(&outs).ok()
}
