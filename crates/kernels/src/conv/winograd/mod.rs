//! Convolution by values at points, in the manner of Winograd: squares of sources and filters are transformed, multiplied value
//! by value, and transformed back, with a quarter of the products for filters of 3 x 3 and little more than a third for 5 x 5.
//!
//! Rounding errors are a few times those of a plain sum: the transforms cancel what they add.

use super::correlation::{Correlation, Line};
use crate::level::Simd;

mod filter;
mod gradient;
mod results;
mod sources;
mod transform;

pub(super) use gradient::Plan as GradientPlan;
pub(super) use results::Plan;
use transform::SIDE;

/// Channels below which the transforms cost more than they save.
const LEAST_CHANNELS: usize = 16;

/// Squares of an image below which transforming the filter costs more than it saves.
const LEAST_SQUARES: usize = 12;

/// The least share of products that is saved, to pay for the transforms: squares that reach beyond the image save less.
const LEAST_SAVING: f64 = 0.4;

/// The squares into which the results of a correlation are cut. The choice does not depend on the number of images.
#[derive(Copy, Clone, Debug)]
struct Squares {
    lines: [Line; 2],
    /// Images.
    n: usize,
    taps: usize,
    /// Squares of an image, down and across.
    count: [usize; 2],
}

/// Where a square lies: its image, and its first result down and across.
#[derive(Copy, Clone, Debug)]
struct Corner {
    image: usize,
    results: [usize; 2],
}

impl Squares {
    /// The squares of a correlation, if that is a good way to compute it.
    fn new(shape: &Correlation) -> Option<Squares> {
        let plain = |line: &Line| {
            [line.stride, line.dilation, line.step] == [1; 3]
                && line.start == 0
                && line.results == line.target
        };
        let [down, across] = shape.lines;
        let is_square = down.taps == across.taps && matches!(down.taps, 3 | 5);
        let channels = shape.depth.min(shape.columns);
        if !is_square || shape.groups != 1 || channels < LEAST_CHANNELS || !shape.lines.iter().all(plain) {
            return None;
        }
        let squares = Squares {
            lines: shape.lines,
            n: shape.n,
            taps: down.taps,
            count: shape
                .lines
                .map(|line| line.results.div_ceil(SIDE + 1 - line.taps)),
        };
        let each = squares.count[0] * squares.count[1];
        let plain = (shape.taps() * down.results * across.results) as f64;
        let saved = 1.0 - (transform::POINTS * each) as f64 / plain;
        (each >= LEAST_SQUARES && saved >= LEAST_SAVING).then_some(squares)
    }

    /// Results of a square, down or across.
    fn side(&self) -> usize {
        SIDE + 1 - self.taps
    }

    /// Squares of all images.
    fn len(&self) -> usize {
        self.n * self.count[0] * self.count[1]
    }

    #[inline(always)]
    fn corner(&self, square: usize) -> Corner {
        let [down, across] = self.count;
        let (line, x) = (square / across, square % across);
        Corner {
            image: line / down,
            results: [line % down * self.side(), x * self.side()],
        }
    }
}

/// The layout of squares transformed together: value by value, square by square, channel by channel.
#[derive(Copy, Clone, Debug)]
struct Values {
    /// Floats of a square's channels.
    pitch: usize,
    /// Floats from a value to the next.
    stride: usize,
}

impl Values {
    fn new(squares: usize, pitch: usize) -> Values {
        // A line more, so that the values of a square do not all meet in one set of the cache.
        let stride = (squares * pitch).next_multiple_of(16) + 16;
        Values { pitch, stride }
    }

    fn len(&self) -> usize {
        transform::POINTS * self.stride
    }
}

/// The columns of a panel.
fn panel_width(simd: Simd) -> usize {
    super::tile::size(simd)[1]
}
