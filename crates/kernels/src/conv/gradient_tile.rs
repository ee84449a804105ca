//! The register tile of the weight gradient: a sum over the results of a band.

use std::ops::Range;

use super::correlation::Correlation;
use crate::{
    level::Kernel,
    vector::{Vector, load_up_to, store_up_to},
};

/// Columns of the results' gradient, packed or where they are.
#[derive(Copy, Clone)]
pub(super) struct Panels<'a> {
    pub(super) data: &'a [f32],
    /// Floats from a result to the next.
    pub(super) line: usize,
    /// Floats from the columns of one tile to those of the next.
    pub(super) panel: usize,
}

/// One block of channels of one group, over one band.
pub(super) struct GradientTile<'a> {
    pub(super) shape: &'a Correlation,
    /// Where each result's window starts in the copy.
    pub(super) starts: &'a [usize],
    pub(super) copy: &'a [f32],
    /// Floats per pixel of the copy: the channels of the block.
    pub(super) pixel: usize,
    /// From a tap to the next, in pixels of the copy.
    pub(super) tap_steps: [usize; 2],
    /// Which tiles of rows, a row being a tap and a channel.
    pub(super) tiles: Range<usize>,
    /// The columns of the results' gradient.
    pub(super) panels: Panels<'a>,
    pub(super) columns: Range<usize>,
    pub(super) first_channel: usize,
    /// The gradient, from the group's first weight on.
    pub(super) dw: *mut f32,
    /// Whether the gradient holds the sum over earlier bands.
    pub(super) add: bool,
}

impl Kernel for GradientTile<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let rows = self.shape.taps() * self.pixel;
        let last = self.starts.iter().copied().max().unwrap_or(0);
        let (width, panels) = (2 * V::LANES, self.panels);
        let count = self.columns.len().div_ceil(width);
        assert!(rows > 0 && last + self.offset(rows - 1) < self.copy.len());
        if count > 0 && !self.starts.is_empty() {
            let last = (self.starts.len() - 1) * panels.line + (count - 1) * panels.panel;
            assert!(last + width <= panels.data.len());
        }
        // SAFETY: the copy and the panels were just checked; the gradient is the caller's promise.
        unsafe {
            if V::REGISTERS == 32 {
                self.sweep::<V, 8, 2>()
            } else {
                self.sweep::<V, 6, 2>()
            }
        }
    }
}

impl GradientTile<'_> {
    /// The tap, down and across, and the channel of a row.
    #[inline(always)]
    fn row(&self, row: usize) -> [usize; 3] {
        let (tap, channel) = (row / self.pixel, row % self.pixel);
        let across = self.shape.lines[1].taps;
        [tap / across, tap % across, channel]
    }

    /// Where a row's factors lie in the copy, relative to the start of a window.
    #[inline(always)]
    fn offset(&self, row: usize) -> usize {
        let [y, x, channel] = self.row(row);
        (y * self.tap_steps[0] + x * self.tap_steps[1]) * self.pixel + channel
    }

    #[inline(always)]
    unsafe fn sweep<V: Vector, const H: usize, const W: usize>(&self) {
        let width = W * V::LANES;
        let rows = self.shape.taps() * self.pixel;
        for (j, column) in self.columns.clone().step_by(width).enumerate() {
            for first in self.tiles.clone().map(|tile| tile * H) {
                // SAFETY: the rows' factors and the panel exist, and the tile's valid part lies inside the gradient.
                unsafe {
                    let panel = self.panels.data.as_ptr().add(j * self.panels.panel);
                    let mut factors = [self.copy.as_ptr(); H];
                    for (r, factor) in factors.iter_mut().enumerate() {
                        *factor = factor.add(self.offset((first + r).min(rows - 1)));
                    }
                    let sums = self.multiply::<V, H, W>(factors, panel);
                    let count = [(rows - first).min(H), (self.columns.end - column).min(width)];
                    self.store::<V, H, W>(&sums, first, column, count);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply<V: Vector, const H: usize, const W: usize>(
        &self,
        factors: [*const f32; H],
        mut panel: *const f32,
    ) -> [[V; W]; H] {
        // SAFETY: the caller vouches for the factors at every start and for the panel.
        unsafe {
            let mut sums = [[V::splat(0.0); W]; H];
            for &start in self.starts {
                let mut line = [V::splat(0.0); W];
                for (v, register) in line.iter_mut().enumerate() {
                    *register = V::load(panel.add(v * V::LANES));
                }
                for (factor, sums) in factors.iter().zip(sums.iter_mut()) {
                    let value = V::splat(*factor.add(start));
                    for (sum, error) in sums.iter_mut().zip(&line) {
                        *sum = value.mul_add(*error, *sum);
                    }
                }
                panel = panel.wrapping_add(self.panels.line);
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn store<V: Vector, const H: usize, const W: usize>(
        &self,
        sums: &[[V; W]; H],
        first: usize,
        column: usize,
        [rows, columns]: [usize; 2],
    ) {
        for (r, sums) in sums.iter().enumerate() {
            if r >= rows {
                break;
            }
            let [y, x, channel] = self.row(first + r);
            let start = self.shape.tap(y, x) + (self.first_channel + channel) * self.shape.depth_stride;
            for (v, sum) in sums.iter().enumerate() {
                let count = columns.saturating_sub(v * V::LANES);
                if count == 0 {
                    break;
                }
                // SAFETY: the caller vouches for so many rows and columns of the gradient.
                unsafe {
                    let to = self.dw.add(start + column + v * V::LANES);
                    let sum = if self.add {
                        *sum + load_up_to(to, count)
                    } else {
                        *sum
                    };
                    store_up_to(sum, to, count);
                }
            }
        }
    }
}
