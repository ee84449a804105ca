//! Errors in a copy whose rows start on cache lines: they are read for every weight row, and most loads from rows of any
//! length straddle two lines.

use std::mem::MaybeUninit;

use super::Dense;
use crate::vector::{MAX_LANES, Vector, load_up_to};

/// Errors that are worth a copy.
const COPIED: usize = 8192;

/// Where the errors of a sample are.
#[derive(Copy, Clone)]
pub(super) struct Errors {
    pub(super) dy: *const f32,
    pub(super) stride: usize,
}

/// Room for a copy.
#[repr(align(64))]
pub(super) struct Aligned(MaybeUninit<[f32; COPIED]>);

impl Aligned {
    #[inline(always)]
    pub(super) fn new() -> Aligned {
        Aligned(MaybeUninit::uninit())
    }

    /// Whether the errors of a layer fit.
    #[inline(always)]
    pub(super) fn holds(shape: Dense) -> bool {
        shape.rows * shape.outputs.next_multiple_of(MAX_LANES) <= COPIED
    }

    /// Copies errors times `scale`. Rows are filled up with zeros.
    ///
    /// # Safety
    /// The CPU supports `V`, the errors are those of the shape and fit.
    #[inline(always)]
    pub(super) unsafe fn errors<V: Vector>(&mut self, shape: Dense, dy: *const f32, scale: f32) -> Errors {
        let Dense { rows, outputs, .. } = shape;
        let stride = outputs.next_multiple_of(MAX_LANES);
        let to = self.0.as_mut_ptr().cast::<f32>();
        for row in 0..rows {
            for column in (0..outputs).step_by(V::LANES) {
                // SAFETY: every row exists, and its whole registers fit.
                unsafe {
                    let errors = load_up_to::<V>(dy.add(row * outputs + column), outputs - column);
                    (errors * V::splat(scale)).store(to.add(row * stride + column));
                }
            }
        }
        Errors { dy: to, stride }
    }
}
