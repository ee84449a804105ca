//! Where ResNet-50's time goes, layer by layer: `cargo run --release -p synod-kernels --example resnet [-- batch threads]`.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::time::Instant;

use synod_kernels::{Activation, Buffer, Conv, ConvEpilogue, ConvWeights, Gate, Geometry, Simd};

/// A convolution, how often it occurs, and whether a shortcut is added to it.
struct Layer {
    geometry: Geometry,
    count: usize,
    shortcut: bool,
}

fn layers(n: usize) -> Vec<Layer> {
    let square = |side: usize, c: usize, k: usize, o: usize, stride: usize| Geometry {
        padding: [[k / 2; 2]; 2],
        stride: [stride; 2],
        ..Geometry::new([n, side, side, c], [k, k], o)
    };
    let layer = |geometry, count, shortcut| Layer {
        geometry,
        count,
        shortcut,
    };
    let mut layers = vec![layer(square(224, 3, 7, 64, 2), 1, false)];
    let (mut side, mut c) = (56, 64);
    for (stage, count) in [3, 4, 6, 3].into_iter().enumerate() {
        let (narrow, stride) = (64 << stage, if stage == 0 { 1 } else { 2 });
        layers.push(layer(square(side, c, 1, narrow, 1), 1, false));
        layers.push(layer(square(side, narrow, 3, narrow, stride), 1, false));
        layers.push(layer(square(side, c, 1, 4 * narrow, stride), 1, false));
        side /= stride;
        c = 4 * narrow;
        layers.push(layer(square(side, narrow, 1, c, 1), count, true));
        layers.push(layer(square(side, c, 1, narrow, 1), count - 1, false));
        layers.push(layer(square(side, narrow, 3, narrow, 1), count - 1, false));
    }
    layers
}

/// Seconds of the fastest of many runs.
fn fastest(mut run: impl FnMut()) -> f64 {
    let (begin, mut best) = (Instant::now(), f64::INFINITY);
    while begin.elapsed().as_secs_f64() < 0.25 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

fn filled(len: usize) -> Buffer {
    let mut buffer = Buffer::zeroed(len);
    buffer
        .iter_mut()
        .enumerate()
        .for_each(|(i, x)| *x = (i % 17) as f32 - 8.0);
    buffer
}

/// Seconds of the forward pass with packed weights, of the gradient of the images and of the weights.
fn times(simd: Simd, conv: &Conv, shortcut: bool, threads: usize) -> [f64; 3] {
    let (x, w, dy) = (
        filled(conv.input_len()),
        filled(conv.weight_len()),
        filled(conv.output_len()),
    );
    let (mut y, mut dx, mut dw) = (dy.clone(), x.clone(), w.clone());
    let bias = filled(conv.geometry().o);
    let epilogue = ConvEpilogue {
        bias: Some(&bias),
        residual: shortcut.then_some(&dy),
        activation: Activation::Relu,
    };
    let mut packed = Buffer::zeroed(conv.packed_len(simd));
    conv.pack_into(simd, &w, &mut packed);
    let filter = ConvWeights::Panels(&packed);
    let mut space = Buffer::zeroed(conv.packed_workspace(simd, threads));
    let forward = fastest(|| conv.forward(simd, &x, filter, &epilogue, &mut y, threads, &mut space));
    let mut space = Buffer::zeroed(conv.input_gradient_workspace(simd, threads));
    let input = fastest(|| conv.input_gradient(simd, &dy, &w, Gate::Open, &mut dx, threads, &mut space));
    let mut space = Buffer::zeroed(conv.weight_gradient_workspace(simd, threads));
    let weight = fastest(|| conv.weight_gradient(simd, &x, &dy, &mut dw, threads, &mut space));
    [forward, input, weight]
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse().unwrap_or(1));
    let (n, threads) = (words.next().unwrap_or(1), words.next().unwrap_or(1));
    let simd = Simd::best();
    println!(
        "{}, batch {n}, threads {threads}: GFLOP/s and, over all layers of the kind, ms",
        simd.level()
    );
    println!(
        "{:<32} {:>17} {:>17} {:>17}",
        "", "forward", "d input", "d weight"
    );
    let mut totals = [0.0; 3];
    for Layer {
        geometry,
        count,
        shortcut,
    } in layers(n)
    {
        let conv = match Conv::new(geometry) {
            Ok(conv) => conv,
            Err(error) => return println!("{error}"),
        };
        let Geometry {
            kernel: [k, _],
            stride: [s, _],
            c,
            o,
            h,
            ..
        } = geometry;
        let seconds = times(simd, &conv, shortcut, threads);
        let flops = 2e-9 * conv.multiply_adds() as f64;
        let shown = seconds.map(|t| format!("{:>7.1} {:>9.2}", flops / t, 1e3 * t * count as f64));
        println!(
            "{:<32} {}",
            format!("{count} x {k}x{k}/{s} {c}-{o} at {h}"),
            shown.join(" ")
        );
        totals
            .iter_mut()
            .zip(seconds)
            .for_each(|(total, t)| *total += t * count as f64);
    }
    println!(
        "{:<32} {}",
        "all",
        totals.map(|t| format!("{:>17.2}", 1e3 * t)).join(" ")
    );
}
