//! Pooling and sums of bytes.

use synod_engine::ops::Window;
use synod_kernels::{Simd, add_bytes};

use super::grid::Grid;

/// The positions of the image that a window sees along one axis.
fn seen(window: &Window, axis: usize, place: usize) -> impl Iterator<Item = usize> + Clone {
    let (start, low) = (place * window.stride[axis], window.padding[axis][0]);
    let dilation = window.dilation[axis];
    let skipped = low.saturating_sub(start).div_ceil(dilation);
    let first = start + skipped * dilation;
    let taps = window.kernel[axis].saturating_sub(skipped);
    (first.saturating_sub(low)..window.input[axis])
        .step_by(dilation)
        .take(taps)
}

/// Calls `f` with every place of the window: the image's rows of channels that it sees, and where its own begin.
fn places<'a>(
    window: &Window,
    [h, w, channels]: [usize; 3],
    images: &'a [u8],
    mut f: impl FnMut(&mut dyn Iterator<Item = &'a [u8]>, usize, usize),
) {
    let image = window.input[0] * window.input[1] * channels;
    for (n, image) in images.chunks_exact(image.max(1)).enumerate() {
        for place in 0..h * w {
            let (down, across) = (seen(window, 0, place / w), seen(window, 1, place % w));
            let pixels = down.flat_map(|y| across.clone().map(move |x| y * window.input[1] + x));
            let mut rows = pixels.map(|p| &image[p * channels..(p + 1) * channels]);
            f(&mut rows, place, (n * h * w + place) * channels);
        }
    }
}

/// The largest byte of every window; one that sees nothing gives zero.
pub(super) fn max(window: &Window, shape: [usize; 3], grid: Grid, x: &[u8], y: &mut [u8]) {
    places(window, shape, x, |rows, _, at| {
        let y = &mut y[at..at + shape[2]];
        match rows.next() {
            Some(first) => y.copy_from_slice(first),
            None => y.fill(grid.zero_point),
        }
        for row in rows {
            y.iter_mut().zip(row).for_each(|(y, &x)| *y = (*y).max(x));
        }
    });
}

/// The mean of every window, from one grid to another.
pub(super) fn average(
    window: &Window,
    shape: [usize; 3],
    count_padding: bool,
    [from, to]: [Grid; 2],
    x: &[u8],
    y: &mut [u8],
) {
    let taps = (window.kernel[0] * window.kernel[1]).max(1);
    let mut sums = vec![0i64; shape[2]];
    places(window, shape, x, |rows, _, at| {
        sums.fill(0);
        let mut count = 0;
        for row in rows {
            sums.iter_mut().zip(row).for_each(|(s, &x)| *s += i64::from(x));
            count += 1;
        }
        let zero = i64::from(from.zero_point) * count;
        let parts = if count_padding {
            taps
        } else {
            count.max(1) as usize
        };
        let scale = from.scale / to.scale / parts as f32;
        for (y, sum) in y[at..at + shape[2]].iter_mut().zip(&sums) {
            *y = to.level((sum - zero) as f32 * scale);
        }
    });
}

/// `a + b`, each on a grid of its own, not below zero if `relu`.
pub(super) fn add(
    simd: Simd,
    a: (&[u8], Grid),
    b: (&[u8], Grid),
    to: Grid,
    relu: bool,
    y: &mut [u8],
    threads: usize,
) {
    let [a, b] = [a, b].map(|(bytes, grid)| (bytes, grid.zero_point, grid.scale / to.scale));
    add_bytes(simd, a, b, to.zero_point, relu, y, threads);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use synod_engine::ops::Slide;
    use synod_engine::{Builder, Type, interpret};

    use super::*;

    proptest! {
        #[test]
        fn pools_of_bytes_are_those_of_their_numbers(
            bytes in proptest::collection::vec(any::<u8>(), 2 * 5 * 6 * 3),
            zero_point in any::<u8>(),
            kernel in [1usize..4, 1usize..4],
            stride in 1usize..4,
            padding in 0usize..2,
            count_padding in any::<bool>(),
        ) {
            let window = Slide::by(stride).padded(padding.min(kernel[0] / 2).min(kernel[1] / 2)).over([5, 6], kernel);
            let [h, w] = window.output().expect("it fits");
            let grid = Grid { scale: 1.0, zero_point };
            let (shape, count) = ([h, w, 3], 2 * h * w * 3);
            let mut b = Builder::new();
            let x = b.param(Type::tensor([2, 5, 6, 3]), "x");
            let (most, sum) = (b.max_pool(x, window), b.sum_pool(x, window));
            let graph = b.finish(&[most, sum]).expect("sound");
            let numbers: Vec<f64> = bytes.iter().map(|&q| f64::from(grid.number(q))).collect();
            let wanted = interpret(&graph, &[numbers]).expect("sound");
            let mut found = vec![0; count];
            max(&window, shape, grid, &bytes, &mut found);
            for (&q, &x) in found.iter().zip(&wanted[0]) {
                prop_assert_eq!(f64::from(grid.number(q)), x);
            }
            average(&window, shape, count_padding, [grid, grid], &bytes, &mut found);
            let coverage = window.coverage().expect("it fits");
            for (i, (&q, &x)) in found.iter().zip(&wanted[1]).enumerate() {
                let parts = if count_padding { kernel[0] * kernel[1] } else { coverage[i / 3 % (h * w)] };
                prop_assert!((f64::from(grid.number(q)) - x / parts as f64).abs() <= 0.5 + 1e-3);
            }
        }
    }

    #[test]
    fn sums_of_bytes_are_rounded_once_and_kept_within_the_grid() {
        let (a, b) = (
            Grid {
                scale: 0.5,
                zero_point: 10,
            },
            Grid {
                scale: 0.25,
                zero_point: 0,
            },
        );
        let to = Grid {
            scale: 1.0,
            zero_point: 3,
        };
        let mut y = [0; 4];
        // -5 + 0, 0 + 1.25, 100 + 63.75, and 1.5 + 0, a half that goes to even.
        let (left, right) = ([0, 10, 210, 13], [0, 5, 255, 0]);
        add(Simd::best(), (&left, a), (&right, b), to, false, &mut y, 1);
        assert_eq!(y, [0, 4, 167, 5]);
        add(Simd::best(), (&left, a), (&right, b), to, true, &mut y, 1);
        assert_eq!(y, [3, 4, 167, 5]);
    }
}
