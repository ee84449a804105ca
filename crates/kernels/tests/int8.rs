//! Convolutions of bytes, exactly.

mod common;

use common::{Random, levels, rounds};
use synod_kernels::{ByteFilter, Conv, Geometry, GeometryError, Simd, dequantise, requantise};

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
            o: groups * pick(0, 20),
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
    let mut workspace = vec![i16::MAX; conv.forward_bytes_workspace(threads)];
    conv.forward_bytes(simd, x, zero_point, &filter, &mut sums, threads, &mut workspace);
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
    requantise(&sums, &[0.5, 2.0], &[1.0, 0.0], 5, false, &mut bytes);
    assert_eq!(bytes, [11, 0, 9, 255]);
    requantise(&sums, &[0.5, 2.0], &[1.0, 0.0], 5, true, &mut bytes);
    assert_eq!(bytes, [11, 5, 9, 255]);
}
