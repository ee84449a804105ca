//! Ops that move elements, and those that speak of shapes.

use synod_engine::{Shape, Tensor};

use super::call::{Call, Item, Outcome, axes, axis, literal, one};
use super::integers::{self, LONGEST};
use super::view::View;
use crate::literal::{Ints, Literal};

/// The extents that a list of whole numbers names.
fn extents(ints: &Ints) -> Result<Vec<usize>, String> {
    let dims: Option<Vec<usize>> = ints.values.iter().map(|&d| usize::try_from(d).ok()).collect();
    let dims = dims.filter(|d| Shape::from(d.as_slice()).checked_elements().is_some());
    dims.ok_or_else(|| format!("{:?} is not a shape", ints.values))
}

pub(super) fn constant(call: &Call<'_>) -> Outcome {
    if let Some(tensor) = call.literal("value") {
        return Ok(vec![match Literal::read(tensor)? {
            Literal::Floats(floats) => Item::Floats(floats),
            Literal::Ints(ints) => Item::Ints(ints),
        }]);
    }
    let floats = |dims: Vec<usize>, values: Vec<f32>| {
        let values = values.into();
        Ok(vec![Item::Floats(crate::literal::Floats { dims, values })])
    };
    let whole = |dims, values| one(Ints { dims, values });
    if call.has("value_float") {
        return floats(vec![], vec![call.float("value_float", 0.0)]);
    }
    if call.has("value_int") {
        return whole(vec![], vec![call.int("value_int", 0)]);
    }
    if let Some(list) = call.float_list("value_floats") {
        return floats(vec![list.len()], list.to_vec());
    }
    match call.int_list("value_ints") {
        Some(list) => whole(vec![list.len()], list.to_vec()),
        None => Err("a Constant without a value that Synod reads".into()),
    }
}

pub(super) fn same(call: &Call<'_>) -> Outcome {
    Ok(vec![call.item(0)?.clone()])
}

pub(super) fn shape(call: &Call<'_>) -> Outcome {
    let dims = match call.item(0)? {
        Item::Ints(ints) => ints.dims.clone(),
        _ => call.view(0)?.dims(),
    };
    let n = dims.len() as i64;
    let at = |i: i64| (if i < 0 { i.saturating_add(n) } else { i }).clamp(0, n) as usize;
    let (start, end) = (at(call.int("start", 0)), at(call.int("end", n)));
    let part = dims.get(start..end.max(start)).unwrap_or(&[]);
    one(Ints::vector(part.iter().map(|&d| d as i64).collect()))
}

pub(super) fn constant_of_shape(call: &Call<'_>) -> Outcome {
    let dims = extents(call.ints(0)?)?;
    let count: usize = dims.iter().product();
    match call.literal("value").map(Literal::read).transpose()? {
        Some(Literal::Ints(x)) if count <= LONGEST => {
            let value = *x.values.first().ok_or("the value is empty")?;
            one(Ints {
                dims,
                values: vec![value; count],
            })
        }
        Some(Literal::Ints(_)) => Err(format!("{dims:?} is too large a shape of whole numbers")),
        Some(Literal::Floats(x)) => {
            let value = *x.values.first().ok_or("the value is empty")?;
            one(Tensor::full(value, dims))
        }
        None => one(Tensor::zeros(dims)),
    }
}

pub(super) fn expand(call: &Call<'_>) -> Outcome {
    let (view, target) = (call.view(0)?, extents(call.ints(1)?)?);
    let from = view.dims();
    let rank = from.len().max(target.len());
    let extent = |dims: &[usize], i: usize| match (i + dims.len()).checked_sub(rank) {
        Some(at) => dims[at],
        None => 1,
    };
    let dims: Vec<usize> = (0..rank)
        .map(|i| match (extent(&from, i), extent(&target, i)) {
            (a, 1) => a,
            (_, b) => b,
        })
        .collect();
    let wide = view.widened(rank);
    let stored: Vec<usize> = wide.places().iter().map(|&a| dims[a]).collect();
    one(wide.like(wide.tensor().broadcast_to(stored)))
}

pub(super) fn range(call: &Call<'_>) -> Outcome {
    let at = |i: usize| -> Result<i64, String> {
        let ints = call.ints(i)?;
        ints.values
            .first()
            .copied()
            .ok_or_else(|| format!("input {i} is empty"))
    };
    one(integers::range(at(0)?, at(1)?, at(2)?)?)
}

/// The extents after a reshape: 0 keeps an extent, -1 takes what is left.
fn reshaped(call: &Call<'_>, from: &[usize], wanted: &[i64]) -> Result<Vec<usize>, String> {
    let total: usize = from.iter().product();
    let mut dims = vec![];
    for (i, &d) in wanted.iter().enumerate() {
        dims.push(match d {
            0 if call.int("allowzero", 0) == 0 => {
                *from.get(i).ok_or("a 0 keeps an extent that is not there")?
            }
            -1 => 1,
            d => usize::try_from(d).map_err(|_| format!("{d} is not an extent"))?,
        });
    }
    let shape = |dims: &[usize]| Shape::from(dims).checked_elements();
    let known = shape(&dims).ok_or_else(|| format!("{wanted:?} is too large"))?;
    if let Some(free) = wanted.iter().position(|&d| d == -1) {
        if known == 0 || !total.is_multiple_of(known) {
            return Err(format!("{from:?} cannot become {wanted:?}"));
        }
        dims[free] = total / known;
    } else if known != total && call.fixed.is_some() && wanted.first() == call.fixed.as_ref() {
        // The file was exported for one batch size, which the shape repeats.
        dims[0] = call.batch;
    }
    Ok(dims)
}

pub(super) fn reshape(call: &Call<'_>) -> Outcome {
    let wanted = call.list(1, "shape")?.ok_or("a Reshape without a shape")?;
    if let Item::Ints(ints) = call.item(0)? {
        let dims = reshaped(call, &ints.dims, &wanted)?;
        return match dims.iter().product::<usize>() == ints.values.len() {
            true => one(Ints { dims, ..ints.clone() }),
            false => Err(format!("{:?} cannot become {wanted:?}", ints.dims)),
        };
    }
    let view = call.view(0)?;
    let dims = reshaped(call, &view.dims(), &wanted)?;
    one(view.in_order().reshape(dims))
}

pub(super) fn flatten(call: &Call<'_>) -> Outcome {
    let view = call.view(0)?;
    let dims = view.dims();
    // The axis may also name the end.
    let at = match call.int("axis", 1) {
        a if a == dims.len() as i64 => dims.len(),
        a => axis(a, dims.len())?,
    };
    let flat = [dims[..at].iter().product(), dims[at..].iter().product()];
    one(view.in_order().reshape(flat))
}

pub(super) fn squeeze(call: &Call<'_>) -> Outcome {
    let dims = match call.item(0)? {
        Item::Ints(ints) => ints.dims.clone(),
        _ => call.view(0)?.dims(),
    };
    let gone = match call.list(1, "axes")? {
        Some(list) => axes(&list, dims.len())?,
        None => (0..dims.len()).filter(|&a| dims[a] == 1).collect(),
    };
    if let Some(a) = gone.iter().find(|&&a| dims[a] != 1) {
        return Err(format!("axis {a} of {dims:?} is not of extent 1"));
    }
    let kept: Vec<usize> = (0..dims.len()).filter(|a| !gone.contains(a)).collect();
    let dims = kept.iter().map(|&a| dims[a]).collect();
    redone(call, dims)
}

pub(super) fn unsqueeze(call: &Call<'_>) -> Outcome {
    let list = call.list(1, "axes")?.ok_or("an Unsqueeze without axes")?;
    let dims = match call.item(0)? {
        Item::Ints(ints) => ints.dims.clone(),
        _ => call.view(0)?.dims(),
    };
    let new = axes(&list, dims.len() + list.len())?;
    let mut old = dims.iter();
    let dims = (0..dims.len() + new.len())
        .map(|a| {
            if new.contains(&a) {
                1
            } else {
                old.next().copied().unwrap_or(1)
            }
        })
        .collect();
    redone(call, dims)
}

/// The first input under a shape that differs only in extents of 1.
fn redone(call: &Call<'_>, dims: Vec<usize>) -> Outcome {
    match call.item(0)? {
        Item::Ints(ints) => one(Ints { dims, ..ints.clone() }),
        _ => one(call.tensor(0)?.reshape(dims)),
    }
}

pub(super) fn transpose(call: &Call<'_>) -> Outcome {
    let view = call.view(0)?;
    let order = match call.int_list("perm") {
        Some(list) if list.len() == view.rank() && axes(list, view.rank()).is_ok() => list
            .iter()
            .map(|&a| axis(a, view.rank()))
            .collect::<Result<Vec<_>, _>>()?,
        Some(list) => return Err(format!("perm {list:?} is no order of {} axes", view.rank())),
        None => (0..view.rank()).rev().collect(),
    };
    one(view.transposed(&order))
}

pub(super) fn concat(call: &Call<'_>) -> Outcome {
    let items: Vec<&Item> = (0..call.inputs.len())
        .map(|i| call.item(i))
        .collect::<Result<_, _>>()?;
    let ints: Option<Vec<&Ints>> = items
        .iter()
        .map(|i| match i {
            Item::Ints(ints) => Some(ints),
            _ => None,
        })
        .collect();
    if let Some(lists) = ints {
        let values: Vec<i64> = lists.iter().flat_map(|l| l.values.iter().copied()).collect();
        return match lists.iter().all(|l| l.dims.len() == 1) && values.len() <= LONGEST {
            true => one(Ints::vector(values)),
            false => Err("only short lists of whole numbers are concatenated".into()),
        };
    }
    let views: Vec<View> = (0..items.len()).map(|i| call.view(i)).collect::<Result<_, _>>()?;
    let first = &views[0];
    let at = first.place(axis(call.int("axis", 0), first.rank())?);
    if views.iter().any(|v| v.rank() != first.rank()) {
        return Err("the inputs differ in rank".into());
    }
    let parts: Vec<Tensor> = views.iter().map(|v| v.arranged(&first.places())).collect();
    one(first.like(Tensor::concat(&parts, at)))
}

pub(super) fn split(call: &Call<'_>) -> Outcome {
    let view = call.view(0)?;
    let at = axis(call.int("axis", 0), view.rank())?;
    let (extent, parts) = (view.dims()[at], call.node.output.len().max(1));
    let sizes = match call.list(1, "split")? {
        Some(list) => extents(&Ints::vector(list))?,
        None => {
            let size = extent.div_ceil(parts);
            (0..parts)
                .map(|i| extent.saturating_sub(i * size).min(size))
                .collect()
        }
    };
    let mut start = 0usize;
    let pieces = sizes.iter().map(|&size| {
        let range = start..start.saturating_add(size);
        start = range.end;
        Item::View(view.like(view.tensor().slice(view.place(at), range)))
    });
    Ok(pieces.collect())
}

/// One axis of a `Slice`: where it starts, where it ends and how far it steps.
fn bounds(extent: usize, start: i64, end: i64, step: i64) -> Result<(usize, usize, usize), String> {
    let n = extent as i64;
    let at = |i: i64| (if i < 0 { i.saturating_add(n) } else { i }).clamp(0, n) as usize;
    match usize::try_from(step) {
        Ok(step) if step > 0 => Ok((at(start), at(end).max(at(start)), step)),
        _ => Err(format!("a Slice with step {step} is not supported")),
    }
}

pub(super) fn slice(call: &Call<'_>) -> Outcome {
    let starts = call.list(1, "starts")?.ok_or("a Slice without starts")?;
    let ends = call.list(2, "ends")?.ok_or("a Slice without ends")?;
    let n = starts.len();
    let which = call.list(3, "axes")?.unwrap_or_else(|| (0..n as i64).collect());
    let steps = call.list(4, "steps")?.unwrap_or_else(|| vec![1; n]);
    if [ends.len(), which.len(), steps.len()] != [n; 3] {
        return Err("starts, ends, axes and steps differ in length".into());
    }
    if let Item::Ints(ints) = call.item(0)? {
        if ints.dims.len() != 1 || n != 1 {
            return Err("only lists of whole numbers are sliced".into());
        }
        let (start, end, step) = bounds(ints.values.len(), starts[0], ends[0], steps[0])?;
        let part = ints.values[start..end].iter().step_by(step).copied();
        return one(Ints::vector(part.collect()));
    }
    let view = call.view(0)?;
    let mut result = view.tensor().clone();
    for i in 0..n {
        let place = view.place(axis(which[i], view.rank())?);
        let extent = result.shape().dims()[place];
        let (start, end, step) = bounds(extent, starts[i], ends[i], steps[i])?;
        result = stepped(&result, place, start, end, step);
    }
    one(view.like(result))
}

/// Every `step`-th element of a range along an axis.
fn stepped(x: &Tensor, axis: usize, start: usize, end: usize, step: usize) -> Tensor {
    if step == 1 {
        return x.slice(axis, start..end);
    }
    let picked: Vec<f32> = (start..end).step_by(step).map(|i| i as f32).collect();
    let n = picked.len();
    pick(x, axis, &Tensor::new(picked, [n]))
}

/// Sub-tensors picked along any axis; the indices' axes stand in its place.
fn pick(x: &Tensor, axis: usize, indices: &Tensor) -> Tensor {
    let rank = x.shape().rank();
    let front: Vec<usize> = std::iter::once(axis)
        .chain((0..rank).filter(|&a| a != axis))
        .collect();
    let table = if axis == 0 { x.clone() } else { x.transpose(&front) };
    let picked = table.gather(indices);
    if axis == 0 {
        return picked;
    }
    let m = indices.shape().rank();
    // The indices' axes come first; they belong after the `axis` axes that stood before.
    let order: Vec<usize> = (m..m + axis).chain(0..m).chain(m + axis..m + rank - 1).collect();
    picked.transpose(&order)
}

pub(super) fn gather(call: &Call<'_>) -> Outcome {
    if let (Item::Ints(table), Item::Ints(indices)) = (call.item(0)?, call.item(1)?) {
        return one(integers::gather(table, indices)?);
    }
    let table = call.view(0)?;
    let at = axis(call.int("axis", 0), table.rank())?;
    let rows = table.dims()[at];
    let indices = match call.item(1)? {
        Item::Ints(known) => {
            let wrapped: Result<Vec<i64>, String> = known
                .values
                .iter()
                .map(|&i| axis(i, rows).map(|i| i as i64))
                .collect();
            let ints = Ints {
                values: wrapped?,
                dims: known.dims.clone(),
            };
            if let ([i], []) = (ints.values.as_slice(), ints.dims.as_slice()) {
                // One known index is a slice, which has a cheaper gradient.
                let one_row = table
                    .tensor()
                    .slice(table.place(at), *i as usize..*i as usize + 1);
                let dims: Vec<usize> = (0..table.rank())
                    .filter(|&a| a != at)
                    .map(|a| table.dims()[a])
                    .collect();
                return one(table.like(one_row).in_order().reshape(dims));
            }
            literal(&ints.to_floats()).in_order()
        }
        _ => {
            let indices = call.tensor(1)?;
            indices.less(0.0).select(&indices + rows as f32, &indices)
        }
    };
    one(pick(&table.in_order(), at, &indices))
}

pub(super) fn pad(call: &Call<'_>) -> Outcome {
    let mode = call.text("mode").unwrap_or_else(|| "constant".into());
    let value = match call.optional(2) {
        Some(_) => call.number(2)?,
        None => call.float("value", 0.0),
    };
    if mode != "constant" || value != 0.0 {
        return Err(format!(
            "a Pad of mode `{mode}` with {value} is not supported; only zeros are"
        ));
    }
    let pads = call.list(1, "pads")?.ok_or("a Pad without pads")?;
    let view = call.view(0)?;
    let which = match call.optional(3) {
        Some(_) => call.ints(3)?.values.clone(),
        None => (0..view.rank() as i64).collect(),
    };
    if pads.len() != 2 * which.len() {
        return Err(format!("{} pads for {} axes", pads.len(), which.len()));
    }
    let (mut low, mut high) = (vec![0; view.rank()], vec![0; view.rank()]);
    let mut result = view.tensor().clone();
    for (i, &a) in which.iter().enumerate() {
        let place = view.place(axis(a, view.rank())?);
        let extent = result.shape().dims()[place];
        // A negative pad cuts.
        let (cut_low, cut_high) = (pads[i].min(0), pads[i + which.len()].min(0));
        let (start, end, _) = bounds(
            extent,
            cut_low.saturating_neg(),
            (extent as i64).saturating_add(cut_high),
            1,
        )?;
        if (start, end) != (0, extent) {
            result = result.slice(place, start..end);
        }
        low[place] = pads[i].max(0) as usize;
        high[place] = pads[i + which.len()].max(0) as usize;
    }
    match low.iter().chain(&high).all(|&p| p == 0) {
        true => one(view.like(result)),
        false => one(view.like(result.pad(&low, &high))),
    }
}
