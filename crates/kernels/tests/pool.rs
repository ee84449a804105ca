//! Pooling against plain loops: ties, NaN, windows beyond the border, and adjoints.

mod common;

use common::{Random, assert_close, levels, rounds};
use synod_kernels::{Divisor, GeometryError, Pool, PoolGeometry, Simd};

fn cases() -> Vec<Pool> {
    let mut random = Random::new(41);
    let mut cases = vec![
        Pool::new(PoolGeometry::new([2, 28, 28, 32], [2, 2])).unwrap(),
        Pool::new(PoolGeometry::new([2, 7, 7, 40], [7, 7])).unwrap(),
        Pool::new(PoolGeometry {
            stride: [2; 2],
            padding: [[1, 1]; 2],
            ..PoolGeometry::new([3, 12, 13, 19], [3, 3])
        })
        .unwrap(),
    ];
    if cfg!(miri) {
        cases.clear();
    }
    while cases.len() < rounds(300) {
        let mut pick = |least: usize, most: usize| least + random.below(most - least + 1);
        cases.extend(Pool::new(PoolGeometry {
            n: pick(0, 3),
            h: pick(0, 9),
            w: pick(0, 9),
            c: pick(0, 37),
            kernel: [pick(1, 5), pick(1, 5)],
            stride: [pick(1, 3), pick(1, 3)],
            padding: [[pick(0, 3), pick(0, 4)], [pick(0, 4), pick(0, 3)]],
            dilation: [pick(1, 2), pick(1, 2)],
        }));
    }
    cases
}

/// The indices every result sees, in the order of the window.
fn seen(pool: &Pool) -> Vec<Vec<usize>> {
    let g = *pool.window();
    let [n, oh, ow, c] = pool.output_shape();
    let window = |result: usize| {
        let (channel, x, y) = (result % c, result / c % ow, result / c / ow % oh);
        let image = result / c / ow / oh;
        let tap = |tap: usize| {
            let (i, j) = (tap / g.kernel[1], tap % g.kernel[1]);
            let row = (y * g.stride[0] + i * g.dilation[0]).wrapping_sub(g.padding[0][0]);
            let column = (x * g.stride[1] + j * g.dilation[1]).wrapping_sub(g.padding[1][0]);
            (row < g.h && column < g.w).then(|| ((image * g.h + row) * g.w + column) * c + channel)
        };
        (0..g.kernel[0] * g.kernel[1]).filter_map(tap).collect()
    };
    (0..n * oh * ow * c).map(window).collect()
}

/// Few different values, so that there are ties, and now and then a NaN or an infinity.
fn tricky(random: &mut Random, len: usize) -> Vec<f32> {
    let value = |random: &mut Random| match random.below(40) {
        0 => f32::NAN,
        1..4 => f32::NEG_INFINITY,
        4 => -0.0,
        other => (other % 5) as f32 - 2.0,
    };
    (0..len).map(|_| value(random)).collect()
}

/// The first NaN, else the first of the largest.
fn first_largest(x: &[f32], seen: &[usize]) -> Option<usize> {
    let better = |best: usize, at: usize| x[at] > x[best] || (x[at].is_nan() && !x[best].is_nan());
    seen.iter()
        .copied()
        .reduce(|best, at| if better(best, at) { at } else { best })
}

fn bits(values: &[f32]) -> Vec<u32> {
    values
        .iter()
        .map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() })
        .collect()
}

#[test]
fn the_maximum_is_the_first_of_the_largest_and_nan_wins() {
    let mut random = Random::new(42);
    for pool in cases() {
        let x = tricky(&mut random, pool.input_len());
        let (z, dy) = (
            random.numbers(pool.input_len()),
            whole_numbers(&mut random, pool.output_len()),
        );
        let picks: Vec<Option<usize>> = seen(&pool).iter().map(|seen| first_largest(&x, seen)).collect();
        let largest: Vec<f32> = picks
            .iter()
            .map(|at| at.map_or(f32::NEG_INFINITY, |at| x[at]))
            .collect();
        let picked: Vec<f32> = picks.iter().map(|at| at.map_or(0.0, |at| z[at])).collect();
        let mut spread = vec![0.0; x.len()];
        for (at, dy) in picks.iter().zip(&dy) {
            if let Some(at) = at {
                spread[*at] += dy;
            }
        }
        for simd in levels() {
            for threads in [1, 2, 3] {
                let (mut y, mut dx) = (vec![9.0; pool.output_len()], vec![9.0; pool.input_len()]);
                pool.max(simd, &x, &mut y, threads);
                assert_eq!(bits(&y), bits(&largest), "{pool:?} {simd:?}");
                pool.max_pick(simd, &x, &z, &mut y, threads);
                assert_eq!(y, picked, "{pool:?} {simd:?}");
                pool.max_spread(simd, &x, &dy, &mut dx, threads);
                assert_eq!(dx, spread, "{pool:?} {simd:?}");
            }
        }
    }
}

/// Small whole numbers, whose sums are exact.
fn whole_numbers(random: &mut Random, len: usize) -> Vec<f32> {
    (0..len).map(|_| random.below(17) as f32 - 8.0).collect()
}

#[test]
fn sums_and_averages_count_what_they_are_told_to() {
    let mut random = Random::new(43);
    for pool in cases() {
        let (x, dy) = (
            random.numbers(pool.input_len()),
            random.numbers(pool.output_len()),
        );
        let windows = seen(&pool);
        let area = pool.window().kernel.iter().product::<usize>() as f64;
        for divisor in [Divisor::One, Divisor::Window, Divisor::Inside] {
            let share = |seen: &[usize]| match divisor {
                Divisor::One => 1.0,
                Divisor::Window => area,
                Divisor::Inside => seen.len().max(1) as f64,
            };
            let sum = |seen: &Vec<usize>| seen.iter().map(|&at| x[at] as f64).sum::<f64>() / share(seen);
            let wanted: Vec<f64> = windows.iter().map(sum).collect();
            let mut spread = vec![0.0; x.len()];
            for (seen, &dy) in windows.iter().zip(&dy) {
                seen.iter().for_each(|&at| spread[at] += dy as f64 / share(seen));
            }
            for simd in levels() {
                let run = |threads: usize| {
                    let (mut y, mut dx) = (vec![9.0; pool.output_len()], vec![9.0; pool.input_len()]);
                    pool.sum(simd, &x, divisor, &mut y, threads);
                    pool.sum_spread(simd, &dy, divisor, &mut dx, threads);
                    (y, dx)
                };
                let (y, dx) = run(1);
                assert_close(&y, &wanted, 1e-5, &format!("{pool:?} {divisor:?} {simd:?}"));
                assert_close(&dx, &spread, 1e-5, &format!("{pool:?} {divisor:?} {simd:?}"));
                assert!((y, dx) == run(2), "{pool:?} {divisor:?} {simd:?}");
            }
        }
    }
}

#[test]
fn what_describes_no_pooling_is_refused() {
    let good = PoolGeometry::new([1, 4, 4, 2], [2, 2]);
    let zero = Pool::new(PoolGeometry {
        stride: [0, 1],
        ..good
    });
    assert_eq!(zero, Err(GeometryError::Zero { name: "stride" }));
    let large = Pool::new(PoolGeometry {
        kernel: [5, 2],
        ..good
    });
    assert!(matches!(large, Err(GeometryError::Kernel { axis: 0, .. })));
}

#[test]
#[should_panic(expected = "y has 3 floats")]
fn a_short_result_is_refused() {
    let pool = Pool::new(PoolGeometry::new([1, 4, 4, 1], [2, 2])).unwrap();
    pool.max(Simd::best(), &[0.0; 16], &mut [0.0; 3], 1);
}
