//! Packing operands into the panels the register tile reads.

use std::ops::Range;

use super::Matrix;
use crate::{
    level::{Kernel, Simd},
    vector::{Vector, load_up_to},
};

/// A strided matrix as an operand. Its bounds are checked by whoever makes it.
pub(super) struct MatrixPack<'a> {
    simd: Simd,
    matrix: Matrix<'a>,
}

impl<'a> MatrixPack<'a> {
    pub(super) fn new(simd: Simd, matrix: Matrix<'a>) -> MatrixPack<'a> {
        MatrixPack { simd, matrix }
    }

    /// Writes `rows` (of the left operand; columns of the right one) in panels of `panel` rows: element `(row, d)` goes
    /// to `out[(p * depth.len() + d) * panel + r]`, with `p` and `r` quotient and remainder of `row` by `panel`, all
    /// counted from the starts of the ranges. The rows missing in the last panel are written as zeros.
    pub(super) fn pack(&self, rows: Range<usize>, depth: Range<usize>, panel: usize, out: &mut [f32]) {
        let panels = rows.len().div_ceil(panel);
        assert!(
            out.len() >= panels * panel * depth.len(),
            "pack: {} floats are too few",
            out.len()
        );
        if !rows.is_empty() && !depth.is_empty() {
            self.matrix.check(rows.end, depth.end, "a packed operand");
            self.simd.run(PackPanels {
                matrix: self.matrix,
                rows,
                depth,
                panel,
                out,
            });
        }
    }
}

struct PackPanels<'a> {
    matrix: Matrix<'a>,
    rows: Range<usize>,
    depth: Range<usize>,
    panel: usize,
    out: &'a mut [f32],
}

impl Kernel for PackPanels<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Matrix {
            data,
            row_stride,
            column_stride,
        } = self.matrix;
        let (panel, depth) = (self.panel, self.depth.len());
        let panels = self.out.chunks_exact_mut(panel * depth);
        for (first, out) in self.rows.clone().step_by(panel).zip(panels) {
            let count = (self.rows.end - first).min(panel);
            // SAFETY: the ranges were checked against the matrix, and `out` holds `panel * depth` floats.
            unsafe {
                let from = data
                    .as_ptr()
                    .add(first * row_stride + self.depth.start * column_stride);
                let to = out.as_mut_ptr();
                if row_stride == 1 {
                    copy_rows::<V>(from, column_stride, count, depth, panel, to);
                } else if column_stride == 1 {
                    transpose_rows::<V>(from, row_stride, count, depth, panel, to);
                } else {
                    gather(
                        from,
                        [row_stride, column_stride],
                        count,
                        0..depth,
                        [0, panel],
                        panel,
                        to,
                    );
                }
            }
        }
    }
}

/// The rows of the panel lie side by side: every depth is a copy.
#[inline(always)]
unsafe fn copy_rows<V: Vector>(
    from: *const f32,
    stride: usize,
    count: usize,
    depth: usize,
    panel: usize,
    to: *mut f32,
) {
    for d in 0..depth {
        // SAFETY: `count` floats are readable and `panel` writable at every depth.
        unsafe {
            let (from, to) = (from.add(d * stride), to.add(d * panel));
            let mut i = 0;
            if panel.is_multiple_of(V::LANES) {
                while i < panel {
                    let left = count.saturating_sub(i);
                    let value = if left == 0 {
                        V::splat(0.0)
                    } else {
                        load_up_to::<V>(from.add(i), left)
                    };
                    value.store(to.add(i));
                    i += V::LANES;
                }
            } else {
                while i < panel {
                    *to.add(i) = if i < count { *from.add(i) } else { 0.0 };
                    i += 1;
                }
            }
        }
    }
}

/// Each row of the panel is contiguous along the depth: blocks of eight by eight are transposed in registers.
#[inline(always)]
unsafe fn transpose_rows<V: Vector>(
    from: *const f32,
    stride: usize,
    count: usize,
    depth: usize,
    panel: usize,
    to: *mut f32,
) {
    // Stores are eight wide even where fewer rows are left, and what they spill into the next depth is overwritten:
    // by the next store, or, as groups go from last to first, by the group before. At the end nothing may spill.
    for group in (0..panel).step_by(8).rev() {
        let width = (panel - group).min(8);
        let rows = count.saturating_sub(group).min(8);
        let blocked = if width == 8 {
            depth / 8 * 8
        } else {
            depth.saturating_sub(1) / 8 * 8
        };
        for d in (0..blocked).step_by(8) {
            // SAFETY: `rows` rows of eight floats are readable here, and the eight stores end inside the panel.
            unsafe {
                let source = if rows > 0 {
                    from.add(group * stride + d)
                } else {
                    from
                };
                V::transpose8(source, stride, rows, to.add(d * panel + group), panel);
            }
        }
        // SAFETY: within the panel.
        unsafe {
            gather(
                from,
                [stride, 1],
                count,
                blocked..depth,
                [group, group + width],
                panel,
                to,
            )
        };
    }
}

/// Element by element, for the rows `span` of the panel.
#[inline(always)]
unsafe fn gather(
    from: *const f32,
    [row_stride, depth_stride]: [usize; 2],
    count: usize,
    depth: Range<usize>,
    span: [usize; 2],
    panel: usize,
    to: *mut f32,
) {
    for d in depth {
        for r in span[0]..span[1] {
            // SAFETY: the caller vouches for `count` rows of the source and the whole panel.
            unsafe {
                let value = if r < count {
                    *from.add(r * row_stride + d * depth_stride)
                } else {
                    0.0
                };
                *to.add(d * panel + r) = value;
            }
        }
    }
}
