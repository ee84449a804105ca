//! Products of few rows with weights that are packed once and used at every time.

use std::ops::Range;

use crate::{
    conv::filter::{copy, transpose},
    even_parts,
    level::{Kernel, Simd},
    vector::{Vector, load_up_to, store_up_to},
};

/// `[rows, depth]` by `[depth, columns]`.
#[derive(Copy, Clone, Debug)]
pub(super) struct Product {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
}

/// Columns of a panel at the widest level: two of its vectors.
const WIDEST: usize = 32;

impl Product {
    /// Floats of the packed weights, at any level.
    pub(super) fn packed_len(&self) -> usize {
        self.depth * self.columns.next_multiple_of(WIDEST)
    }

    /// Floats of the left factor, turned.
    pub(super) fn turned_len(&self) -> usize {
        self.depth.next_multiple_of(8) * self.pitch()
    }

    fn pitch(&self) -> usize {
        self.rows.next_multiple_of(8)
    }

    /// Packs `[depth, columns]`, or, `turned`, `[columns, depth]`.
    pub(super) fn pack(&self, simd: Simd, weights: &[f32], turned: bool, panels: &mut [f32]) {
        assert!(weights.len() == self.depth * self.columns && panels.len() >= self.packed_len());
        simd.run(Pack {
            shape: *self,
            weights,
            turned,
            panels,
        });
    }

    /// `y = start + x * weights`, with the rows of `x`, `start` and `y` side by side. `turned` is working memory.
    pub(super) fn run(
        &self,
        simd: Simd,
        x: &[f32],
        panels: &[f32],
        start: Option<&[f32]>,
        y: &mut [f32],
        turned: &mut [f32],
    ) {
        assert!(x.len() == self.rows * self.depth && y.len() == self.rows * self.columns);
        assert!(start.is_none_or(|start| start.len() == y.len()));
        assert!(panels.len() >= self.packed_len() && turned.len() >= self.turned_len());
        simd.run(Run {
            shape: *self,
            x,
            panels,
            start,
            y,
            turned,
        });
    }
}

struct Pack<'a> {
    shape: Product,
    weights: &'a [f32],
    turned: bool,
    panels: &'a mut [f32],
}

impl Kernel for Pack<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Product { depth, columns, .. } = self.shape;
        let width = 2 * V::LANES;
        for column in (0..columns).step_by(width) {
            let count = (columns - column).min(width);
            // SAFETY: so many columns and all of the depth lie inside the weights, and a panel inside the panels.
            unsafe {
                let to = self.panels.as_mut_ptr().add(column * depth);
                if self.turned {
                    let from = self.weights.as_ptr().add(column * depth);
                    transpose::<V>(from, depth, depth, count, width, to, width);
                } else {
                    let from = self.weights.as_ptr().add(column);
                    copy::<V>(from, columns, depth, count, width, to);
                }
            }
        }
    }
}

struct Run<'a> {
    shape: Product,
    x: &'a [f32],
    panels: &'a [f32],
    start: Option<&'a [f32]>,
    y: &'a mut [f32],
    turned: &'a mut [f32],
}

impl Kernel for Run<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(mut self) {
        // SAFETY: the operands were checked by the caller.
        unsafe {
            self.turn::<V>();
            if V::REGISTERS == 32 {
                self.sweep::<V>(12)
            } else {
                self.sweep::<V>(6)
            }
        }
    }
}

impl Run<'_> {
    /// Puts what the rows have at one depth side by side, where one pointer reaches it.
    #[inline(always)]
    unsafe fn turn<V: Vector>(&mut self) {
        let Product { rows, depth, .. } = self.shape;
        let pitch = self.shape.pitch();
        for first in (0..rows).step_by(8) {
            let count = (rows - first).min(8);
            // SAFETY: the rows lie inside the factor; the turned one has room for eight of them and all of the depth.
            unsafe {
                let from = self.x.as_ptr().add(first * depth);
                transpose::<V>(
                    from,
                    depth,
                    depth,
                    count,
                    8,
                    self.turned.as_mut_ptr().add(first),
                    pitch,
                );
            }
        }
    }

    #[inline(always)]
    unsafe fn sweep<V: Vector>(&mut self, most: usize) {
        let Product { rows, columns, .. } = self.shape;
        for column in (0..columns).step_by(2 * V::LANES) {
            let columns = column..(column + 2 * V::LANES).min(columns);
            let mut row = 0;
            for count in even_parts(rows, most) {
                // SAFETY: the tile lies inside the result, and its panel inside the panels.
                unsafe {
                    match count {
                        1 => self.tile::<V, 1>(row, columns.clone()),
                        2 => self.tile::<V, 2>(row, columns.clone()),
                        3 => self.tile::<V, 3>(row, columns.clone()),
                        4 => self.tile::<V, 4>(row, columns.clone()),
                        5 => self.tile::<V, 5>(row, columns.clone()),
                        6 => self.tile::<V, 6>(row, columns.clone()),
                        7 => self.tile::<V, 7>(row, columns.clone()),
                        8 => self.tile::<V, 8>(row, columns.clone()),
                        9 => self.tile::<V, 9>(row, columns.clone()),
                        10 => self.tile::<V, 10>(row, columns.clone()),
                        11 => self.tile::<V, 11>(row, columns.clone()),
                        _ => self.tile::<V, 12>(row, columns.clone()),
                    }
                }
                row += count;
            }
        }
    }

    #[inline(always)]
    unsafe fn tile<V: Vector, const H: usize>(&mut self, row: usize, columns: Range<usize>) {
        let Product {
            depth, columns: line, ..
        } = self.shape;
        let pitch = self.shape.pitch();
        let counts = [0, 1].map(|v| columns.len().saturating_sub(v * V::LANES));
        // SAFETY: the caller vouches for the tile and the panel; the left factor was turned with this pitch.
        unsafe {
            let mut sums = [[V::splat(0.0); 2]; H];
            if let Some(start) = self.start {
                for (r, sums) in sums.iter_mut().enumerate() {
                    for (v, sum) in sums.iter_mut().enumerate().filter(|(v, _)| counts[*v] > 0) {
                        let at = (row + r) * line + columns.start + v * V::LANES;
                        *sum = load_up_to(start.as_ptr().add(at), counts[v]);
                    }
                }
            }
            let mut panel = self.panels.as_ptr().add(columns.start * depth);
            let mut factors = self.turned.as_ptr().add(row);
            for _ in 0..depth {
                let weights = [V::load(panel), V::load(panel.add(V::LANES))];
                for (r, sums) in sums.iter_mut().enumerate() {
                    let factor = V::splat(*factors.add(r));
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum = factor.mul_add(weight, *sum);
                    }
                }
                panel = panel.add(2 * V::LANES);
                factors = factors.wrapping_add(pitch);
            }
            for (r, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate().filter(|(v, _)| counts[*v] > 0) {
                    let at = (row + r) * line + columns.start + v * V::LANES;
                    store_up_to(*sum, self.y.as_mut_ptr().add(at), counts[v]);
                }
            }
        }
    }
}
