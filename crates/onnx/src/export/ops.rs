//! Each op of the engine as nodes of ONNX.

use synod_engine::ops::{
    Binary, Broadcast, Conv, ConvRole, Dot, Pad, Pool, PoolRole, Reduce, Reduction, Slice, Unary, Window,
};
use synod_engine::{Graph, Node, Op, Type};

use super::fold::fold;
use super::held::{Held, Place};
use super::loops::{branch, unrolled};
use super::writer::{Extent, Setting, Writer};

/// `TensorProto.data_type` of what casts give.
const FLOAT: Setting = Setting::Int(1);
const INT64: Setting = Setting::Int(7);
const BOOL: Setting = Setting::Int(9);

/// Where ONNX has the axes of Synod's images, and of its kernels.
const IMAGES: [usize; 4] = [0, 3, 1, 2];
const KERNEL: [usize; 4] = [3, 2, 0, 1];

type Result<T> = std::result::Result<T, String>;

/// Writes a graph, given for batches of 2 and of 3, applied to held values.
pub(super) fn walk(w: &mut Writer, graphs: [&Graph; 2], args: Vec<Held>) -> Result<Vec<Held>> {
    let [two, three] = graphs;
    let mut values: Vec<Option<Held>> = vec![None; two.values()];
    for (param, arg) in two.params().iter().zip(args) {
        values[param.index()] = Some(arg);
    }
    for (node, other) in two.nodes().iter().zip(three.nodes()) {
        let outs: Vec<Vec<Extent>> = node
            .outs
            .iter()
            .zip(&other.outs)
            .map(|(&x, &y)| Extent::of(two.shape(x).dims(), three.shape(y).dims()))
            .collect();
        let made = {
            let args: Option<Vec<&Held>> = node.args.iter().map(|a| values[a.index()].as_ref()).collect();
            let args = args.ok_or("a value is read before it is defined")?;
            let same = node.args.windows(2).all(|p| p[0] == p[1]);
            match fold(&node.op, &args, &outs) {
                Some(known) => known,
                None if matches!(node.op, Op::Lstm(_)) => {
                    let meanings = [meaning(two, node), meaning(three, other)];
                    walk(w, meanings.each_ref(), args.into_iter().cloned().collect())?
                }
                None => write(w, [&node.op, &other.op], &args, same, outs)
                    .map_err(|problem| format!("`{}` of {}: {problem}", node.op, node.site))?,
            }
        };
        for (&out, held) in node.outs.iter().zip(made) {
            values[out.index()] = Some(held);
        }
    }
    let outs = two.outputs().iter().map(|o| values[o.index()].clone());
    outs.collect::<Option<_>>()
        .ok_or_else(|| "an output is never defined".into())
}

/// An op of several steps in simpler ones.
fn meaning(graph: &Graph, node: &Node) -> Graph {
    let types: Vec<Type> = node.args.iter().map(|&a| graph.ty(a).clone()).collect();
    match &node.op {
        Op::Lstm(op) => op.meaning(&types),
        _ => Graph::default(),
    }
}

fn write(
    w: &mut Writer,
    ops: [&Op; 2],
    args: &[&Held],
    same: bool,
    mut outs: Vec<Vec<Extent>>,
) -> Result<Vec<Held>> {
    if let [Op::While(x), Op::While(y)] = ops {
        return unrolled(w, [x, y], args);
    }
    if let [Op::If(x), Op::If(y)] = ops {
        return branch(w, [x, y], args);
    }
    let out = outs
        .pop()
        .filter(|_| outs.is_empty())
        .ok_or("it has no counterpart")?;
    let one = match (ops[0], args) {
        (Op::Const(c), _) => Held::known("constant", c.shape.dims(), c.data.clone()),
        (Op::Full(full), _) => repeated(full.value, out),
        (Op::Unary(f), [x]) => unary(w, *f, x),
        (Op::Binary(f), [x, y]) => binary(w, *f, x, y),
        (Op::Select(_), [c, x, y]) => select(w, [c, x, y]),
        (Op::Reduce(r), [x]) => reduce(w, r, x, out)?,
        (Op::Broadcast(b), [x]) => broadcast(w, b, x, out),
        (Op::Dot(d), [x, y]) => dot(w, *d, x, y, out)?,
        (Op::Conv(c), [x, y]) => conv(w, c, x, y, out)?,
        (Op::Pool(p), [x, ..]) => pool(w, p, x, same, out)?,
        (Op::Reshape(_), [x]) => match x.number() {
            Some(number) => repeated(number, out),
            None => {
                let name = w.plain(x)?;
                in_order(w.reshape(&name, &out), out)
            }
        },
        (Op::Transpose(t), [x]) => match x.transposed(&t.order) {
            Some(held) => held,
            None => in_order(w.full(x, &t.order)?, out),
        },
        (Op::Slice(s), [x]) => match ops[1] {
            Op::Slice(other) => slice(w, [s, other], x, out)?,
            _ => return Err("the graphs differ".into()),
        },
        (Op::Pad(p), [x]) => pad(w, p, x, out)?,
        (Op::Concat(c), _) => concat(w, c.axis, args, out)?,
        (Op::Gather(_), [table, indices]) => gather(w, table, indices, out)?,
        (Op::Scatter(s), [indices, x]) => scatter(w, s.rows, indices, x, out)?,
        _ => return Err("it has no counterpart in ONNX".into()),
    };
    Ok(vec![one])
}

fn in_order(name: String, extents: Vec<Extent>) -> Held {
    let order = (0..extents.len()).collect();
    Held::data(name, extents, order)
}

/// One number everywhere.
fn repeated(number: f32, extents: Vec<Extent>) -> Held {
    let mut held = Held::known("constant", &[], [number].into());
    held.repeated = vec![true; extents.len()];
    held.extents = extents;
    held
}

fn unary(w: &mut Writer, f: Unary, x: &Held) -> Held {
    let op = match f {
        Unary::Neg => "Neg",
        Unary::Abs => "Abs",
        Unary::Sign => "Sign",
        Unary::Exp => "Exp",
        Unary::Log => "Log",
        Unary::Sqrt => "Sqrt",
        Unary::Recip => "Reciprocal",
        Unary::Sin => "Sin",
        Unary::Cos => "Cos",
        Unary::Tanh => "Tanh",
        Unary::Sigmoid => "Sigmoid",
        Unary::Relu => "Relu",
        Unary::Erf => "Erf",
        Unary::Floor => "Floor",
    };
    let order = order_of(&[x]);
    let name = w.arranged(x, &order);
    pointwise(w.node(op, &[&name], &[]), &[x], order)
}

fn binary(w: &mut Writer, f: Binary, x: &Held, y: &Held) -> Held {
    let nothing = |v: &Held, neutral: f32| v.number().map(f32::to_bits) == Some(neutral.to_bits());
    // Zeros that recurrent layers begin with would otherwise be added in every pass.
    match f {
        Binary::Add if nothing(x, 0.0) && !y.repeated.contains(&true) => return y.clone(),
        Binary::Add | Binary::Sub if nothing(y, 0.0) && !x.repeated.contains(&true) => return x.clone(),
        _ => {}
    }
    let op = match f {
        Binary::Add => "Add",
        Binary::Sub => "Sub",
        Binary::Mul => "Mul",
        Binary::Div => "Div",
        Binary::Max => "Max",
        Binary::Min => "Min",
        Binary::Pow => "Pow",
        Binary::Less => "Less",
        Binary::Equal => "Equal",
    };
    let order = order_of(&[x, y]);
    let names = [x, y].map(|v| w.arranged(v, &order));
    let mut name = w.node(op, &[&names[0], &names[1]], &[]);
    if matches!(f, Binary::Less | Binary::Equal) {
        name = w.node("Cast", &[&name], &[("to", FLOAT)]);
    }
    pointwise(name, &[x, y], order)
}

fn select(w: &mut Writer, args: [&Held; 3]) -> Held {
    let order = order_of(&args);
    let names = args.map(|v| w.arranged(v, &order));
    let condition = w.node("Cast", &[&names[0]], &[("to", BOOL)]);
    let name = w.node("Where", &[&condition, &names[1], &names[2]], &[]);
    pointwise(name, &args, order)
}

/// The order of axes that the fullest of some values has.
fn order_of(values: &[&Held]) -> Vec<usize> {
    let named = values.iter().filter_map(|v| match &v.place {
        Place::Named { order, .. } => Some((v.repeated.iter().filter(|&&r| !r).count(), order)),
        Place::Known { .. } => None,
    });
    match named.max_by_key(|(full, _)| *full) {
        Some((_, order)) => order.clone(),
        None => (0..values[0].rank()).collect(),
    }
}

/// The result of an op on every element; it is repeated where all arguments are.
fn pointwise(name: String, args: &[&Held], order: Vec<usize>) -> Held {
    let rank = args[0].rank();
    let mut held = Held::data(name, args[0].extents.clone(), order);
    held.repeated = (0..rank).map(|a| args.iter().all(|v| v.repeated[a])).collect();
    held
}

fn order_held(x: &Held) -> Vec<usize> {
    order_of(&[x])
}

fn reduce(w: &mut Writer, r: &Reduce, x: &Held, out: Vec<Extent>) -> Result<Held> {
    let order = order_held(x);
    let name = w.full(x, &order)?;
    let axes: Vec<i64> = (0..order.len())
        .filter(|&i| r.axes.contains(&order[i]))
        .map(|i| i as i64)
        .collect();
    let keep = ("keepdims", Setting::Int(0));
    let name = match r.kind {
        _ if axes.is_empty() => name,
        Reduction::Sum => {
            let axes = w.ints(&axes);
            w.node("ReduceSum", &[&name, &axes], &[keep])
        }
        kind => {
            let op = match kind {
                Reduction::Mean => "ReduceMean",
                Reduction::Max => "ReduceMax",
                _ => "ReduceMin",
            };
            w.node(op, &[&name], &[("axes", Setting::Ints(axes)), keep])
        }
    };
    let kept = r.kept(x.rank());
    let left = order
        .iter()
        .filter_map(|a| kept.iter().position(|k| k == a))
        .collect();
    Ok(Held::data(name, out, left))
}

/// Nothing is repeated yet: most ops of ONNX do so themselves.
fn broadcast(w: &mut Writer, b: &Broadcast, x: &Held, out: Vec<Extent>) -> Held {
    let mut repeated = vec![true; out.len()];
    b.axes
        .iter()
        .zip(&x.repeated)
        .for_each(|(&a, &r)| repeated[a] = r);
    let place = match &x.place {
        known @ Place::Known { .. } => known.clone(),
        Place::Named { .. } => {
            let name = w.arranged(x, &(0..x.rank()).collect::<Vec<_>>());
            let new: Vec<i64> = (0..out.len())
                .filter(|a| !b.axes.contains(a))
                .map(|a| a as i64)
                .collect();
            let axes = w.ints(&new);
            Place::Named {
                name: if new.is_empty() {
                    name
                } else {
                    w.node("Unsqueeze", &[&name, &axes], &[])
                },
                order: (0..out.len()).collect(),
            }
        }
    };
    Held {
        place,
        extents: out,
        repeated,
    }
}

fn dot(w: &mut Writer, d: Dot, x: &Held, y: &Held, out: Vec<Extent>) -> Result<Held> {
    let order = |rank: usize, transposed: bool| match (rank, transposed) {
        (2, true) => vec![1, 0],
        (3, true) => vec![0, 2, 1],
        (rank, _) => (0..rank).collect(),
    };
    let (a, b) = (
        w.full(x, &order(x.rank(), d.ta))?,
        w.full(y, &order(y.rank(), d.tb))?,
    );
    Ok(in_order(w.node("MatMul", &[&a, &b], &[]), out))
}

fn window(window: &Window) -> Vec<(&'static str, Setting)> {
    let ints = |list: &[usize]| Setting::Ints(list.iter().map(|&x| x as i64).collect());
    let [[top, bottom], [left, right]] = window.padding;
    let mut settings = vec![
        ("kernel_shape", ints(&window.kernel)),
        ("strides", ints(&window.stride)),
        ("pads", ints(&[top, left, bottom, right])),
    ];
    if window.dilation != [1, 1] {
        settings.push(("dilations", ints(&window.dilation)));
    }
    settings
}

fn conv(w: &mut Writer, c: &Conv, x: &Held, weights: &Held, out: Vec<Extent>) -> Result<Held> {
    if c.role != ConvRole::Forward {
        return Err("the gradient of a convolution has no counterpart here".into());
    }
    let (x, weights) = (w.full(x, &IMAGES)?, w.full(weights, &KERNEL)?);
    let mut settings = window(&c.window);
    settings.push(("group", Setting::Int(c.groups as i64)));
    let name = w.node("Conv", &[&x, &weights], &settings);
    Ok(Held::data(name, out, IMAGES.to_vec()))
}

fn pool(w: &mut Writer, p: &Pool, x: &Held, same: bool, out: Vec<Extent>) -> Result<Held> {
    let mut settings = window(&p.window);
    let name = w.full(x, &IMAGES)?;
    let name = match p.role {
        PoolRole::MaxPick if same => w.node("MaxPool", &[&name], &settings),
        PoolRole::Sum if p.window.dilation == [1, 1] => {
            settings.push(("count_include_pad", Setting::Int(1)));
            let mean = w.node("AveragePool", &[&name], &settings);
            let taps = (p.window.kernel[0] * p.window.kernel[1]) as f32;
            let taps = w.floats("taps", &[], &[taps]);
            w.node("Mul", &[&mean, &taps], &[])
        }
        _ => return Err("this pooling has no counterpart in ONNX".into()),
    };
    Ok(Held::data(name, out, IMAGES.to_vec()))
}

fn slice(w: &mut Writer, slices: [&Slice; 2], x: &Held, out: Vec<Extent>) -> Result<Held> {
    let [s, other] = slices;
    let order = order_held(x);
    let mut name = w.arranged(x, &order);
    let mut parts: [Vec<i64>; 4] = Default::default();
    for (i, &axis) in order.iter().enumerate() {
        let stops = Extent::of(&s.stop, &other.stop)[axis];
        let whole = s.start[axis] == 0 && s.step[axis] == 1 && stops == x.extents[axis];
        // A repeated axis is as good shorter.
        if whole || x.repeated[axis] {
            continue;
        }
        if !stops.is_fixed() || s.start[axis] != other.start[axis] {
            return Err("a slice follows the batch size".into());
        }
        let numbers = [s.start[axis], s.stop[axis], i, s.step[axis]];
        parts
            .iter_mut()
            .zip(numbers)
            .for_each(|(list, n)| list.push(n as i64));
    }
    if !parts[0].is_empty() {
        let lists = parts.map(|list| w.ints(&list));
        name = w.node("Slice", &[&name, &lists[0], &lists[1], &lists[2], &lists[3]], &[]);
    }
    let mut held = Held::data(name, out, order);
    held.repeated = x.repeated.clone();
    Ok(held)
}

fn pad(w: &mut Writer, p: &Pad, x: &Held, out: Vec<Extent>) -> Result<Held> {
    if p.gap.iter().any(|&g| g != 0) {
        return Err("zeros between elements have no counterpart in ONNX".into());
    }
    let order = order_held(x);
    let name = w.full(x, &order)?;
    let side = |pads: &[usize]| order.iter().map(|&a| pads[a] as i64).collect::<Vec<_>>();
    let pads = w.ints(&[side(&p.low), side(&p.high)].concat());
    Ok(Held::data(w.node("Pad", &[&name, &pads], &[]), out, order))
}

fn concat(w: &mut Writer, axis: usize, args: &[&Held], out: Vec<Extent>) -> Result<Held> {
    let order = order_of(args);
    let names: Vec<String> = args.iter().map(|v| w.full(v, &order)).collect::<Result<_>>()?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let place = order.iter().position(|&a| a == axis).unwrap_or(axis);
    let name = w.node("Concat", &names, &[("axis", Setting::Int(place as i64))]);
    Ok(Held::data(name, out, order))
}

fn gather(w: &mut Writer, table: &Held, indices: &Held, out: Vec<Extent>) -> Result<Held> {
    let table = w.plain(table)?;
    if let (Some(index), 0) = (indices.number(), indices.rank()) {
        let index = w.ints(&[index as i64]);
        let row = w.node("Gather", &[&table, &index], &[]);
        return Ok(in_order(w.reshape(&row, &out), out));
    }
    let indices = w.plain(indices)?;
    let indices = w.node("Cast", &[&indices], &[("to", INT64)]);
    Ok(in_order(w.node("Gather", &[&table, &indices], &[]), out))
}

/// A block put at one known row among zeros.
fn scatter(w: &mut Writer, rows: usize, indices: &Held, x: &Held, out: Vec<Extent>) -> Result<Held> {
    let row = indices
        .number()
        .filter(|_| indices.rank() == 0)
        .map(|n| n as usize);
    let Some(row) = row.filter(|&r| r < rows) else {
        return Err("a scatter at indices from the data has no counterpart here".into());
    };
    let name = w.plain(x)?;
    let first = w.ints(&[0]);
    let block = w.node("Unsqueeze", &[&name, &first], &[]);
    let mut pads = vec![0; 2 * out.len()];
    (pads[0], pads[out.len()]) = (row as i64, (rows - 1 - row) as i64);
    let pads = w.ints(&pads);
    Ok(in_order(w.node("Pad", &[&block, &pads], &[]), out))
}
