//! How a window moves over an image: what convolution and pooling share.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::Shape;

/// Extents, strides, paddings and dilations stay below this, which keeps their products far from overflow.
const LARGEST: usize = 1 << 24;

/// A window over an image, with everything about it resolved. All pairs are `[vertical, horizontal]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// The image's extents.
    pub input: [usize; 2],
    /// Taps per axis.
    pub kernel: [usize; 2],
    /// Distance between neighbouring places of the window.
    pub stride: [usize; 2],
    /// Positions added before and after the image.
    pub padding: [[usize; 2]; 2],
    /// Distance between neighbouring taps.
    pub dilation: [usize; 2],
}

impl Window {
    /// How many places the window takes along each axis, or what is wrong with it.
    pub fn output(&self) -> Result<[usize; 2], String> {
        let parts = [self.input, self.kernel, self.stride, self.dilation];
        if parts.iter().chain(&self.padding).flatten().any(|&x| x > LARGEST) {
            return Err(format!("a window has numbers up to {LARGEST}"));
        }
        if parts[1..].iter().flatten().any(|&x| x == 0) {
            return Err("a window's taps, strides and dilations are at least 1".into());
        }
        let places = |axis: usize| {
            let [low, high] = self.padding[axis];
            let padded = self.input[axis] + low + high;
            let reach = (self.kernel[axis] - 1) * self.dilation[axis] + 1;
            match padded.checked_sub(reach) {
                Some(room) => Ok(room / self.stride[axis] + 1),
                None => Err(format!(
                    "a window that reaches over {reach} does not fit into {padded}, the image with its padding"
                )),
            }
        };
        Ok([places(0)?, places(1)?])
    }

    /// The position along `axis` that tap `tap` reads at place `place`; `None` in the padding.
    pub fn reads(&self, axis: usize, place: usize, tap: usize) -> Option<usize> {
        let position = place * self.stride[axis] + tap * self.dilation[axis];
        position
            .checked_sub(self.padding[axis][0])
            .filter(|&p| p < self.input[axis])
    }

    /// How many taps lie on the image, for each place of the window in row-major order.
    pub fn coverage(&self) -> Result<Vec<usize>, String> {
        let places = self.output()?;
        let along = |axis: usize| -> Vec<usize> {
            let on = |place| {
                (0..self.kernel[axis])
                    .filter(|&tap| self.reads(axis, place, tap).is_some())
                    .count()
            };
            (0..places[axis]).map(on).collect()
        };
        let (rows, columns) = (along(0), along(1));
        Ok(rows
            .iter()
            .flat_map(|r| columns.iter().map(move |c| r * c))
            .collect())
    }

    /// Checks that `images` is a batch of images of the given extents, `[n, height, width, channels]`; gives `n` and the channels.
    pub(super) fn images(images: &Shape, extents: [usize; 2]) -> Result<[usize; 2], String> {
        match *images.dims() {
            [n, h, w, c] if [h, w] == extents => Ok([n, c]),
            [_, _, _, _] => Err(format!(
                "{images} is not a batch of images of {}x{}",
                extents[0], extents[1]
            )),
            _ => Err(format!(
                "{images} is not a batch of images [n, height, width, channels]"
            )),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = |p: [usize; 2]| format!("{}x{}", p[0], p[1]);
        f.write_str(&pair(self.kernel))?;
        if self.stride != [1, 1] {
            write!(f, " stride {}", pair(self.stride))?;
        }
        if self.padding != [[0, 0]; 2] {
            write!(f, " padding {:?}", self.padding)?;
        }
        if self.dilation != [1, 1] {
            write!(f, " dilation {}", pair(self.dilation))?;
        }
        Ok(())
    }
}

/// What surrounds an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Padding {
    /// Nothing: the window stays on the image.
    #[default]
    Valid,
    /// As much as gives `ceil(extent / stride)` places, the odd one at the end.
    Same,
    /// Positions before and after, per axis.
    Explicit([[usize; 2]; 2]),
}

/// How a window is to move, before the extents of the image are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slide {
    /// Distance between neighbouring places of the window.
    pub stride: [usize; 2],
    /// What surrounds the image.
    pub padding: Padding,
    /// Distance between neighbouring taps.
    pub dilation: [usize; 2],
}

impl Default for Slide {
    fn default() -> Slide {
        Slide::by(1)
    }
}

impl Slide {
    /// Steps of `stride` on both axes, without padding or dilation.
    pub fn by(stride: usize) -> Slide {
        Slide {
            stride: [stride; 2],
            padding: Padding::Valid,
            dilation: [1, 1],
        }
    }

    /// With padding that keeps the extents, but for the stride.
    pub fn same(self) -> Slide {
        Slide {
            padding: Padding::Same,
            ..self
        }
    }

    /// With the same padding on all four sides.
    pub fn padded(self, by: usize) -> Slide {
        Slide {
            padding: Padding::Explicit([[by; 2]; 2]),
            ..self
        }
    }

    /// The window over an image of known extents.
    pub fn over(&self, input: [usize; 2], kernel: [usize; 2]) -> Window {
        let same = |axis: usize| {
            let (stride, dilation) = (self.stride[axis].max(1), self.dilation[axis]);
            let reach = kernel[axis]
                .saturating_sub(1)
                .saturating_mul(dilation)
                .saturating_add(1);
            let last = input[axis].div_ceil(stride).saturating_sub(1) * stride;
            let all = last.saturating_add(reach).saturating_sub(input[axis]);
            [all / 2, all - all / 2]
        };
        Window {
            input,
            kernel,
            stride: self.stride,
            padding: match self.padding {
                Padding::Valid => [[0, 0]; 2],
                Padding::Same => [same(0), same(1)],
                Padding::Explicit(padding) => padding,
            },
            dilation: self.dilation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_padding_keeps_extents_and_puts_the_odd_position_last() -> Result<(), String> {
        for (input, kernel, stride) in [(28, 5, 1), (7, 2, 2), (8, 3, 2), (5, 1, 3), (9, 4, 4)] {
            let window = Slide::by(stride).same().over([input; 2], [kernel; 2]);
            assert_eq!(window.output()?, [input.div_ceil(stride); 2], "{window:?}");
            let [low, high] = window.padding[0];
            assert!(high == low || high == low + 1, "{window:?}");
        }
        Ok(())
    }

    #[test]
    fn coverage_counts_only_taps_on_the_image() -> Result<(), String> {
        let window = Slide::by(1).padded(1).over([2, 3], [3, 3]);
        assert_eq!(window.coverage()?, [4, 6, 4, 4, 6, 4]);
        Ok(())
    }

    #[test]
    fn windows_that_make_no_sense_say_why() {
        let window = Slide::by(1).over([4, 4], [3, 3]);
        let refused = |w: Window| w.output().expect_err("a mistake");
        assert!(
            refused(Window {
                kernel: [5, 1],
                ..window
            })
            .contains("does not fit")
        );
        assert!(
            refused(Window {
                stride: [1, 0],
                ..window
            })
            .contains("at least 1")
        );
        let huge = Window {
            padding: [[0, usize::MAX]; 2],
            ..window
        };
        assert!(refused(huge).contains("up to"));
    }
}
