//! The gradient of a filter: its values' gradients are sums of products over all squares.

use super::{
    Squares, Values,
    sources::{From, Transform},
    transform::{self, POINTS, SIDE, ToTaps},
};
use crate::{
    conv::{
        band::MOST_PLACES,
        correlation::Correlation,
        gradient_tile::{GradientTile, Panels},
    },
    level::{Kernel, Simd},
    share::{Shared, share},
    vector::{Vector, load_up_to, store_up_to},
};

/// Squares of a block: at least so many, however few the channels.
const LEAST: usize = 32;

/// The share of a filter's largest value, as it counts in a tap, below which the tap's gradient is rounding errors. A tap whose
/// products are all zero has no gradient, and optimisers that divide by the size of gradients would take errors for one.
const NOISE: f32 = 1.0 / (1 << 20) as f32;

/// A weight gradient cut into blocks of squares.
pub(in crate::conv) struct Plan {
    /// The correlation of the forward pass.
    shape: Correlation,
    squares: Squares,
    /// Squares of a block.
    block: usize,
    sources: Values,
    errors: Values,
    /// Columns as they are kept: whole tiles.
    columns: usize,
    threads: usize,
}

impl Plan {
    /// None if another way is better. Takes the correlation of the forward pass.
    pub(in crate::conv) fn new(simd: Simd, shape: &Correlation, threads: usize) -> Option<Plan> {
        let squares = Squares::new(shape)?;
        let columns = shape.columns.next_multiple_of(super::panel_width(simd));
        // Every block reads and writes the gradient, and what it transforms: the more there is of the first, the more squares.
        let wanted = 2 * shape.depth * columns / (shape.depth + columns);
        let most = squares.len().next_multiple_of(8).clamp(8, MOST_PLACES);
        let block = wanted.next_multiple_of(8).max(LEAST).min(most);
        Some(Plan {
            shape: *shape,
            squares,
            block,
            sources: Values::new(block, shape.depth),
            errors: Values::new(block, columns),
            columns,
            threads: threads.max(1),
        })
    }

    /// Floats of one value's gradient.
    fn value_len(&self) -> usize {
        self.shape.depth * self.columns + 16
    }

    pub(in crate::conv) fn workspace(&self) -> usize {
        self.sources.len() + self.errors.len() + POINTS * self.value_len()
    }

    /// Computes the whole gradient.
    pub(in crate::conv) fn run(
        &self,
        simd: Simd,
        x: &[f32],
        dy: &[f32],
        dw: &mut [f32],
        workspace: &mut [f32],
    ) {
        let (sources, rest) = workspace.split_at_mut(self.sources.len());
        let (errors, sums) = rest.split_at_mut(self.errors.len());
        if self.squares.len() == 0 {
            return dw.fill(0.0);
        }
        if self.columns > self.shape.columns {
            // What lies beyond the columns is multiplied like the rest, and left out in the end.
            errors.fill(0.0);
        }
        let tile = super::super::tile::size(simd);
        let rows = self.shape.depth.div_ceil(tile[0]);
        let single = self.single();
        for first in (0..self.squares.len()).step_by(self.block) {
            let block = first..(first + self.block).min(self.squares.len());
            let to = [Shared::new(sources), Shared::new(errors)];
            share(self.threads, block.len(), |part| {
                let (start, range) = (part.start, first + part.start..first + part.end);
                let transform = |from, tensor, channels, values: Values, to: Shared| Transform {
                    squares: &self.squares,
                    from,
                    range: range.clone(),
                    tensor,
                    channels,
                    values,
                    // SAFETY: the squares of a block have room, and every thread has its own.
                    to: unsafe { to.pointer().add(start * values.pitch) },
                };
                simd.run(transform(From::Sources, x, self.shape.depth, self.sources, to[0]));
                simd.run(transform(
                    From::Results,
                    dy,
                    self.shape.columns,
                    self.errors,
                    to[1],
                ));
            });
            let mut starts = [0; MOST_PLACES];
            for (i, start) in starts.iter_mut().enumerate() {
                *start = i * self.shape.depth;
            }
            let (sources, errors, to) = (&*sources, &*errors, Shared::new(sums));
            share(self.threads, POINTS, |values| {
                for value in values {
                    simd.run(GradientTile {
                        shape: &single,
                        starts: &starts[..block.len()],
                        copy: &sources[value * self.sources.stride..][..block.len() * self.shape.depth],
                        pixel: self.shape.depth,
                        tap_steps: [0, 0],
                        tiles: 0..rows,
                        panels: Panels {
                            data: &errors[value * self.errors.stride..],
                            line: self.columns,
                            panel: tile[1],
                        },
                        columns: 0..self.columns,
                        first_channel: 0,
                        // SAFETY: every value has its own part of the sums.
                        dw: unsafe { to.pointer().add(value * self.value_len()) },
                        add: first > 0,
                    });
                }
            });
        }
        let (sums, to) = (&*sums, Shared::new(dw));
        share(self.threads, self.shape.depth, |channels| {
            for channel in channels {
                simd.run(Taps {
                    side: self.squares.taps,
                    sums: &sums[channel * self.columns..],
                    stride: self.value_len(),
                    columns: self.shape.columns,
                    // SAFETY: the channel's weights lie inside the gradient, and every thread has its own.
                    to: unsafe { to.pointer().add(channel * self.shape.depth_stride) },
                    tap_strides: self.shape.tap_strides,
                });
            }
        });
    }

    /// A filter of one tap, which every value's gradient is.
    fn single(&self) -> Correlation {
        let mut lines = self.shape.lines;
        for line in &mut lines {
            (line.taps, line.first_tap, line.tap_step) = (1, 0, 1);
        }
        Correlation {
            lines,
            tap_strides: [0, 0],
            depth_stride: self.columns,
            column_stride: 1,
            ..self.shape
        }
    }
}

/// The gradients of one channel's taps from those of its values.
struct Taps<'a> {
    side: usize,
    sums: &'a [f32],
    stride: usize,
    columns: usize,
    to: *mut f32,
    tap_strides: [usize; 2],
}

impl Kernel for Taps<'_> {
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

impl Taps<'_> {
    #[inline(always)]
    unsafe fn each<V: Vector, const R: usize>(&self) {
        assert!(self.sums.len() >= (POINTS - 1) * self.stride + self.columns.next_multiple_of(V::LANES));
        for column in (0..self.columns).step_by(V::LANES) {
            let count = (self.columns - column).min(V::LANES);
            // SAFETY: the sums were just checked; the caller vouches for the gradient.
            unsafe {
                let mut values = [[V::splat(0.0); SIDE]; SIDE];
                for (value, v) in values.as_flattened_mut().iter_mut().enumerate() {
                    *v = load_up_to(self.sums.as_ptr().add(value * self.stride + column), count);
                }
                let weights = transform::tap_weights(R);
                let mut noise = V::splat(0.0);
                for (row, down) in values.iter().zip(weights) {
                    for (value, across) in row.iter().zip(weights) {
                        noise = noise.max(value.abs() * V::splat(NOISE * down * across));
                    }
                }
                let taps = transform::both::<V, ToTaps, SIDE, R>(values);
                for (y, row) in taps.iter().enumerate() {
                    for (x, tap) in row.iter().enumerate() {
                        let at = y * self.tap_strides[0] + x * self.tap_strides[1] + column;
                        let tap = V::select(tap.abs().less(noise), V::splat(0.0), *tap);
                        store_up_to(tap, self.to.add(at), count);
                    }
                }
            }
        }
    }
}
