//! One channel to one channel: too few products per pixel for a matrix product, so that channels go in vectors and
//! nothing is copied. Forward pass and input gradient.

use std::ops::Range;

use super::{correlation::Correlation, finish::Finish, geometry::meets};
use crate::{
    level::{Kernel, Simd},
    share::{Shared, share},
    vector::{Vector, load_up_to, store_up_to},
};

/// Neighbouring results that share the loads of the weights.
const TILE: usize = 4;

/// Computes all results of a correlation whose groups have one channel each.
pub(super) fn correlate(
    simd: Simd,
    shape: &Correlation,
    source: &[f32],
    weights: &[f32],
    finish: Finish<'_>,
    target: &mut [f32],
    threads: usize,
) {
    let target = Shared::new(target);
    share(threads, shape.n * shape.lines[0].results, |rows| {
        simd.run(Rows {
            shape,
            source,
            weights,
            finish,
            simple: finish.is_simple() && finish.residual.is_none(),
            target: target.pointer(),
            rows,
        });
    });
}

/// Rows of results, counted over all images.
struct Rows<'a> {
    shape: &'a Correlation,
    source: &'a [f32],
    weights: &'a [f32],
    finish: Finish<'a>,
    /// Whether the finish is small enough to be compiled into the tile.
    simple: bool,
    target: *mut f32,
    rows: Range<usize>,
}

/// The taps of a window that meet the source, where the first of them lies there, and where the result goes.
struct Window {
    taps: [Range<usize>; 2],
    from: usize,
    to: usize,
}

impl Kernel for Rows<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let [down, across] = self.shape.lines;
        let inside = across.inside();
        for row in self.rows.clone() {
            let (image, y) = (row / down.results, row % down.results);
            let (vertical, top) = meets(down.first_source(y), down.dilation, down.taps, down.source);
            let line = (image * down.source + top) * across.source;
            let to = (image * down.target + y * down.step + down.start) * across.target;
            let mut x = 0;
            while x < across.results {
                let (horizontal, left) = meets(
                    across.first_source(x),
                    across.dilation,
                    across.taps,
                    across.source,
                );
                let window = Window {
                    taps: [vertical.clone(), horizontal],
                    from: (line + left) * self.shape.groups,
                    to: (to + x * across.step + across.start) * self.shape.groups,
                };
                // SAFETY: the taps meet the source, and those of all results of a tile do where the tile is inside.
                unsafe {
                    if inside.contains(&x) && x + TILE <= inside.end {
                        if across.taps == 3 {
                            self.tile::<V, TILE, 3>(&window);
                        } else {
                            self.tile::<V, TILE, 0>(&window);
                        }
                        x += TILE;
                    } else {
                        self.tile::<V, 1, 0>(&window);
                        x += 1;
                    }
                }
            }
        }
    }
}

impl Rows<'_> {
    #[inline(always)]
    unsafe fn tile<V: Vector, const T: usize, const K: usize>(&self, window: &Window) {
        let channels = self.shape.groups;
        let mut channel = 0;
        // SAFETY: passed on from the caller.
        unsafe {
            while channel + V::LANES <= channels {
                self.channels::<V, T, K>(window, channel, V::LANES);
                channel += V::LANES;
            }
            if channel < channels {
                self.channels::<V, T, K>(window, channel, channels - channel);
            }
        }
    }

    /// Some channels of `T` neighbouring results, whose taps across are `K` unless that is zero.
    #[inline(always)]
    unsafe fn channels<V: Vector, const T: usize, const K: usize>(
        &self,
        window: &Window,
        channel: usize,
        count: usize,
    ) {
        let [down, across] = self.shape.lines;
        let channels = self.shape.groups;
        let steps = [
            down.dilation * across.source * channels,
            across.dilation * channels,
        ];
        let next = [across.stride * channels, across.step * channels];
        let taps = if K > 0 { K } else { window.taps[1].len() };
        let weight_step = across.tap_step * self.shape.tap_strides[1] as isize;
        // SAFETY: the caller vouches for the window of every result of the tile.
        unsafe {
            let mut sums = [V::splat(0.0); T];
            for (i, y) in window.taps[0].clone().enumerate() {
                let first = self.shape.tap(y, window.taps[1].start) + channel;
                let mut weights = self.weights.as_ptr().wrapping_add(first);
                let mut from = self
                    .source
                    .as_ptr()
                    .wrapping_add(window.from + i * steps[0] + channel);
                for _ in 0..taps {
                    let weight = load_up_to::<V>(weights, count);
                    for (t, sum) in sums.iter_mut().enumerate() {
                        let value = load_up_to::<V>(from.add(t * next[0]), count);
                        *sum = value.mul_add(weight, *sum);
                    }
                    weights = weights.wrapping_offset(weight_step);
                    from = from.wrapping_add(steps[1]);
                }
            }
            for (t, sum) in sums.iter().enumerate() {
                let index = window.to + t * next[1] + channel;
                let mut sum = *sum;
                if self.simple {
                    if let Some(bias) = self.finish.bias {
                        sum = sum + load_up_to(bias.as_ptr().add(channel), count);
                    }
                    sum = self.finish.activation.apply_linear(sum);
                }
                store_up_to(sum, self.target.add(index), count);
                if !self.simple {
                    V::run(FinishOne {
                        finish: &self.finish,
                        channel,
                        index,
                        count,
                        target: self.target,
                    });
                }
            }
        }
    }
}

/// Finishes `count` sums in memory, in a function of its own: the large activations would crowd the registers.
struct FinishOne<'a> {
    finish: &'a Finish<'a>,
    channel: usize,
    index: usize,
    count: usize,
    target: *mut f32,
}

impl Kernel for FinishOne<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: whoever made this has just written the sums.
        unsafe {
            let at = self.target.add(self.index);
            let sum = load_up_to::<V>(at, self.count);
            let value = self.finish.apply(sum, self.channel, self.index, self.count);
            store_up_to(value, at, self.count);
        }
    }
}
