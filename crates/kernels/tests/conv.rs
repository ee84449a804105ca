//! Convolutions and their gradients against plain loops, and the independence of their bits from threads and packing.

mod common;

use common::{Random, levels, rounds};
use synod_kernels::{Activation, Conv, ConvEpilogue, ConvWeights, Gate, Geometry, Simd};

/// Every product of a convolution: indices of the image, the weight and the result.
fn for_each_product(conv: &Conv, mut visit: impl FnMut(usize, usize, usize)) {
    let g = *conv.geometry();
    let [n, oh, ow, o] = conv.output_shape();
    let (inputs, outputs) = (g.c / g.groups, o / g.groups);
    for result in 0..n * oh * ow * o {
        let (channel, x) = (result % o, result / o % ow);
        let (y, image) = (result / o / ow % oh, result / o / ow / oh);
        for tap in 0..g.kernel[0] * g.kernel[1] {
            let (ky, kx) = (tap / g.kernel[1], tap % g.kernel[1]);
            let row = (y * g.stride[0] + ky * g.dilation[0]).wrapping_sub(g.padding[0][0]);
            let column = (x * g.stride[1] + kx * g.dilation[1]).wrapping_sub(g.padding[1][0]);
            if row >= g.h || column >= g.w {
                continue;
            }
            for c in 0..inputs {
                let from = channel / outputs * inputs + c;
                visit(
                    ((image * g.h + row) * g.w + column) * g.c + from,
                    (tap * inputs + c) * o + channel,
                    result,
                );
            }
        }
    }
}

/// Sums of products, and of their magnitudes, by which rounding errors are measured.
struct Sums {
    values: Vec<f64>,
    sizes: Vec<f64>,
}

impl Sums {
    fn new(len: usize) -> Sums {
        Sums {
            values: vec![0.0; len],
            sizes: vec![0.0; len],
        }
    }

    fn add(&mut self, at: usize, a: f32, b: f32) {
        self.values[at] += a as f64 * b as f64;
        self.sizes[at] += (a as f64 * b as f64).abs();
    }

    #[track_caller]
    fn assert_close(&self, found: &[f32], what: &str) {
        assert_eq!(found.len(), self.values.len(), "{what}");
        // Values at points mix the results of a square, and so the rounding errors of its largest.
        let largest = self.sizes.iter().copied().fold(0.0, f64::max);
        for (i, &f) in found.iter().enumerate() {
            let (wanted, size) = (self.values[i], self.sizes[i]);
            let error = (f as f64 - wanted).abs();
            assert!(
                error <= 1e-5 * size + 2e-7 * largest + 1e-6,
                "{what}: element {i} is {f}, not {wanted}"
            );
        }
    }
}

fn random_geometry(random: &mut Random) -> Geometry {
    let mut pick = |least: usize, most: usize| least + random.below(most - least + 1);
    let groups = [1, 1, 1, 2, 3][pick(0, 4)];
    let mut geometry = Geometry {
        n: pick(0, 3),
        h: pick(1, 12),
        w: pick(1, 14),
        c: groups * pick(0, 11),
        o: groups * pick(0, 20),
        kernel: [pick(1, 5), pick(1, 5)],
        stride: [pick(1, 3), pick(1, 3)],
        padding: [[pick(0, 3), pick(0, 3)], [pick(0, 3), pick(0, 3)]],
        dilation: [pick(1, 2), pick(1, 2)],
        groups,
    };
    if pick(0, 3) == 0 {
        let channels = pick(1, 21);
        (geometry.c, geometry.o, geometry.groups) = (channels, channels, channels);
    }
    geometry
}

fn cases() -> Vec<Conv> {
    let mut random = Random::new(31);
    let same = |k: usize| [[k / 2, k / 2]; 2];
    let mut cases = vec![];
    if !cfg!(miri) {
        let large = [
            Geometry {
                padding: same(3),
                ..Geometry::new([2, 9, 10, 70], [3, 3], 40)
            },
            Geometry {
                padding: same(5),
                ..Geometry::new([3, 28, 28, 1], [5, 5], 32)
            },
            Geometry {
                padding: same(7),
                stride: [2; 2],
                ..Geometry::new([1, 33, 31, 3], [7, 7], 20)
            },
            Geometry::new([1, 13, 11, 700], [1, 1], 33),
            Geometry {
                stride: [2; 2],
                ..Geometry::new([2, 13, 11, 40], [1, 1], 50)
            },
            Geometry {
                padding: same(3),
                ..Geometry::new([1, 2, 700, 4], [1, 3], 17)
            },
            Geometry {
                stride: [3, 2],
                dilation: [2, 2],
                ..Geometry::new([1, 1, 1300, 2], [1, 5], 5)
            },
            Geometry {
                padding: same(5),
                ..Geometry::new([2, 11, 13, 1], [5, 5], 40)
            },
            Geometry {
                padding: same(3),
                stride: [2; 2],
                ..Geometry::new([2, 11, 13, 30], [3, 3], 4)
            },
            // Squares of values: whole ones, ones that reach beyond the image, and channels that fill no vector.
            Geometry {
                padding: same(5),
                ..Geometry::new([3, 14, 14, 32], [5, 5], 40)
            },
            Geometry {
                padding: [[0, 3], [2, 1]],
                ..Geometry::new([2, 12, 15, 21], [5, 5], 17)
            },
            Geometry {
                padding: same(3),
                ..Geometry::new([3, 16, 12, 64], [3, 3], 48)
            },
            Geometry {
                padding: [[3, 0], [0, 2]],
                ..Geometry::new([1, 17, 14, 19], [3, 3], 35)
            },
            Geometry::new([2, 15, 18, 300], [3, 3], 16),
            Geometry {
                padding: same(3),
                groups: 40,
                ..Geometry::new([2, 17, 19, 40], [3, 3], 40)
            },
            Geometry {
                padding: same(3),
                groups: 8,
                ..Geometry::new([2, 7, 9, 8], [3, 3], 24)
            },
        ];
        cases.extend(large.map(|geometry| Conv::new(geometry).unwrap()));
    }
    while cases.len() < rounds(300) {
        cases.extend(Conv::new(random_geometry(&mut random)));
    }
    cases
}

fn forward(
    conv: &Conv,
    simd: Simd,
    x: &[f32],
    w: ConvWeights<'_>,
    epilogue: &ConvEpilogue<'_>,
    threads: usize,
) -> Vec<f32> {
    let mut y = vec![f32::NAN; conv.output_len()];
    let mut workspace = vec![f32::NAN; conv.forward_workspace(simd, threads)];
    conv.forward(simd, x, w, epilogue, &mut y, threads, &mut workspace);
    y
}

fn input_gradient(
    conv: &Conv,
    simd: Simd,
    dy: &[f32],
    w: &[f32],
    gate: Gate<'_>,
    threads: usize,
) -> Vec<f32> {
    let mut dx = vec![f32::NAN; conv.input_len()];
    let mut workspace = vec![f32::NAN; conv.input_gradient_workspace(simd, threads)];
    conv.input_gradient(simd, dy, w, gate, &mut dx, threads, &mut workspace);
    dx
}

fn weight_gradient(conv: &Conv, simd: Simd, x: &[f32], dy: &[f32], threads: usize) -> Vec<f32> {
    let mut dw = vec![f32::NAN; conv.weight_len()];
    let mut workspace = vec![f32::NAN; conv.weight_gradient_workspace(simd, threads)];
    conv.weight_gradient(simd, x, dy, &mut dw, threads, &mut workspace);
    dw
}

#[test]
fn forward_is_the_sum_over_the_window() {
    let mut random = Random::new(32);
    for conv in cases() {
        let (x, w) = (
            random.numbers(conv.input_len()),
            random.numbers(conv.weight_len()),
        );
        let mut wanted = Sums::new(conv.output_len());
        for_each_product(&conv, |i, j, k| wanted.add(k, x[i], w[j]));
        for simd in levels() {
            let y = forward(
                &conv,
                simd,
                &x,
                ConvWeights::Plain(&w),
                &ConvEpilogue::default(),
                1,
            );
            wanted.assert_close(&y, &format!("{conv:?} {simd:?}"));
        }
    }
}

#[test]
fn the_input_gradient_is_the_adjoint_in_the_images() {
    let mut random = Random::new(33);
    for conv in cases() {
        let (dy, w) = (
            random.numbers(conv.output_len()),
            random.numbers(conv.weight_len()),
        );
        let mut wanted = Sums::new(conv.input_len());
        for_each_product(&conv, |i, j, k| wanted.add(i, dy[k], w[j]));
        for simd in levels() {
            let dx = input_gradient(&conv, simd, &dy, &w, Gate::Open, 1);
            wanted.assert_close(&dx, &format!("{conv:?} {simd:?}"));
        }
    }
}

#[test]
fn the_weight_gradient_is_the_adjoint_in_the_weights() {
    let mut random = Random::new(34);
    for conv in cases() {
        let (x, dy) = (
            random.numbers(conv.input_len()),
            random.numbers(conv.output_len()),
        );
        let mut wanted = Sums::new(conv.weight_len());
        for_each_product(&conv, |i, j, k| wanted.add(j, x[i], dy[k]));
        for simd in levels() {
            let dw = weight_gradient(&conv, simd, &x, &dy, 1);
            wanted.assert_close(&dw, &format!("{conv:?} {simd:?}"));
        }
    }
}

#[test]
fn the_epilogue_adds_activates_and_gates() {
    let mut random = Random::new(35);
    for (i, conv) in cases().into_iter().enumerate() {
        let (x, w) = (
            random.numbers(conv.input_len()),
            random.numbers(conv.weight_len()),
        );
        let (bias, dy) = (
            random.numbers(conv.geometry().o),
            random.numbers(conv.output_len()),
        );
        let (residual, outputs) = (
            random.numbers(conv.output_len()),
            random.numbers(conv.input_len()),
        );
        let epilogue = ConvEpilogue {
            bias: (i % 3 > 0).then_some(&bias[..]),
            residual: (i % 2 > 0).then_some(&residual[..]),
            activation: [
                Activation::Relu,
                Activation::Tanh,
                Activation::Identity,
                Activation::LeakyRelu(0.5),
            ][i % 4],
        };
        for simd in levels() {
            let plain = forward(
                &conv,
                simd,
                &x,
                ConvWeights::Plain(&w),
                &ConvEpilogue::default(),
                1,
            );
            let found = forward(&conv, simd, &x, ConvWeights::Plain(&w), &epilogue, 1);
            for (at, (&sum, &found)) in plain.iter().zip(&found).enumerate() {
                let mut wanted = sum + epilogue.bias.map_or(0.0, |bias| bias[at % bias.len()]);
                wanted += epilogue.residual.map_or(0.0, |residual| residual[at]);
                wanted = match epilogue.activation {
                    Activation::Relu => wanted.max(0.0),
                    Activation::Tanh => wanted.tanh(),
                    Activation::LeakyRelu(slope) if wanted < 0.0 => slope * wanted,
                    _ => wanted,
                };
                assert!(
                    (found - wanted).abs() <= 2e-5 * wanted.abs().max(1.0),
                    "{conv:?} {simd:?} {at}"
                );
            }
            let plain = input_gradient(&conv, simd, &dy, &w, Gate::Open, 1);
            let found = input_gradient(&conv, simd, &dy, &w, Gate::Relu(&outputs), 1);
            for ((&found, &plain), &output) in found.iter().zip(&plain).zip(&outputs) {
                assert_eq!(found, if output > 0.0 { plain } else { 0.0 }, "{conv:?} {simd:?}");
            }
        }
    }
}

#[test]
fn threads_and_packing_do_not_change_a_bit() {
    let mut random = Random::new(36);
    for conv in cases() {
        let (x, w) = (
            random.numbers(conv.input_len()),
            random.numbers(conv.weight_len()),
        );
        let dy = random.numbers(conv.output_len());
        let plain = ConvEpilogue::default();
        for simd in levels() {
            let mut packed = vec![0.0; conv.packed_len(simd)];
            conv.pack_into(simd, &w, &mut packed);
            let y = forward(&conv, simd, &x, ConvWeights::Plain(&w), &plain, 1);
            let dx = input_gradient(&conv, simd, &dy, &w, Gate::Open, 1);
            let dw = weight_gradient(&conv, simd, &x, &dy, 1);
            assert!(
                y == forward(&conv, simd, &x, ConvWeights::Panels(&packed), &plain, 1),
                "{conv:?}"
            );
            for threads in [2, 3] {
                assert!(
                    y == forward(&conv, simd, &x, ConvWeights::Panels(&packed), &plain, threads),
                    "{conv:?}"
                );
                assert!(
                    dx == input_gradient(&conv, simd, &dy, &w, Gate::Open, threads),
                    "{conv:?}"
                );
                assert!(dw == weight_gradient(&conv, simd, &x, &dy, threads), "{conv:?}");
            }
        }
    }
}

#[test]
fn packed_weights_serve_any_batch() {
    let conv = |n: usize| Conv::new(Geometry::new([n, 6, 6, 5], [3, 3], 7)).unwrap();
    let mut random = Random::new(37);
    let (w, x) = (
        random.numbers(conv(1).weight_len()),
        random.numbers(conv(4).input_len()),
    );
    let simd = Simd::best();
    let mut packed = vec![0.0; conv(1).packed_len(simd)];
    conv(1).pack_into(simd, &w, &mut packed);
    let four = forward(
        &conv(4),
        simd,
        &x,
        ConvWeights::Panels(&packed),
        &ConvEpilogue::default(),
        1,
    );
    assert_eq!(
        four,
        forward(
            &conv(4),
            simd,
            &x,
            ConvWeights::Plain(&w),
            &ConvEpilogue::default(),
            1
        )
    );
}

#[test]
#[should_panic(expected = "workspace")]
fn a_short_workspace_is_refused() {
    let conv = Conv::new(Geometry::new([1, 6, 6, 5], [3, 3], 7)).unwrap();
    let (x, w) = (vec![0.0; conv.input_len()], vec![0.0; conv.weight_len()]);
    let mut y = vec![0.0; conv.output_len()];
    conv.forward(
        Simd::best(),
        &x,
        ConvWeights::Plain(&w),
        &ConvEpilogue::default(),
        &mut y,
        1,
        &mut [],
    );
}

#[test]
fn a_tap_that_meets_only_zeros_has_no_gradient_at_all() {
    let conv = Conv::new(Geometry {
        padding: [[2; 2]; 2],
        ..Geometry::new([2, 14, 14, 16], [5, 5], 16)
    })
    .unwrap();
    let mut random = Random::new(41);
    // Only the first pixel of each image is lit, so that a result sees it by a tap of the last three rows and columns.
    let mut x = random.numbers(conv.input_len());
    for (pixel, channels) in x.chunks_exact_mut(16).enumerate() {
        if !pixel.is_multiple_of(14 * 14) {
            channels.fill(0.0);
        }
    }
    let dy = random.numbers(conv.output_len());
    for simd in levels() {
        let dw = weight_gradient(&conv, simd, &x, &dy, 1);
        for (tap, weights) in dw.chunks_exact(16 * 16).enumerate() {
            let meets = tap / 5 <= 2 && tap % 5 <= 2;
            assert!(weights.iter().all(|w| (*w != 0.0) == meets), "{simd:?} tap {tap}");
        }
    }
}
