//! Times convolutions and their gradients: `cargo run --release -p synod-kernels --example conv [-- words of names]`.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::time::Instant;

use synod_kernels::{
    Buffer, ByteFilter, ByteResults, ByteWorkspace, Conv, ConvEpilogue, ConvWeights, Gate, Geometry, Simd,
};

fn layers() -> Vec<(String, Geometry)> {
    let same = |k: usize| [[k / 2, k / 2]; 2];
    let square = |n: usize, side: usize, c: usize, k: usize, o: usize| Geometry {
        padding: same(k),
        ..Geometry::new([n, side, side, c], [k, k], o)
    };
    let strided = |geometry: Geometry| Geometry {
        stride: [2; 2],
        ..geometry
    };
    let mut layers = vec![];
    for n in [10, 50] {
        layers.push((format!("mnist conv1, batch {n}"), square(n, 28, 1, 5, 32)));
        layers.push((format!("mnist conv2, batch {n}"), square(n, 14, 32, 5, 64)));
    }
    let resnet = [
        ("7x7/2 3-64 at 224", strided(square(8, 224, 3, 7, 64))),
        ("1x1 64-256 at 56", square(8, 56, 64, 1, 256)),
        ("1x1 256-64 at 56", square(8, 56, 256, 1, 64)),
        ("3x3 64-64 at 56", square(8, 56, 64, 3, 64)),
        ("3x3 128-128 at 28", square(8, 28, 128, 3, 128)),
        ("3x3/2 128-128 at 56", strided(square(8, 56, 128, 3, 128))),
        ("3x3 256-256 at 14", square(8, 14, 256, 3, 256)),
        ("1x1 1024-256 at 14", square(8, 14, 1024, 1, 256)),
        ("3x3 512-512 at 7", square(8, 7, 512, 3, 512)),
        ("1x1/2 256-512 at 56", strided(square(8, 56, 256, 1, 512))),
        (
            "depthwise 3x3 144 at 56",
            Geometry {
                groups: 144,
                ..square(8, 56, 144, 3, 144)
            },
        ),
    ];
    layers.extend(resnet.map(|(name, geometry)| (format!("resnet {name}, batch 8"), geometry)));
    layers
}

/// GFLOP/s of the fastest of many runs.
fn speed(conv: &Conv, mut run: impl FnMut()) -> f64 {
    let (begin, mut best) = (Instant::now(), f64::INFINITY);
    while begin.elapsed().as_secs_f64() < 0.6 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    2e-9 * conv.multiply_adds() as f64 / best
}

fn filled(len: usize) -> Buffer {
    let mut buffer = Buffer::zeroed(len);
    buffer
        .iter_mut()
        .enumerate()
        .for_each(|(i, x)| *x = (i % 17) as f32 - 8.0);
    buffer
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let simd = Simd::best();
    println!("{}, one thread, GFLOP/s", simd.level());
    println!(
        "{:<40} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "forward", "packed", "d input", "d weight", "bytes"
    );
    for (name, geometry) in layers() {
        if !words.iter().all(|word| name.contains(word)) {
            continue;
        }
        let conv = match Conv::new(geometry) {
            Ok(conv) => conv,
            Err(error) => return println!("{name}: {error}"),
        };
        let (x, w, dy) = (
            filled(conv.input_len()),
            filled(conv.weight_len()),
            filled(conv.output_len()),
        );
        let (mut y, mut dx, mut dw) = (dy.clone(), x.clone(), w.clone());
        let bias = filled(geometry.o);
        let epilogue = ConvEpilogue {
            bias: Some(&bias),
            ..ConvEpilogue::default()
        };
        let mut packed = Buffer::zeroed(conv.packed_len(simd));
        conv.pack_into(simd, &w, &mut packed);
        let mut space = Buffer::zeroed(conv.forward_workspace(simd, 1));
        let forward = speed(&conv, || {
            conv.forward(simd, &x, ConvWeights::Plain(&w), &epilogue, &mut y, 1, &mut space)
        });
        let reused = speed(&conv, || {
            conv.forward(
                simd,
                &x,
                ConvWeights::Panels(&packed),
                &epilogue,
                &mut y,
                1,
                &mut space,
            )
        });
        let mut space = Buffer::zeroed(conv.input_gradient_workspace(simd, 1));
        let input = speed(&conv, || {
            conv.input_gradient(simd, &dy, &w, Gate::Open, &mut dx, 1, &mut space)
        });
        let mut space = Buffer::zeroed(conv.weight_gradient_workspace(simd, 1));
        let weight = speed(&conv, || {
            conv.weight_gradient(simd, &x, &dy, &mut dw, 1, &mut space)
        });
        let (bytes, weights) = (vec![3_u8; conv.input_len()], vec![-5_i8; conv.weight_len()]);
        let filter = match ByteFilter::pack(&conv, simd, &weights) {
            Ok(filter) => filter,
            Err(error) => return println!("{name}: {error}"),
        };
        let mut sums = vec![0; conv.output_len()];
        let mut space = ByteWorkspace::default();
        let bytes = speed(&conv, || {
            let sums = ByteResults::Sums(&mut sums);
            conv.forward_bytes(simd, &bytes, 7, &filter, sums, 1, &mut space)
        });
        println!("{name:<40} {forward:>9.1} {reused:>9.1} {input:>9.1} {weight:>9.1} {bytes:>9.1}");
    }
}
