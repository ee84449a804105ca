//! Convolution and pooling, one term at a time.

use super::Real;
use crate::ops::{Conv, ConvExtents, ConvRole, Pool, PoolRole, Window};

/// Calls `f(position, tap)` for every position of the image that the window covers at a place: offsets in row-major order,
/// ascending.
fn covered(window: &Window, [i, j]: [usize; 2], mut f: impl FnMut(usize, usize)) {
    for p in 0..window.kernel[0] {
        let Some(y) = window.reads(0, i, p) else { continue };
        for q in 0..window.kernel[1] {
            if let Some(x) = window.reads(1, j, q) {
                f(y * window.input[1] + x, p * window.kernel[1] + q);
            }
        }
    }
}

/// All places of the window, with their offsets.
fn places(of: [usize; 2]) -> impl Iterator<Item = (usize, [usize; 2])> {
    (0..of[0] * of[1]).map(move |at| (at, [at / of[1], at % of[1]]))
}

/// Sums every term of a convolution into the tensor that its role computes.
pub(crate) fn conv<T: Real>(op: &Conv, e: &ConvExtents, first: &[T], second: &[T], out: &mut [T]) {
    out.fill(T::of(0.0));
    let (input, count) = (op.window.input[0] * op.window.input[1], e.places[0] * e.places[1]);
    for n in 0..e.n {
        for (place, at) in places(e.places) {
            let y = (n * count + place) * e.outputs;
            covered(&op.window, at, |position, tap| {
                let x = (n * input + position) * e.channels;
                terms(op, e, [x, tap, y], first, second, out);
            });
        }
    }
}

/// The terms of one tap at one place; `x` and `y` are offsets of the first channel of input and output.
fn terms<T: Real>(
    op: &Conv,
    e: &ConvExtents,
    [x, tap, y]: [usize; 3],
    first: &[T],
    second: &[T],
    out: &mut [T],
) {
    let (per_group, outputs) = (e.channels / op.groups, e.outputs / op.groups);
    for g in 0..op.groups {
        let y = y + g * outputs..y + (g + 1) * outputs;
        for c in 0..per_group {
            let x = x + g * per_group + c;
            let w = (tap * per_group + c) * e.outputs + g * outputs;
            let w = w..w + outputs;
            match op.role {
                ConvRole::Forward => add_scaled(&mut out[y.clone()], first[x], &second[w]),
                ConvRole::WeightGradient => add_scaled(&mut out[w], first[x], &second[y.clone()]),
                ConvRole::InputGradient => {
                    let pairs = first[y.clone()].iter().zip(&second[w]);
                    out[x] = pairs.fold(out[x], |sum, (&d, &w)| sum + d * w);
                }
            }
        }
    }
}

fn add_scaled<T: Real>(to: &mut [T], factor: T, from: &[T]) {
    to.iter_mut()
        .zip(from)
        .for_each(|(to, &x)| *to = *to + factor * x);
}

/// Pools `n` images of `channels`.
pub(crate) fn pool<T: Real>(op: &Pool, [n, channels]: [usize; 2], args: &[&[T]], out: &mut [T]) {
    out.fill(T::of(0.0));
    let window = &op.window;
    let of = window.output().unwrap_or([0, 0]);
    let (input, count) = (window.input[0] * window.input[1], of[0] * of[1]);
    for image in 0..n {
        for (place, at) in places(of) {
            for c in 0..channels {
                let to = (image * count + place) * channels + c;
                let from = |position: usize| (image * input + position) * channels + c;
                match op.role {
                    PoolRole::Sum => covered(window, at, |position, _| {
                        out[to] = out[to] + args[0][from(position)];
                    }),
                    PoolRole::SumSpread => covered(window, at, |position, _| {
                        out[from(position)] = out[from(position)] + args[0][to];
                    }),
                    PoolRole::MaxPick | PoolRole::MaxSpread => {
                        let Some(position) = largest(window, at, |p| args[0][from(p)]) else {
                            continue;
                        };
                        match op.role {
                            PoolRole::MaxPick => out[to] = args[1][from(position)],
                            _ => out[from(position)] = out[from(position)] + args[1][to],
                        }
                    }
                }
            }
        }
    }
}

/// Where the largest element is at a place: the first of equals, NaN above all.
fn largest<T: Real>(window: &Window, at: [usize; 2], x: impl Fn(usize) -> T) -> Option<usize> {
    let nan = |v: T| v.to_f64().is_nan();
    let mut best: Option<usize> = None;
    covered(window, at, |position, _| {
        let larger = |old: usize| !nan(x(old)) && (nan(x(position)) || x(position) > x(old));
        if best.is_none_or(larger) {
            best = Some(position);
        }
    });
    best
}
