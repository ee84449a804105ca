//! The levels of a byte, and what stands for them.

use serde::{Deserialize, Serialize};
use synod_engine::ops::FakeQuant;

/// What the bytes of an activation mean: `scale · (byte - zero_point)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Grid {
    pub(super) scale: f32,
    pub(super) zero_point: u8,
}

impl Grid {
    /// The grid of least steps that reaches from `least` to `most` and has zero on it.
    pub(super) fn covering(least: f32, most: f32) -> Grid {
        let (least, most) = (least.min(0.0), most.max(0.0));
        let scale = (most - least) / 255.0;
        if !scale.is_normal() {
            return Grid {
                scale: 1.0,
                zero_point: 0,
            };
        }
        Grid {
            scale,
            zero_point: (-least / scale).round() as u8,
        }
    }

    /// The grid of an op of a graph, if it is one of unsigned bytes.
    pub(super) fn of(op: &FakeQuant, scale: f32) -> Option<Grid> {
        let zero_point = u8::try_from(-op.least).ok()?;
        let grid = Grid { scale, zero_point };
        (*op == FakeQuant::unsigned(zero_point) && grid.is_sound()).then_some(grid)
    }

    /// A grid can be used, wherever it comes from.
    pub(super) fn is_sound(&self) -> bool {
        self.scale.is_normal() && self.scale > 0.0
    }

    /// The byte of a number of steps, halves to even.
    pub(super) fn level(&self, steps: f32) -> u8 {
        (steps.round_ties_even() + f32::from(self.zero_point)).clamp(0.0, 255.0) as u8
    }

    pub(super) fn number(&self, byte: u8) -> f32 {
        f32::from(i16::from(byte) - i16::from(self.zero_point)) * self.scale
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_a_grid_covers_comes_back_within_half_a_step_and_zero_exactly(
            least in -1e3f32..1e3,
            width in 1e-3f32..1e3,
            share in 0.0f32..=1.0,
        ) {
            let (least, most) = (least, least + width);
            let grid = Grid::covering(least, most);
            let x = least + share * width;
            // The zero point is rounded, so an end may lie half a step outside.
            prop_assert!((grid.number(grid.level(x / grid.scale)) - x).abs() <= 1.001 * grid.scale);
            prop_assert_eq!(grid.number(grid.level(0.0)), 0.0);
        }
    }

    #[test]
    fn a_value_that_is_always_zero_has_a_grid_too() {
        for grid in [Grid::covering(0.0, 0.0), Grid::covering(f32::NAN, f32::NAN)] {
            assert!(grid.is_sound());
            assert_eq!(grid.number(grid.level(0.0)), 0.0);
        }
    }
}
