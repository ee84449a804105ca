//! The elementary functions against double precision, and at the edges.

mod common;

use common::{Random, erf, levels, rounds};
use synod_kernels::{Simd, math};

type Function = fn(Simd, &[f32], &mut [f32]);
/// A function's name, its vector form, its exact form, and whether its error counts absolutely.
type Case = (&'static str, Function, fn(f64) -> f64, bool);

/// Magnitudes from subnormal to huge, both signs, and a dense part around zero.
fn arguments(random: &mut Random) -> Vec<f32> {
    let wide = (0..rounds(4000)).map(|_| random.number() * 10f32.powi(random.below(76) as i32 - 38));
    let mut x: Vec<f32> = wide.collect();
    x.extend((0..rounds(20_000)).map(|_| random.number() * 20.0));
    x.extend((0..rounds(4000)).map(|_| random.number() * 110.0));
    x.extend([
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e-40,
        -1e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::MIN,
        88.7,
        88.8,
        -87.5,
        -103.9,
    ]);
    x.extend([
        0.624_999,
        0.625,
        8192.0,
        8193.0,
        1.0 - f32::EPSILON,
        1.0 + f32::EPSILON,
        std::f32::consts::PI,
    ]);
    x
}

#[test]
fn functions_are_accurate_everywhere() {
    let functions: [Case; 7] = [
        ("exp", math::exp, f64::exp, false),
        ("log", math::log, f64::ln, false),
        ("tanh", math::tanh, f64::tanh, false),
        ("sigmoid", math::sigmoid, |x| 1.0 / (1.0 + (-x).exp()), false),
        ("erf", math::erf, erf, false),
        ("sin", math::sin, f64::sin, true),
        ("cos", math::cos, f64::cos, true),
    ];
    let x = arguments(&mut Random::new(41));
    for simd in levels() {
        for (name, function, exact, absolute) in functions {
            let mut y = vec![0.0; x.len()];
            function(simd, &x, &mut y);
            let mut worst = (0.0, 0.0);
            for (&x, &y) in x.iter().zip(&y) {
                let wanted = exact(x as f64);
                let rounded = wanted as f32;
                if rounded.is_nan() || rounded.is_infinite() || rounded.is_subnormal() || rounded == 0.0 {
                    let close = (y - rounded).abs() <= 1e-37;
                    assert!(
                        y == rounded || y.is_nan() && rounded.is_nan() || close,
                        "{name}({x}) = {y}, not {wanted}"
                    );
                    continue;
                }
                let error = (y as f64 - wanted).abs() / if absolute { 1.0 } else { wanted.abs() };
                if error > worst.0 {
                    worst = (error, x);
                }
            }
            assert!(
                worst.0 <= 2e-6,
                "{name} at {simd:?}: error {:e} at {}",
                worst.0,
                worst.1
            );
        }
    }
}

#[test]
fn functions_are_right_at_the_edges() {
    let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0];
    let nan = f32::NAN;
    let cases: [(&str, Function, [f32; 5]); 7] = [
        ("exp", math::exp, [nan, f32::INFINITY, 0.0, 1.0, 1.0]),
        (
            "log",
            math::log,
            [nan, f32::INFINITY, nan, f32::NEG_INFINITY, f32::NEG_INFINITY],
        ),
        ("tanh", math::tanh, [nan, 1.0, -1.0, 0.0, -0.0]),
        ("sigmoid", math::sigmoid, [nan, 1.0, 0.0, 0.5, 0.5]),
        ("erf", math::erf, [nan, 1.0, -1.0, 0.0, -0.0]),
        ("sin", math::sin, [nan, nan, nan, 0.0, -0.0]),
        ("cos", math::cos, [nan, nan, nan, 1.0, 1.0]),
    ];
    for simd in levels() {
        for (name, function, wanted) in cases {
            let mut y = [0.0; 5];
            function(simd, &x, &mut y);
            for (i, (y, wanted)) in y.into_iter().zip(wanted).enumerate() {
                let same = (y - wanted).abs() < 1e-6 || y == wanted || y.is_nan() && wanted.is_nan();
                assert!(same, "{name}({}) = {y}, not {wanted}, at {simd:?}", x[i]);
            }
        }
    }
}

#[test]
fn powers_agree_with_the_standard_library() {
    let mut random = Random::new(42);
    let mut pairs: Vec<(f32, f32)> = (0..rounds(20_000))
        .map(|_| {
            (
                random.number().abs() * 10f32.powi(random.below(12) as i32 - 6),
                random.number() * 12.0,
            )
        })
        .collect();
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        0.5,
        3.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-40,
    ];
    pairs.extend(special.iter().flat_map(|&a| special.iter().map(move |&b| (a, b))));
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
    for simd in levels() {
        let mut y = vec![0.0; a.len()];
        math::pow(simd, &a, &b, &mut y);
        for i in 0..y.len() {
            let wanted = (a[i] as f64).powf(b[i] as f64);
            let rounded = wanted as f32;
            let same = y[i] == rounded || y[i].is_nan() && rounded.is_nan();
            let near = (y[i] as f64 - wanted).abs() <= 2e-6 * wanted.abs() + 1e-44;
            assert!(
                same || near,
                "{}^{} = {}, not {wanted}, at {simd:?}",
                a[i],
                b[i],
                y[i]
            );
        }
    }
}
