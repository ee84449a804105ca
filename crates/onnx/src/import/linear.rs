//! Matrix products and reductions.

use synod_engine::Tensor;
use synod_engine::ops::Dot;

use super::call::{Call, Item, Outcome, axes, one};
use super::view::View;
use crate::literal::Ints;

pub(super) fn gemm(call: &Call<'_>) -> Outcome {
    let ta = call.int("transA", 0) != 0;
    let (x, weight) = (call.tensor(0)?, call.formed(1)?);
    // A weight that is multiplied transposed is kept transposed.
    let product = x.dot_with(&weight, Dot { ta, tb: false });
    let (alpha, beta) = (call.float("alpha", 1.0), call.float("beta", 1.0));
    let product = if alpha == 1.0 { product } else { product * alpha };
    if call.optional(2).is_none() || product.error().is_some() {
        return one(product);
    }
    let bias = call.tensor(2)?;
    one(product + if beta == 1.0 { bias } else { bias * beta })
}

pub(super) fn matmul(call: &Call<'_>) -> Outcome {
    let (x, y) = (call.tensor(0)?, call.tensor(1)?);
    let (a, b) = (x.shape().dims().to_vec(), y.shape().dims().to_vec());
    one(match (a.as_slice(), b.as_slice()) {
        ([k], [_, n]) => x.reshape([1, *k]).dot(&y).reshape([*n]),
        ([lead @ .., m, _], [k]) => {
            let column = y.reshape([*k, 1]);
            product(&x, &column)?.reshape([lead, &[*m]].concat())
        }
        _ => product(&x, &y)?,
    })
}

/// The product of two stacks of matrices, of any depth.
fn product(x: &Tensor, y: &Tensor) -> Result<Tensor, String> {
    let (a, b) = (x.shape().dims(), y.shape().dims());
    let ([lead @ .., m, k], [stack @ .., l, n]) = (a, b) else {
        return Err(format!("{} and {} are not matrices", x.shape(), y.shape()));
    };
    if lead.is_empty() && stack.is_empty() {
        return Ok(x.dot(y));
    }
    if stack.is_empty() {
        // All rows meet the same matrix.
        let rows: usize = lead.iter().product::<usize>() * m;
        return Ok(x.reshape([rows, *k]).dot(y).reshape([lead, &[*m, *n]].concat()));
    }
    let wide = if lead.len() >= stack.len() { lead } else { stack };
    let joined: Vec<usize> = match lead.len() == stack.len() {
        true => lead
            .iter()
            .zip(stack)
            .map(|(&p, &q)| if p == 1 { q } else { p })
            .collect(),
        false => wide.to_vec(),
    };
    let depth: usize = joined.iter().product();
    let flat = |t: &Tensor, p: usize, q: usize| {
        t.broadcast_to([joined.as_slice(), &[p, q]].concat())
            .reshape([depth, p, q])
    };
    let result = flat(x, *m, *k).dot(&flat(y, *l, *n));
    Ok(result.reshape([joined.as_slice(), &[*m, *n]].concat()))
}

pub(super) fn reduce(call: &Call<'_>) -> Outcome {
    let list = call.list(1, "axes")?;
    if let (Item::Ints(ints), "ReduceProd") = (call.item(0)?, call.op()) {
        let product = ints.values.iter().try_fold(1i64, |p, &x| p.checked_mul(x));
        let product = product.ok_or("a product of whole numbers overflows")?;
        let dims = vec![
            1;
            if call.int("keepdims", 1) == 0 {
                0
            } else {
                ints.dims.len()
            }
        ];
        return one(Ints {
            dims,
            values: vec![product],
        });
    }
    let view = call.view(0)?;
    let gone = match list {
        Some(list) if !list.is_empty() => axes(&list, view.rank())?,
        _ if call.int("noop_with_empty_axes", 0) != 0 => return one(view),
        _ => (0..view.rank()).collect(),
    };
    let mut places: Vec<usize> = gone.iter().map(|&a| view.place(a)).collect();
    places.sort_unstable();
    let x = view.tensor();
    let reduced = match call.op() {
        "ReduceMean" => x.mean(&places),
        "ReduceSum" => x.sum(&places),
        "ReduceMax" => x.max(&places),
        "ReduceMin" => x.min(&places),
        "ReduceL2" => (x * x).sum(&places).sqrt(),
        "ReduceSumSquare" => (x * x).sum(&places),
        other => return Err(format!("{other} of data is not supported")),
    };
    if call.int("keepdims", 1) != 0 {
        let mut dims = x.shape().dims().to_vec();
        places.iter().for_each(|&p| dims[p] = 1);
        return one(view.like(reduced.reshape(dims)));
    }
    // The places of the axes that stay, with the gaps closed.
    let kept = (0..view.rank())
        .filter(|a| !gone.contains(a))
        .map(|a| view.place(a));
    let order = kept.map(|p| p - places.iter().filter(|&&q| q < p).count());
    one(View::stored(reduced, order.collect()))
}
