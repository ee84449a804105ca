//! Batch normalisation against the definition in double precision, forwards and backwards.

mod common;

use common::{Random, assert_close, levels, rounds};
use synod_kernels::{BatchNorm, BatchNormGiven, Simd};

const EPS: f32 = 1e-3;

fn widen(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Results, means and variances by the definition.
fn plain(shape: BatchNorm, x: &[f64], scale: &[f64], shift: &[f64]) -> [Vec<f64>; 3] {
    let BatchNorm { rows, channels, .. } = shape;
    let column = |c: usize| (0..rows).map(move |r| x[r * channels + c]);
    let mean: Vec<f64> = (0..channels)
        .map(|c| column(c).sum::<f64>() / rows as f64)
        .collect();
    let variance: Vec<f64> = (0..channels)
        .map(|c| column(c).map(|x| (x - mean[c]).powi(2)).sum::<f64>() / rows as f64)
        .collect();
    let y = (0..rows * channels).map(|i| {
        let c = i % channels;
        let y = (x[i] - mean[c]) / (variance[c] + f64::from(EPS)).sqrt() * scale[c] + shift[c];
        if shape.relu { y.max(0.0) } else { y }
    });
    [y.collect(), mean, variance]
}

fn forward(simd: Simd, shape: BatchNorm, given: [&[f32]; 3], threads: usize) -> [Vec<f32>; 3] {
    let mut y = vec![f32::NAN; given[0].len()];
    let mut mean = vec![f32::NAN; shape.channels];
    let (mut variance, mut workspace) = (mean.clone(), vec![f32::NAN; shape.workspace()]);
    let found = [&mut y[..], &mut mean, &mut variance, &mut workspace];
    shape.forward(simd, given, found, threads);
    [y, mean, variance]
}

fn shapes(random: &mut Random) -> Vec<BatchNorm> {
    let mut shapes = vec![];
    for (rows, channels) in [
        (1, 1),
        (2, 16),
        (9, 17),
        (700, 3),
        (40, 2048),
        (1500, 64),
        (3, 40),
    ] {
        shapes.push((rows, channels));
    }
    for _ in 0..rounds(10) {
        shapes.push((1 + random.below(50), 1 + random.below(70)));
    }
    let norm = |(rows, channels): (usize, usize)| BatchNorm {
        rows,
        channels,
        eps: EPS,
        relu: (rows + channels) % 2 == 1,
    };
    shapes.into_iter().map(norm).collect()
}

#[test]
fn columns_are_normalised_as_defined_with_the_same_bits_for_any_number_of_threads() {
    let mut random = Random::new(1);
    for shape in shapes(&mut random) {
        // Far from zero, where squares alone would lose the variance.
        let x: Vec<f32> = random
            .numbers(shape.rows * shape.channels)
            .iter()
            .map(|x| x + 100.0)
            .collect();
        let (scale, shift) = (random.numbers(shape.channels), random.numbers(shape.channels));
        let wanted = plain(shape, &widen(&x), &widen(&scale), &widen(&shift));
        for simd in levels() {
            let found = forward(simd, shape, [&x, &scale, &shift], 1);
            for ((found, wanted), tolerance) in found.iter().zip(&wanted).zip([2e-3, 1e-6, 1e-4]) {
                assert_close(found, wanted, tolerance, &format!("{shape:?} {simd:?}"));
            }
            for threads in [2, 5] {
                assert_eq!(forward(simd, shape, [&x, &scale, &shift], threads), found);
            }
        }
    }
}

#[test]
fn gradients_are_those_of_the_definition_in_place_or_not() {
    let mut random = Random::new(2);
    for shape in shapes(&mut random) {
        let BatchNorm { rows, channels, .. } = shape;
        let (x, d) = (random.numbers(rows * channels), random.numbers(rows * channels));
        let (scale, shift) = (random.numbers(channels), random.numbers(channels));
        let [_, mean, variance] = plain(shape, &widen(&x), &widen(&scale), &widen(&shift));
        let wanted = pulled_back(shape, &x, &scale, &shift, &mean, &variance, &d);
        let [mean, variance] = [mean, variance].map(|m| m.iter().map(|&m| m as f32).collect::<Vec<_>>());
        for simd in levels() {
            for (in_place, threads) in [(false, 1), (true, 1), (true, 3)] {
                let mut dx = if in_place {
                    d.clone()
                } else {
                    vec![f32::NAN; d.len()]
                };
                let (mut d_scale, mut d_shift) = (vec![f32::NAN; channels], vec![f32::NAN; channels]);
                let mut workspace = vec![f32::NAN; shape.workspace()];
                let given = BatchNormGiven {
                    x: &x,
                    scale: &scale,
                    shift: &shift,
                    mean: &mean,
                    variance: &variance,
                    d: (!in_place).then_some(&d),
                };
                let found = [&mut dx[..], &mut d_scale, &mut d_shift, &mut workspace];
                shape.backward(simd, given, found, threads);
                for (found, wanted) in [&dx, &d_scale, &d_shift].into_iter().zip(&wanted) {
                    assert_close(found, wanted, 1e-4, &format!("{shape:?} {simd:?}"));
                }
            }
        }
    }
}

/// Sums of outer products of the definition's derivative, the slow way round: through mean and variance one by one.
fn pulled_back(
    shape: BatchNorm,
    x: &[f32],
    scale: &[f32],
    shift: &[f32],
    mean: &[f64],
    variance: &[f64],
    d: &[f32],
) -> [Vec<f64>; 3] {
    let BatchNorm { rows, channels, .. } = shape;
    let n = rows as f64;
    let mut found = [
        vec![0.0; rows * channels],
        vec![0.0; channels],
        vec![0.0; channels],
    ];
    for c in 0..channels {
        let (scale, shift) = (f64::from(scale[c]), f64::from(shift[c]));
        let spread = (variance[c] + f64::from(EPS)).sqrt();
        let at = |r: usize| {
            (
                f64::from(x[r * channels + c]) - mean[c],
                f64::from(d[r * channels + c]),
            )
        };
        let open = |deviation: f64| !shape.relu || deviation / spread * scale + shift > 0.0;
        let (mut d_mean, mut d_variance) = (0.0, 0.0);
        for (deviation, d) in (0..rows).map(at).filter(|(deviation, _)| open(*deviation)) {
            found[1][c] += d * deviation / spread;
            found[2][c] += d;
            d_mean -= d * scale / spread;
            d_variance -= 0.5 * d * scale * deviation / spread.powi(3);
        }
        for r in 0..rows {
            let (deviation, d) = at(r);
            let direct = if open(deviation) { d * scale / spread } else { 0.0 };
            found[0][r * channels + c] = direct + d_mean / n + d_variance * 2.0 * deviation / n;
        }
    }
    found
}

#[test]
fn no_rows_have_no_results() {
    let shape = BatchNorm {
        rows: 0,
        channels: 2,
        eps: EPS,
        relu: false,
    };
    let found = forward(Simd::best(), shape, [&[], &[1.0; 2], &[0.0; 2]], 2);
    assert_eq!(found, [vec![], vec![0.0; 2], vec![0.0; 2]]);
}
