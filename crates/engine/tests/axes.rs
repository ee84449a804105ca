//! What ops say about their axes is true: split along a factor, computed in parts and put together, nothing changes.

mod common;

use std::collections::BTreeMap;

use common::agree_all;
use common::catalogue::{self, Case};
use synod_engine::ops::{Axes, Axis, Op, Reduction, Slice};
use synod_engine::{Builder, Node, Type, interpret};

/// One part of a tensor, or the whole of one that a factor does not touch.
type Part = (Vec<usize>, Vec<f64>);

fn types(case: &Case, node: &Node) -> (Vec<Type>, Vec<Type>) {
    let of = |values: &[synod_engine::Value]| values.iter().map(|&v| case.graph.ty(v).clone()).collect();
    (of(&node.args), of(&node.outs))
}

/// Cases that are one op on tensors, with that op's axes.
fn single_ops() -> Vec<(Case, Op, Axes)> {
    let one = |case: Case| match case.graph.nodes() {
        [node] if node.op.graphs().is_empty() && node.args == case.graph.params() => {
            let (args, outs) = types(&case, node);
            let (op, axes) = (node.op.clone(), node.op.primitive().axes(&args, &outs));
            Some((case, op, axes))
        }
        _ => None,
    };
    catalogue::all().into_iter().filter_map(one).collect()
}

fn dims(ty: &Type) -> &[usize] {
    ty.shape().map_or(&[], |s| s.dims())
}

/// The extent of every factor.
fn extents(case: &Case, axes: &Axes) -> BTreeMap<u32, usize> {
    let (args, outs) = types(case, &case.graph.nodes()[0]);
    let mut extents = BTreeMap::new();
    for (ty, axes) in args.iter().zip(&axes.args).chain(outs.iter().zip(&axes.outs)) {
        assert_eq!(
            dims(ty).len(),
            axes.len(),
            "{}: {ty} has {} axes",
            case.name,
            axes.len()
        );
        for (&extent, axis) in dims(ty).iter().zip(axes) {
            if let Axis::Factor(f) = axis {
                let known = *extents.entry(*f).or_insert(extent);
                assert_eq!(known, extent, "{}: factor {f} has two extents", case.name);
            }
        }
    }
    extents
}

#[test]
fn equal_factors_have_equal_extents() {
    let cases = single_ops();
    assert!(cases.len() > 200);
    cases.iter().for_each(|(case, _, axes)| drop(extents(case, axes)));
}

fn slice(axis: usize, dims: &[usize], from: usize, to: usize, data: &[f64]) -> Part {
    let inner: usize = dims[axis + 1..].iter().product();
    let rows = data.chunks((dims[axis] * inner).max(1));
    let data = rows
        .flat_map(|row| row[from * inner..to * inner].to_vec())
        .collect();
    let mut dims = dims.to_vec();
    dims[axis] = to - from;
    (dims, data)
}

fn concat(axis: usize, parts: [&Part; 2]) -> Vec<f64> {
    let inner = |p: &Part| p.0[axis..].iter().product::<usize>().max(1);
    let (x, y) = (
        parts[0].1.chunks(inner(parts[0])),
        parts[1].1.chunks(inner(parts[1])),
    );
    x.zip(y).flat_map(|(x, y)| [x, y].concat()).collect()
}

/// The op for a part: shapes inside the op shrink with the factor.
fn shrunk(op: &Op, axes: &Axes, factor: u32, extent: usize) -> Op {
    let at = |axis: &Axis| *axis == Axis::Factor(factor);
    let shrink = |dims: &[usize], axes: &[Axis]| -> Vec<usize> {
        dims.iter()
            .zip(axes)
            .map(|(&d, a)| if at(a) { extent } else { d })
            .collect()
    };
    match op.clone() {
        Op::Broadcast(mut b) => {
            b.shape = shrink(b.shape.dims(), &axes.outs[0]).into();
            b.into()
        }
        Op::Reshape(mut r) => {
            r.shape = shrink(r.shape.dims(), &axes.outs[0]).into();
            r.into()
        }
        Op::Slice(s) => Slice {
            stop: shrink(&s.stop, &axes.args[0]),
            ..s
        }
        .into(),
        other => other,
    }
}

fn evaluate(op: Op, args: &[Part]) -> Vec<Part> {
    let mut b = Builder::new();
    let params: Vec<_> = args
        .iter()
        .map(|(dims, _)| b.param(Type::tensor(&dims[..]), ""))
        .collect();
    let outs = b.apply(op, &params);
    let graph = b.finish(&outs).expect("a part of a sound op");
    let data: Vec<Vec<f64>> = args.iter().map(|(_, data)| data.clone()).collect();
    let results = interpret(&graph, &data).expect("a part of a sound op");
    graph
        .outputs()
        .iter()
        .zip(results)
        .map(|(&o, data)| (graph.shape(o).dims().to_vec(), data))
        .collect()
}

/// Computes an op in two parts along a factor and puts the results together.
fn in_parts(case: &Case, op: &Op, axes: &Axes, factor: u32, extent: usize) -> Vec<Vec<f64>> {
    let (args, outs) = types(case, &case.graph.nodes()[0]);
    let cut = extent.div_ceil(3);
    let halves = [(0, cut), (cut, extent)].map(|(from, to)| {
        let part = |i: usize| {
            let whole = (dims(&args[i]).to_vec(), case.args[i].clone());
            let touched = axes.args[i]
                .iter()
                .enumerate()
                .filter(|(_, a)| **a == Axis::Factor(factor));
            touched.fold(whole, |(dims, data), (axis, _)| {
                slice(axis, &dims, from, to, &data)
            })
        };
        evaluate(
            shrunk(op, axes, factor, to - from),
            &(0..args.len()).map(part).collect::<Vec<_>>(),
        )
    });
    let together = |i: usize| {
        let (x, y) = (&halves[0][i], &halves[1][i]);
        let axis = axes.outs[i].iter().position(|a| *a == Axis::Factor(factor));
        let pairs = x.1.iter().zip(&y.1);
        let (left, right) = (cut as f64 / extent as f64, (extent - cut) as f64 / extent as f64);
        match (axis, op) {
            (Some(axis), _) => concat(axis, [x, y]),
            (None, Op::Reduce(r)) if r.kind == Reduction::Max => pairs.map(|(x, y)| x.max(*y)).collect(),
            (None, Op::Reduce(r)) if r.kind == Reduction::Min => pairs.map(|(x, y)| x.min(*y)).collect(),
            (None, Op::Reduce(r)) if r.kind == Reduction::Mean => {
                pairs.map(|(x, y)| left * x + right * y).collect()
            }
            (None, _) => pairs.map(|(x, y)| x + y).collect(),
        }
    };
    (0..outs.len()).map(together).collect()
}

#[test]
fn an_op_split_along_any_factor_and_put_together_is_the_whole() {
    let mut split: BTreeMap<&str, usize> = BTreeMap::new();
    for (case, op, axes) in single_ops() {
        for (factor, extent) in extents(&case, &axes)
            .into_iter()
            .filter(|(_, extent)| *extent > 1)
        {
            let whole = interpret(&case.graph, &case.args).unwrap();
            let parts = in_parts(&case, &op, &axes, factor, extent);
            agree_all(
                &format!("{} along factor {factor}", case.name),
                &parts,
                &whole,
                1e-12,
            )
            .unwrap();
            *split.entry(catalogue::family(&op)).or_default() += 1;
        }
    }
    for family in [
        "Unary",
        "Binary",
        "Select",
        "Reduce",
        "Broadcast",
        "Dot",
        "Conv",
        "Pool",
        "Transpose",
        "Concat",
        "Gather",
        "Update",
    ] {
        assert!(split.contains_key(family), "{family} was never split");
    }
}

#[test]
fn a_product_may_be_split_in_rows_columns_depth_and_batch() {
    for (case, op, axes) in single_ops()
        .into_iter()
        .filter(|(_, op, _)| matches!(op, Op::Dot(_)))
    {
        let stacked = usize::from(axes.outs[0].len() == 3);
        assert_eq!(extents(&case, &axes).len(), 3 + stacked, "{op}");
    }
}
