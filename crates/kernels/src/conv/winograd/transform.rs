//! The transforms of squares of 6 x 6, by the points 0, 1, -1, 2, -2 and infinity.
//!
//! A polynomial of degree five is known from its values at six points. The product of one with the taps of a filter as
//! coefficients and one with results as coefficients has that degree for three taps and four results, and for five and two. So both
//! kinds of filters share the transform of the source, and the gradients' transforms are the transposes of these.

use crate::vector::Vector;

/// Rows and columns of a square.
pub(super) const SIDE: usize = 6;

/// Values of a square.
pub(super) const POINTS: usize = SIDE * SIDE;

/// Numbers in every lane.
#[inline(always)]
fn all<V: Vector>(x: f32) -> V {
    // SAFETY: the transforms run inside kernels, whose callers vouch for the CPU.
    unsafe { V::splat(x) }
}

#[inline(always)]
fn scaled<V: Vector>(value: V, by: f32) -> V {
    value * all(by)
}

/// Values from sources.
#[inline(always)]
pub(super) fn source<V: Vector>(d: [V; SIDE]) -> [V; SIDE] {
    let (four, five) = (all::<V>(4.0), all::<V>(5.0));
    let (a, b) = (four.neg_mul_add(d[2], d[4]), four.neg_mul_add(d[1], d[3]));
    let (c, e) = (d[4] - d[2], d[3] - d[1]);
    let e = e + e;
    [
        four.mul_add(d[0], five.neg_mul_add(d[2], d[4])),
        a + b,
        a - b,
        c + e,
        c - e,
        four.mul_add(d[1], five.neg_mul_add(d[3], d[5])),
    ]
}

/// Results from values, two or four.
#[inline(always)]
pub(super) fn results<V: Vector, const M: usize>(m: [V; SIDE]) -> [V; M] {
    let (sum, difference) = (m[1] + m[2], m[1] - m[2]);
    let (far_sum, far_difference) = (m[3] + m[4], m[3] - m[4]);
    let mut y = [m[0] + sum + far_sum; M];
    let mut power = 2.0;
    for (i, y) in y.iter_mut().enumerate().skip(1) {
        let [near, far] = match i % 2 {
            0 => [sum, far_sum],
            _ => [difference, far_difference],
        };
        *y = all::<V>(power).mul_add(far, near);
        power *= 2.0;
    }
    y[M - 1] = y[M - 1] + m[5];
    y
}

/// Values from the gradients of results: the transpose of [`results`].
#[inline(always)]
pub(super) fn spread<V: Vector, const M: usize>(y: [V; M]) -> [V; SIDE] {
    let zero = all::<V>(0.0);
    let (mut even, mut odd, mut far_even, mut far_odd) = (y[0], zero, y[0], zero);
    let mut power = 2.0;
    for (i, &y) in y.iter().enumerate().skip(1) {
        match i % 2 {
            0 => (even, far_even) = (even + y, all::<V>(power).mul_add(y, far_even)),
            _ => (odd, far_odd) = (odd + y, all::<V>(power).mul_add(y, far_odd)),
        }
        power *= 2.0;
    }
    [
        y[0],
        even + odd,
        even - odd,
        far_even + far_odd,
        far_even - far_odd,
        y[M - 1],
    ]
}

/// Values from the taps of a filter, three or five.
#[inline(always)]
pub(super) fn filter<V: Vector, const R: usize>(g: [V; R]) -> [V; SIDE] {
    let values = spread::<V, R>(g);
    [
        scaled::<V>(values[0], 1.0 / 4.0),
        scaled::<V>(values[1], -1.0 / 6.0),
        scaled::<V>(values[2], -1.0 / 6.0),
        scaled::<V>(values[3], 1.0 / 24.0),
        scaled::<V>(values[4], 1.0 / 24.0),
        values[5],
    ]
}

/// The gradients of taps from those of values: the transpose of [`filter`].
#[inline(always)]
pub(super) fn taps<V: Vector, const R: usize>(u: [V; SIDE]) -> [V; R] {
    results([
        scaled::<V>(u[0], 1.0 / 4.0),
        scaled::<V>(u[1], -1.0 / 6.0),
        scaled::<V>(u[2], -1.0 / 6.0),
        scaled::<V>(u[3], 1.0 / 24.0),
        scaled::<V>(u[4], 1.0 / 24.0),
        u[5],
    ])
}

/// How much each value counts at most in one of so many taps.
#[inline(always)]
pub(super) fn tap_weights(taps: usize) -> [f32; SIDE] {
    let far = (1 << (taps - 1)) as f32 / 24.0;
    [1.0 / 4.0, 1.0 / 6.0, 1.0 / 6.0, far, far, 1.0]
}

/// A transform of one line. A type and not a closure, for the call of a closure would be a function of its own, compiled
/// without the level's instructions.
pub(super) trait Transform<const A: usize, const B: usize> {
    fn line<V: Vector>(line: [V; A]) -> [V; B];
}

/// [`source`].
pub(super) struct OfSource;
/// [`results`].
pub(super) struct ToResults;
/// [`spread`].
pub(super) struct OfErrors;
/// [`filter`].
pub(super) struct OfTaps;
/// [`taps`].
pub(super) struct ToTaps;

impl Transform<SIDE, SIDE> for OfSource {
    #[inline(always)]
    fn line<V: Vector>(line: [V; SIDE]) -> [V; SIDE] {
        source(line)
    }
}

impl<const M: usize> Transform<SIDE, M> for ToResults {
    #[inline(always)]
    fn line<V: Vector>(line: [V; SIDE]) -> [V; M] {
        results(line)
    }
}

impl<const M: usize> Transform<M, SIDE> for OfErrors {
    #[inline(always)]
    fn line<V: Vector>(line: [V; M]) -> [V; SIDE] {
        spread(line)
    }
}

impl<const R: usize> Transform<R, SIDE> for OfTaps {
    #[inline(always)]
    fn line<V: Vector>(line: [V; R]) -> [V; SIDE] {
        filter(line)
    }
}

impl<const R: usize> Transform<SIDE, R> for ToTaps {
    #[inline(always)]
    fn line<V: Vector>(line: [V; SIDE]) -> [V; R] {
        taps(line)
    }
}

/// Transforms the columns of a square and then its rows.
#[inline(always)]
pub(super) fn both<V: Vector, T: Transform<A, B>, const A: usize, const B: usize>(
    square: [[V; A]; A],
) -> [[V; B]; B] {
    let zero = all::<V>(0.0);
    let mut half = [[zero; A]; B];
    for column in 0..A {
        let mut line = [zero; A];
        for (element, row) in line.iter_mut().zip(&square) {
            *element = row[column];
        }
        let line = T::line(line);
        for (row, element) in half.iter_mut().zip(&line) {
            row[column] = *element;
        }
    }
    let mut whole = [[zero; B]; B];
    for (row, half) in whole.iter_mut().zip(&half) {
        *row = T::line(*half);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::Portable;

    fn lane(x: f32) -> Portable {
        all(x)
    }

    /// One result of a one-dimensional correlation through the transforms.
    fn correlate<const R: usize, const M: usize>(g: [f32; R], d: [f32; SIDE]) -> [f32; M] {
        let (u, v) = (filter(g.map(lane)), source(d.map(lane)));
        let mut products = u;
        for (product, v) in products.iter_mut().zip(v) {
            *product = *product * v;
        }
        results::<Portable, M>(products).map(first)
    }

    fn first(x: Portable) -> f32 {
        let mut lanes = [0.0; crate::vector::MAX_LANES];
        // SAFETY: the array holds the lanes of any vector.
        unsafe { x.store(lanes.as_mut_ptr()) };
        lanes[0]
    }

    fn check<const R: usize, const M: usize>() {
        for tap in 0..R {
            for source in 0..SIDE {
                let (mut g, mut d) = ([0.0; R], [0.0; SIDE]);
                (g[tap], d[source]) = (1.0, 1.0);
                for (i, y) in correlate::<R, M>(g, d).into_iter().enumerate() {
                    let wanted = if i + tap == source { 1.0 } else { 0.0 };
                    assert!((y - wanted).abs() < 1e-5, "{R} taps: {tap} {source} {i}: {y}");
                }
            }
        }
    }

    #[test]
    fn every_pair_of_tap_and_source_meets_in_its_result() {
        check::<3, 4>();
        check::<5, 2>();
    }

    /// `a` as rows, from its action on unit vectors.
    fn matrix<const A: usize, const B: usize>(act: impl Fn([Portable; A]) -> [Portable; B]) -> [[f32; A]; B] {
        let mut rows = [[0.0; A]; B];
        for column in 0..A {
            let mut unit = [0.0; A];
            unit[column] = 1.0;
            for (row, value) in rows.iter_mut().zip(act(unit.map(lane))) {
                row[column] = first(value);
            }
        }
        rows
    }

    #[test]
    fn gradients_go_by_the_transposes() {
        fn check<const A: usize>(ahead: [[f32; SIDE]; A], back: [[f32; A]; SIDE]) {
            for (i, row) in ahead.iter().enumerate() {
                for (j, element) in row.iter().enumerate() {
                    assert!((element - back[j][i]).abs() < 1e-6, "{i} {j}");
                }
            }
        }
        check(matrix(results::<Portable, 2>), matrix(spread::<Portable, 2>));
        check(matrix(results::<Portable, 4>), matrix(spread::<Portable, 4>));
        check(matrix(taps::<Portable, 3>), matrix(filter::<Portable, 3>));
        check(matrix(taps::<Portable, 5>), matrix(filter::<Portable, 5>));
    }
}
