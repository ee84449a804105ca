//! What happens to a sum on its way to memory, and the general way of a tile there.

use std::ops::Range;

use super::band::Place;
use crate::{
    activation::{Activation, Gate},
    level::Kernel,
    vector::{Vector, load_up_to, store_up_to},
};

/// Floats of the largest tile.
pub(super) const SCRATCH: usize = 8 * 32;

/// `gate(act(sum + bias + residual))`.
#[derive(Copy, Clone, Debug)]
pub(super) struct Finish<'a> {
    pub(super) bias: Option<&'a [f32]>,
    pub(super) residual: Option<&'a [f32]>,
    pub(super) activation: Activation,
    pub(super) gate: Gate<'a>,
}

impl Finish<'_> {
    /// Whether it is small enough to be compiled into the tile.
    #[inline(always)]
    pub(super) fn is_simple(&self) -> bool {
        matches!(self.gate, Gate::Open) && self.activation.is_linear()
    }

    /// Finishes `count` sums of `column` and the following that belong at `index` of the target.
    ///
    /// # Safety
    /// The CPU supports `V`; biases, residual and gate, where there are any, reach so far.
    #[inline(always)]
    pub(super) unsafe fn apply<V: Vector>(&self, mut sum: V, column: usize, index: usize, count: usize) -> V {
        // SAFETY: passed on from the caller.
        unsafe {
            if let Some(bias) = self.bias {
                sum = sum + load_up_to(bias.as_ptr().add(column), count);
            }
            if let Some(residual) = self.residual {
                sum = sum + load_up_to(residual.as_ptr().add(index), count);
            }
            self.gate.apply(self.activation.apply(sum), index, count)
        }
    }
}

/// A tile of sums in scratch memory, of which the rows with places and the given columns belong to the target.
pub(super) struct FinishTile<'a> {
    pub(super) scratch: &'a [f32; SCRATCH],
    pub(super) width: usize,
    pub(super) places: &'a [Place],
    pub(super) columns: Range<usize>,
    pub(super) first_column: usize,
    pub(super) target: *mut f32,
    pub(super) finish: &'a Finish<'a>,
    pub(super) add: bool,
    pub(super) last: bool,
}

impl Kernel for FinishTile<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for (r, place) in self.places.iter().enumerate() {
            let mut column = self.columns.start;
            while column < self.columns.end {
                let count = (self.columns.end - column).min(V::LANES);
                // SAFETY: the tile's valid part lies inside the target, whose extent every part of the finish shares.
                unsafe {
                    let to = self.target.add(place.to + column);
                    let from = r * self.width + column - self.columns.start;
                    let mut value = V::load(self.scratch.as_ptr().add(from));
                    if self.add {
                        value = value + load_up_to(to, count);
                    }
                    if self.last {
                        let column = self.first_column + column;
                        value = self.finish.apply(value, column, place.to + column, count);
                    }
                    store_up_to(value, to, count);
                }
                column += count;
            }
        }
    }
}
