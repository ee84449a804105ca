//! Convolutions of bytes, exactly.

mod common;

use common::{Random, levels, rounds};
use synod_kernels::{
    ByteFilter, ByteResults, ByteWorkspace, Conv, Geometry, GeometryError, Requantise, Simd, add_bytes,
    dequantise, quantise,
};

fn cases() -> Vec<Conv> {
    let mut random = Random::new(51);
    let mut cases = vec![];
    if !cfg!(miri) {
        let padded = Geometry {
            padding: [[1, 1]; 2],
            ..Geometry::new([2, 9, 10, 130], [3, 3], 40)
        };
        let dense = Geometry::new([13, 1, 1, 785], [1, 1], 33);
        cases.extend([padded, dense].map(|geometry| Conv::new(geometry).unwrap()));
    }
    while cases.len() < rounds(200) {
        let mut pick = |least: usize, most: usize| least + random.below(most - least + 1);
        let groups = [1, 1, 2, 3][pick(0, 3)];
        cases.extend(Conv::new(Geometry {
            n: pick(0, 3),
            h: pick(1, 10),
            w: pick(1, 10),
            c: groups * pick(0, 20),
            o: groups * [pick(0, 20), pick(0, 20), pick(60, 140)][pick(0, 2)],
            kernel: [pick(1, 4), pick(1, 4)],
            stride: [pick(1, 3), pick(1, 3)],
            padding: [[pick(0, 3), pick(0, 3)], [pick(0, 3), pick(0, 3)]],
            dilation: [pick(1, 2), pick(1, 2)],
            groups,
        }));
    }
    cases
}

fn naive(conv: &Conv, x: &[u8], zero_point: u8, w: &[i8]) -> Vec<i32> {
    let g = *conv.geometry();
    let [n, oh, ow, o] = conv.output_shape();
    let (inputs, outputs) = (g.c / g.groups, o / g.groups);
    let one = |result: usize| {
        let (channel, x_out, y_out) = (result % o, result / o % ow, result / o / ow % oh);
        let image = result / o / ow / oh;
        let mut sum = 0;
        for tap in 0..g.kernel[0] * g.kernel[1] {
            let (i, j) = (tap / g.kernel[1], tap % g.kernel[1]);
            let row = (y_out * g.stride[0] + i * g.dilation[0]).wrapping_sub(g.padding[0][0]);
            let column = (x_out * g.stride[1] + j * g.dilation[1]).wrapping_sub(g.padding[1][0]);
            for c in 0..inputs {
                if row < g.h && column < g.w {
                    let from = channel / outputs * inputs + c;
                    let x = x[((image * g.h + row) * g.w + column) * g.c + from];
                    sum += (i32::from(x) - i32::from(zero_point))
                        * i32::from(w[(tap * inputs + c) * o + channel]);
                }
            }
        }
        sum
    };
    (0..n * oh * ow * o).map(one).collect()
}

fn forward(conv: &Conv, simd: Simd, x: &[u8], zero_point: u8, w: &[i8], threads: usize) -> Vec<i32> {
    let filter = ByteFilter::pack(conv, simd, w).unwrap();
    let mut sums = vec![i32::MAX; conv.output_len()];
    let (results, mut workspace) = (ByteResults::Sums(&mut sums), ByteWorkspace::default());
    conv.forward_bytes(simd, x, zero_point, &filter, results, threads, &mut workspace);
    sums
}

#[test]
fn sums_are_exact_at_every_level_and_on_any_number_of_threads() {
    let mut random = Random::new(52);
    for conv in cases() {
        let x: Vec<u8> = (0..conv.input_len()).map(|_| random.below(256) as u8).collect();
        let w: Vec<i8> = (0..conv.weight_len())
            .map(|_| random.below(256) as u8 as i8)
            .collect();
        let zero_point = random.below(256) as u8;
        let wanted = naive(&conv, &x, zero_point, &w);
        for simd in levels() {
            for threads in [1, 2] {
                assert_eq!(
                    forward(&conv, simd, &x, zero_point, &w, threads),
                    wanted,
                    "{conv:?} {simd:?}"
                );
            }
        }
    }
}

#[test]
fn the_most_extreme_bytes_do_not_saturate() {
    let conv = Conv::new(Geometry::new([1, 1, 1, 60_000], [1, 1], 1)).unwrap();
    let (x, w) = (vec![255; 60_000], vec![-128; 60_000]);
    for simd in levels() {
        assert_eq!(
            forward(&conv, simd, &x, 0, &w, 1),
            [-60_000 * 255 * 128],
            "{simd:?}"
        );
    }
}

#[test]
fn sums_that_may_overflow_are_refused() {
    let conv = Conv::new(Geometry::new([1, 1, 1, 70_000], [1, 1], 1)).unwrap();
    let refused = ByteFilter::pack(&conv, Simd::best(), &vec![0; 70_000]).unwrap_err();
    assert_eq!(refused, GeometryError::Sum { products: 70_000 });
}

#[test]
fn sums_become_numbers_and_bytes_channel_by_channel() {
    let sums = [10, -4, 7, 1000];
    let mut y = [0.0; 4];
    dequantise(&sums, &[0.5, 2.0], &[1.0, 0.0], &mut y);
    assert_eq!(y, [6.0, -8.0, 4.5, 2000.0]);
    let mut bytes = [0; 4];
    for (relu, wanted) in [(false, [11, 0, 9, 255]), (true, [11, 5, 9, 255])] {
        let requantise = Requantise {
            scales: &[0.5, 2.0],
            bias: &[1.0, 0.0],
            zero_point: 5,
            relu,
        };
        for simd in levels() {
            requantise.run(simd, &sums, &mut bytes, 1);
            assert_eq!(bytes, wanted, "{simd:?}");
        }
    }
}

/// `round(steps) + zero_point`, kept within bytes.
fn level(steps: f32, zero_point: u8, relu: bool) -> u8 {
    let zero = f32::from(zero_point);
    let least = if relu { zero } else { 0.0 };
    (steps.round_ties_even() + zero).clamp(least, 255.0) as u8
}

#[test]
fn results_in_bytes_are_the_sums_rounded_at_every_level_and_on_any_number_of_threads() {
    let mut random = Random::new(53);
    for conv in cases() {
        let x: Vec<u8> = (0..conv.input_len()).map(|_| random.below(256) as u8).collect();
        let w: Vec<i8> = (0..conv.weight_len())
            .map(|_| random.below(256) as u8 as i8)
            .collect();
        let (o, relu) = (conv.geometry().o, random.below(2) == 0);
        let scales: Vec<f32> = (0..o).map(|_| 2e-3 + 1e-3 * random.number()).collect();
        let bias: Vec<f32> = (0..o).map(|_| 30.0 * random.number()).collect();
        let [from, to] = [0, 1].map(|_| random.below(256) as u8);
        let sums = naive(&conv, &x, from, &w);
        let steps = |(i, &sum): (usize, &i32)| sum as f32 * scales[i % o] + bias[i % o];
        let wanted: Vec<u8> = sums
            .iter()
            .enumerate()
            .map(steps)
            .map(|s| level(s, to, relu))
            .collect();
        let how = Requantise {
            scales: &scales,
            bias: &bias,
            zero_point: to,
            relu,
        };
        for simd in levels() {
            let filter = ByteFilter::pack(&conv, simd, &w).unwrap();
            let mut workspace = ByteWorkspace::default();
            for threads in [1, 3] {
                let mut y = vec![77; conv.output_len()];
                let results = ByteResults::Bytes(how, &mut y);
                conv.forward_bytes(simd, &x, from, &filter, results, threads, &mut workspace);
                assert_eq!(y, wanted, "{conv:?} {simd:?} {threads}");
            }
        }
    }
}

#[test]
fn numbers_become_bytes_with_halves_to_even_and_bytes_add_up_on_grids_of_their_own() {
    let mut random = Random::new(54);
    let mut numbers = random.numbers(999);
    numbers.iter_mut().for_each(|x| *x *= 400.0);
    numbers.extend([0.5, 1.5, -0.5, 1e30, -1e30, f32::INFINITY, f32::NAN, 0.0]);
    let bytes: Vec<Vec<u8>> = (0..2)
        .map(|_| (0..70_000).map(|_| random.below(256) as u8).collect())
        .collect();
    for simd in levels() {
        for zero_point in [0, 9, 255] {
            let mut found = vec![0; numbers.len()];
            quantise(simd, &numbers, 1.0, zero_point, &mut found);
            for (&x, &q) in numbers.iter().zip(&found) {
                assert_eq!(q, level(x, zero_point, false), "{x} {simd:?}");
            }
            for (relu, threads) in [(false, 1), (true, 3)] {
                let (a, b) = ((&bytes[0][..], 3, 0.4), (&bytes[1][..], 200, 1.7));
                let mut found = vec![0; a.0.len()];
                add_bytes(simd, a, b, zero_point, relu, &mut found, threads);
                let steps = |(&a, &b): (&u8, &u8)| (f32::from(a) - 3.0) * 0.4 + (f32::from(b) - 200.0) * 1.7;
                let wanted = a.0.iter().zip(b.0).map(steps).map(|s| level(s, zero_point, relu));
                assert!(wanted.eq(found.iter().copied()), "{simd:?} {zero_point} {relu}");
            }
        }
    }
}
