//! The weight gradient of a convolution of one channel to one channel.

use std::ops::Range;

use super::{correlation::Correlation, geometry::meets};
use crate::{
    level::{Kernel, Simd},
    share::{Shared, share},
    vector::{MAX_LANES, Vector, load_up_to, store_up_to},
};

/// Computes the whole gradient of the weights; takes the correlation of the forward pass.
pub(super) fn weight_gradient(
    simd: Simd,
    shape: &Correlation,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    threads: usize,
) {
    dw.fill(0.0);
    let dw = Shared::new(dw);
    share(threads, shape.groups.div_ceil(MAX_LANES), |blocks| {
        simd.run(Channels {
            shape,
            x,
            dy,
            dw: dw.pointer(),
            channels: blocks.start * MAX_LANES..(blocks.end * MAX_LANES).min(shape.groups),
        });
    });
}

/// Some of the channels, over all results.
struct Channels<'a> {
    shape: &'a Correlation,
    x: &'a [f32],
    dy: &'a [f32],
    dw: *mut f32,
    channels: Range<usize>,
}

/// Results of one row that a tap is summed over.
struct Stretch {
    /// Where the tap meets the first of them.
    x: usize,
    dy: usize,
    len: usize,
}

impl Kernel for Channels<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let [down, across] = self.shape.lines;
        let channels = self.shape.groups;
        for row in 0..self.shape.n * down.results {
            let (image, y) = (row / down.results, row % down.results);
            let (vertical, top) = meets(down.first_source(y), down.dilation, down.taps, down.source);
            for (i, tap_y) in vertical.enumerate() {
                let line = (image * down.source + top + i * down.dilation) * across.source;
                // SAFETY: the taps meet the source over all of their stretches.
                unsafe {
                    let mut tap = 0;
                    while tap < across.taps {
                        let count = (across.taps - tap).min(3);
                        let shared = across.shared_results(tap..tap + count);
                        for i in tap..tap + count {
                            let own = across.shared_results(i..i + 1);
                            let (early, late) = outside(&own, &shared);
                            for part in [early, late] {
                                let stretch = self.stretch(line, row, i, &part, channels);
                                self.sum::<V, 1>([tap_y, i], &stretch);
                            }
                        }
                        let stretch = self.stretch(line, row, tap, &shared, channels);
                        match count {
                            3 => self.sum::<V, 3>([tap_y, tap], &stretch),
                            2 => self.sum::<V, 2>([tap_y, tap], &stretch),
                            _ => self.sum::<V, 1>([tap_y, tap], &stretch),
                        }
                        tap += count;
                    }
                }
            }
        }
    }
}

/// What `own` has before and after `shared`.
#[inline(always)]
fn outside(own: &Range<usize>, shared: &Range<usize>) -> (Range<usize>, Range<usize>) {
    if shared.is_empty() {
        return (own.clone(), 0..0);
    }
    (own.start..shared.start, shared.end..own.end)
}

impl Channels<'_> {
    #[inline(always)]
    fn stretch(&self, line: usize, row: usize, tap: usize, part: &Range<usize>, channels: usize) -> Stretch {
        let across = self.shape.lines[1];
        if part.is_empty() {
            return Stretch { x: 0, dy: 0, len: 0 };
        }
        let x = across.first_source(part.start) + (tap * across.dilation) as isize;
        Stretch {
            x: (line + x as usize) * channels,
            dy: (row * across.results + part.start) * channels,
            len: part.len(),
        }
    }

    /// Adds the sums over a stretch to `T` neighbouring taps.
    #[inline(always)]
    unsafe fn sum<V: Vector, const T: usize>(&self, tap: [usize; 2], stretch: &Stretch) {
        if stretch.len == 0 {
            return;
        }
        let mut channel = self.channels.start;
        // SAFETY: passed on from the caller.
        unsafe {
            while channel + V::LANES <= self.channels.end {
                self.sum_channels::<V, T>(tap, stretch, channel, V::LANES);
                channel += V::LANES;
            }
            if channel < self.channels.end {
                self.sum_channels::<V, T>(tap, stretch, channel, self.channels.end - channel);
            }
        }
    }

    #[inline(always)]
    unsafe fn sum_channels<V: Vector, const T: usize>(
        &self,
        tap: [usize; 2],
        stretch: &Stretch,
        channel: usize,
        count: usize,
    ) {
        let across = self.shape.lines[1];
        let channels = self.shape.groups;
        // SAFETY: the caller vouches for the stretch at every tap.
        unsafe {
            let mut x = self.x.as_ptr().add(stretch.x + channel);
            let mut dy = self.dy.as_ptr().add(stretch.dy + channel);
            let mut sums = [V::splat(0.0); T];
            for _ in 0..stretch.len {
                let error = load_up_to::<V>(dy, count);
                for (t, sum) in sums.iter_mut().enumerate() {
                    let value = load_up_to::<V>(x.add(t * across.dilation * channels), count);
                    *sum = value.mul_add(error, *sum);
                }
                x = x.wrapping_add(across.stride * channels);
                dy = dy.wrapping_add(channels);
            }
            for (t, sum) in sums.iter().enumerate() {
                let to = self.dw.add(self.shape.tap(tap[0], tap[1] + t) + channel);
                store_up_to(load_up_to::<V>(to, count) + *sum, to, count);
            }
        }
    }
}
