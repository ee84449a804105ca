//! Filters as values, in the panels the register tile reads.

use std::ops::Range;

use super::transform::{self, OfTaps, POINTS, SIDE};
use crate::{
    conv::{correlation::Correlation, filter::PackPanel},
    level::{Kernel, Simd},
    share::{Shared, share},
    vector::Vector,
};

/// Channels whose taps are gathered together.
const CHANNELS: usize = 8;

/// Taps of a group of channels and the widest panel.
const TAPS: usize = 25 * CHANNELS * 32;

/// The order of transformed filters: panels of columns, values, channels, columns of the panel.
#[derive(Copy, Clone, Debug)]
pub(super) struct Layout {
    pub(super) width: usize,
    pub(super) panels: usize,
    depth: usize,
}

impl Layout {
    pub(super) fn new(simd: Simd, shape: &Correlation) -> Layout {
        let width = super::panel_width(simd);
        Layout {
            width,
            panels: shape.columns.div_ceil(width),
            depth: shape.depth,
        }
    }

    /// Floats from a value to the next: a line more than there are, for the cache's sake.
    fn stride(&self) -> usize {
        self.depth * self.width + 16
    }

    pub(super) fn len(&self) -> usize {
        self.panels * POINTS * self.stride()
    }

    /// One value's channels and columns of a panel.
    pub(super) fn value(&self, panel: usize, value: usize) -> Range<usize> {
        let start = (panel * POINTS + value) * self.stride();
        start..start + self.depth * self.width
    }

    /// Transforms all weights.
    pub(super) fn pack(
        &self,
        simd: Simd,
        shape: &Correlation,
        weights: &[f32],
        to: &mut [f32],
        threads: usize,
    ) {
        let groups = self.depth.div_ceil(CHANNELS);
        assert!(to.len() >= self.len());
        let to = Shared::new(to);
        share(threads, self.panels * groups, |units| {
            let mut taps = [0.0; TAPS];
            for (panel, group) in units.map(|unit| (unit / groups, unit % groups)) {
                let first = group * CHANNELS;
                let channels = first..(first + CHANNELS).min(self.depth);
                let columns = panel * self.width..((panel + 1) * self.width).min(shape.columns);
                let taps = &mut taps[..shape.taps() * channels.len() * self.width];
                simd.run(PackPanel {
                    shape,
                    weights,
                    channels: channels.clone(),
                    columns,
                    width: self.width,
                    panel: taps,
                });
                // SAFETY: the channels' values of the panel lie inside what is written to.
                let to = unsafe { to.pointer().add(self.value(panel, 0).start + first * self.width) };
                simd.run(Transform {
                    side: shape.lines[0].taps,
                    taps,
                    len: channels.len() * self.width,
                    to,
                    stride: self.stride(),
                });
            }
        });
    }
}

/// Values of `len` filters, whose taps lie `len` apart.
struct Transform<'a> {
    side: usize,
    taps: &'a [f32],
    len: usize,
    to: *mut f32,
    stride: usize,
}

impl Kernel for Transform<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: passed on from the caller.
        unsafe {
            match self.side {
                3 => self.each::<V, 3>(),
                _ => self.each::<V, 5>(),
            }
        }
    }
}

impl Transform<'_> {
    #[inline(always)]
    unsafe fn each<V: Vector, const R: usize>(&self) {
        assert!(self.taps.len() == R * R * self.len && self.len.is_multiple_of(V::LANES));
        for i in (0..self.len).step_by(V::LANES) {
            // SAFETY: so many taps were just found; the caller vouches for what is written.
            unsafe {
                let mut square = [[V::splat(0.0); R]; R];
                for (y, row) in square.iter_mut().enumerate() {
                    for (x, tap) in row.iter_mut().enumerate() {
                        *tap = V::load(self.taps.as_ptr().add((y * R + x) * self.len + i));
                    }
                }
                let values = transform::both::<V, OfTaps, R, SIDE>(square);
                for (value, row) in values.as_flattened().iter().enumerate() {
                    row.store(self.to.add(value * self.stride + i));
                }
            }
        }
    }
}
