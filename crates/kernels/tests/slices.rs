//! Reductions, layouts and flat algebra.

mod common;

use common::{Random, levels, rounds};
use proptest::prelude::*;
use synod_kernels::{Reduction, flat, gather_rows, reduce, transpose};

#[test]
fn reductions_along_any_axis() {
    let mut random = Random::new(51);
    for round in 0..rounds(200) {
        let inner = if round % 2 == 0 { 1 } else { random.below(80) };
        let (outer, len) = (
            random.below(5),
            random.below(if cfg!(miri) { 40 } else { 5000 / inner.max(1) }),
        );
        let x = random.numbers(outer * len * inner);
        for simd in levels() {
            for kind in [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min] {
                let mut y = vec![f32::NAN; outer * inner];
                reduce(simd, kind, outer, len, inner, &x, &mut y);
                for (at, &found) in y.iter().enumerate() {
                    let elements = || (0..len).map(|i| x[(at / inner * len + i) * inner + at % inner] as f64);
                    let wanted = match kind {
                        Reduction::Sum => elements().sum(),
                        Reduction::Mean => elements().sum::<f64>() / len.max(1) as f64,
                        Reduction::Max => elements().fold(f64::NEG_INFINITY, f64::max),
                        Reduction::Min => elements().fold(f64::INFINITY, f64::min),
                    };
                    let near = (found as f64 - wanted).abs() <= 1e-5 * wanted.abs().max(1.0);
                    assert!(
                        found as f64 == wanted || near,
                        "{kind:?} [{outer}, {len}, {inner}]: {found}, {wanted}"
                    );
                }
            }
        }
    }
}

#[test]
fn extremes_keep_nan_wherever_it_is() {
    for simd in levels() {
        for (len, inner) in [(1, 1), (40, 1), (5, 3), (7, 40)] {
            for position in 0..len {
                let mut x = vec![1.0; len * inner];
                x[position * inner] = f32::NAN;
                for kind in [Reduction::Max, Reduction::Min] {
                    let mut y = vec![0.0; inner];
                    reduce(simd, kind, 1, len, inner, &x, &mut y);
                    assert!(
                        y[0].is_nan() && y[1..].iter().all(|&y| y == 1.0),
                        "{kind:?} {len} {inner} {position}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_long_sum_keeps_its_digits() {
    let x = vec![0.1; if cfg!(miri) { 5000 } else { 3_000_000 }];
    for simd in levels() {
        let mut y = [0.0];
        reduce(simd, Reduction::Mean, 1, x.len(), 1, &x, &mut y);
        assert!((y[0] - 0.1).abs() < 1e-6, "{}", y[0]);
    }
}

#[test]
fn transposing_twice_is_nothing() {
    let mut random = Random::new(52);
    for _ in 0..rounds(100) {
        let (rows, columns) = (random.below(70), random.below(70));
        let x = random.numbers(rows * columns);
        for simd in levels() {
            let (mut y, mut z) = (vec![0.0; x.len()], vec![0.0; x.len()]);
            transpose(simd, rows, columns, &x, &mut y);
            for (at, &value) in x.iter().enumerate() {
                assert_eq!(y[at % columns * rows + at / columns], value);
            }
            transpose(simd, columns, rows, &y, &mut z);
            assert_eq!(x, z);
        }
    }
}

#[test]
fn gathered_rows_come_in_the_order_asked_for() {
    let x = [0.0, 1.0, 10.0, 11.0, 20.0, 21.0];
    let mut y = [0.0; 6];
    gather_rows(&x, 2, &[2, 0, 2], &mut y);
    assert_eq!(y, [20.0, 21.0, 0.0, 1.0, 20.0, 21.0]);
}

#[test]
#[should_panic(expected = "no row 3")]
fn a_row_that_does_not_exist_is_refused() {
    gather_rows(&[0.0; 6], 2, &[3], &mut [0.0; 2]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn inner_products_have_the_same_bits_at_every_level(pairs in prop::collection::vec((-1e3f32..1e3, -1e3f32..1e3), 0..200)) {
        let (x, y): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let exact: f64 = x.iter().zip(&y).map(|(&x, &y)| x as f64 * y as f64).sum();
        for simd in levels() {
            let dot = flat::dot(simd, &x, &y);
            prop_assert!((dot - exact).abs() <= 1e-6);
            prop_assert_eq!(dot.to_bits(), flat::dot(levels()[0], &x, &y).to_bits());
        }
    }

    #[test]
    fn scaling_multiplies_every_element(x in prop::collection::vec(-1e3f32..1e3, 0..200), a in -2f32..2.0) {
        let wanted: Vec<f32> = x.iter().map(|x| x * a).collect();
        for simd in levels() {
            let mut y = x.clone();
            flat::scale(simd, a, &mut y);
            prop_assert_eq!(&y, &wanted);
        }
    }
}
