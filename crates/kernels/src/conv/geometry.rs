//! The sizes of a convolution, checked once.

use std::{error::Error, fmt, ops::Range};

/// The sizes of a two-dimensional convolution as they are asked for. Images are `[n, h, w, c]`, weights
/// `[kernel_h, kernel_w, c / groups, o]`, results `[n, oh, ow, o]`, the last axis innermost.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Images in the batch.
    pub n: usize,
    /// Rows of an image.
    pub h: usize,
    /// Columns of an image.
    pub w: usize,
    /// Channels of an image.
    pub c: usize,
    /// Channels of a result.
    pub o: usize,
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    /// Distance between neighbouring windows, down and across.
    pub stride: [usize; 2],
    /// Zeros before and after the image, down and across.
    pub padding: [[usize; 2]; 2],
    /// Distance between neighbouring taps of the kernel, down and across.
    pub dilation: [usize; 2],
    /// Parts into which the channels are divided; each part of the result sees one part of the image.
    pub groups: usize,
}

impl Geometry {
    /// A convolution of whole images without padding: stride, dilation and groups are one.
    pub fn new([n, h, w, c]: [usize; 4], kernel: [usize; 2], o: usize) -> Geometry {
        Geometry {
            n,
            h,
            w,
            c,
            o,
            kernel,
            stride: [1; 2],
            padding: [[0; 2]; 2],
            dilation: [1; 2],
            groups: 1,
        }
    }
}

/// Why a geometry describes no convolution or pooling.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// Kernel, stride, dilation or groups are zero.
    Zero {
        /// The name of the size.
        name: &'static str,
    },
    /// The channels cannot be divided evenly.
    Groups {
        /// Channels of an image.
        c: usize,
        /// Channels of a result.
        o: usize,
        /// Parts asked for.
        groups: usize,
    },
    /// The kernel reaches beyond the padded image.
    Kernel {
        /// Which axis, 0 for down and 1 for across.
        axis: usize,
        /// What the dilated kernel spans.
        span: usize,
        /// What the padded image has.
        padded: usize,
    },
    /// A tensor of this geometry would not fit in memory.
    TooLarge,
    /// A sum of so many products of bytes may not fit in 32 bits.
    Sum {
        /// Products of one result.
        products: usize,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            GeometryError::Zero { name } => write!(f, "a window with {name} zero; use at least one"),
            GeometryError::Groups { c, o, groups } => write!(
                f,
                "a convolution from {c} to {o} channels in {groups} groups; the groups must divide both"
            ),
            GeometryError::Kernel { axis, span, padded } => {
                let axis = ["rows", "columns"][axis.min(1)];
                write!(
                    f,
                    "a kernel over {span} {axis} on an image of {padded}, padding included; pad more or use a smaller kernel"
                )
            }
            GeometryError::Sum { products } => write!(
                f,
                "a sum of {products} products of bytes may overflow 32 bits; use at most {}",
                crate::int8::MOST_PRODUCTS
            ),
            GeometryError::TooLarge => {
                f.write_str("a window over tensors larger than the memory can address; use smaller sizes")
            }
        }
    }
}

impl Error for GeometryError {}

/// One spatial axis of a window: which inputs each output sees.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Elements of the input.
    pub(crate) input: usize,
    /// Elements of the output.
    pub(crate) output: usize,
    /// Taps of the kernel.
    pub(crate) taps: usize,
    /// Distance between windows.
    pub(crate) stride: usize,
    /// Zeros before the input.
    pub(crate) low: usize,
    /// Distance between taps.
    pub(crate) dilation: usize,
}

impl Axis {
    /// Checks the axis numbered `axis` and counts its outputs.
    pub(crate) fn new(
        axis: usize,
        input: usize,
        taps: usize,
        stride: usize,
        [low, high]: [usize; 2],
        dilation: usize,
    ) -> Result<Axis, GeometryError> {
        for (name, value) in [("kernel", taps), ("stride", stride), ("dilation", dilation)] {
            if value == 0 {
                return Err(GeometryError::Zero { name });
            }
        }
        let too_large = GeometryError::TooLarge;
        let padded = input.checked_add(low).and_then(|x| x.checked_add(high));
        let padded = padded.filter(|&x| x <= LARGEST).ok_or(too_large)?;
        let span = (taps - 1)
            .checked_mul(dilation)
            .and_then(|x| x.checked_add(1))
            .ok_or(too_large)?;
        if span > padded {
            return Err(GeometryError::Kernel { axis, span, padded });
        }
        Ok(Axis {
            input,
            output: (padded - span) / stride + 1,
            taps,
            stride,
            low,
            dilation,
        })
    }

    /// The input padded as far as any window reaches.
    pub(crate) fn reach(&self) -> usize {
        (self.output - 1) * self.stride + (self.taps - 1) * self.dilation + 1
    }

    /// The taps of the window at `output` that meet an input, and the input the first of them meets.
    #[inline(always)]
    pub(crate) fn meets(&self, output: usize) -> (Range<usize>, usize) {
        let first = (output * self.stride) as isize - self.low as isize;
        meets(first, self.dilation, self.taps, self.input)
    }
}

/// The taps, `dilation` apart from `first` on, that meet one of `size` elements, and the element the first of them meets.
#[inline(always)]
pub(super) fn meets(first: isize, dilation: usize, taps: usize, size: usize) -> (Range<usize>, usize) {
    // Divisions are slow, and most windows lie inside.
    let last = first + taps.saturating_sub(1) as isize * dilation as isize;
    if first >= 0 && last < size as isize && taps > 0 {
        return (0..taps, first as usize);
    }
    let start = first.min(0).unsigned_abs().div_ceil(dilation);
    let room = (size as isize - first).max(0).unsigned_abs();
    let end = room.div_ceil(dilation).min(taps);
    if start >= end {
        return (0..0, 0);
    }
    (start..end, (first + (start * dilation) as isize) as usize)
}

/// The most elements any axis or tensor may have, so that signed offsets and byte counts never overflow.
pub(crate) const LARGEST: usize = isize::MAX as usize / 64;

/// The product of the sizes, if a tensor may have so many elements.
pub(crate) fn volume(sizes: &[usize]) -> Result<usize, GeometryError> {
    let product = sizes.iter().try_fold(1_usize, |all, &size| all.checked_mul(size));
    product.filter(|&x| x <= LARGEST).ok_or(GeometryError::TooLarge)
}

/// A convolution whose sizes fit together.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Conv {
    pub(super) geometry: Geometry,
    pub(super) axes: [Axis; 2],
}

impl Conv {
    /// Checks the geometry.
    pub fn new(geometry: Geometry) -> Result<Conv, GeometryError> {
        let Geometry { n, c, o, groups, .. } = geometry;
        let axis = |i: usize, input: usize| {
            let (taps, stride) = (geometry.kernel[i], geometry.stride[i]);
            Axis::new(i, input, taps, stride, geometry.padding[i], geometry.dilation[i])
        };
        let axes = [axis(0, geometry.h)?, axis(1, geometry.w)?];
        if groups == 0 {
            return Err(GeometryError::Zero { name: "groups" });
        }
        if !c.is_multiple_of(groups) || !o.is_multiple_of(groups) {
            return Err(GeometryError::Groups { c, o, groups });
        }
        // Zero sizes must not hide the overflow of the others: what is inside a tensor is counted at every step.
        let at_least = |sizes: [usize; 4]| volume(&sizes.map(|size| size.max(1)));
        let padded = axes.map(|axis| axis.reach().max(axis.input));
        at_least([n, padded[0], padded[1], c])?;
        at_least([n, axes[0].output, axes[1].output, o])?;
        at_least([geometry.kernel[0], geometry.kernel[1], c, o])?;
        Ok(Conv { geometry, axes })
    }

    /// The sizes this convolution was made from.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The shape of the result, `[n, oh, ow, o]`.
    pub fn output_shape(&self) -> [usize; 4] {
        let [y, x] = self.axes;
        [self.geometry.n, y.output, x.output, self.geometry.o]
    }

    /// Elements of the images.
    pub fn input_len(&self) -> usize {
        let Geometry { n, h, w, c, .. } = self.geometry;
        n * h * w * c
    }

    /// Elements of the weights.
    pub fn weight_len(&self) -> usize {
        let Geometry { kernel, o, .. } = self.geometry;
        kernel[0] * kernel[1] * self.group_inputs() * o
    }

    /// Elements of the result.
    pub fn output_len(&self) -> usize {
        self.output_shape().iter().product()
    }

    /// Multiply-adds of the forward pass, those with padding included.
    pub fn multiply_adds(&self) -> usize {
        let [ky, kx] = self.geometry.kernel;
        self.output_len()
            .saturating_mul(ky * kx)
            .saturating_mul(self.group_inputs())
    }

    pub(crate) fn group_inputs(&self) -> usize {
        self.geometry.c / self.geometry.groups
    }

    pub(crate) fn group_outputs(&self) -> usize {
        self.geometry.o / self.geometry.groups
    }

    /// Whether every channel of the result sees one channel of the image, its own.
    pub(super) fn is_depthwise(&self) -> bool {
        let Geometry { c, o, groups, .. } = self.geometry;
        groups == c && o == c
    }

    pub(crate) fn check_len(&self, name: &str, found: usize, wanted: usize) {
        assert!(
            found == wanted,
            "{:?}: {name} has {found} floats, not {wanted}",
            self.geometry
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_counted_as_in_every_textbook() {
        let geometry = Geometry {
            stride: [2; 2],
            padding: [[3, 3]; 2],
            ..Geometry::new([8, 224, 224, 3], [7, 7], 64)
        };
        assert_eq!(Conv::new(geometry).unwrap().output_shape(), [8, 112, 112, 64]);
    }

    #[test]
    fn what_describes_no_convolution_is_refused_with_a_reason() {
        let good = Geometry::new([1, 4, 4, 6], [3, 3], 4);
        let refused = |geometry: Geometry| Conv::new(geometry).unwrap_err();
        assert_eq!(
            refused(Geometry {
                stride: [1, 0],
                ..good
            }),
            GeometryError::Zero { name: "stride" }
        );
        assert_eq!(
            refused(Geometry { groups: 4, ..good }),
            GeometryError::Groups {
                c: 6,
                o: 4,
                groups: 4
            }
        );
        let wide = Geometry {
            dilation: [1, 2],
            ..good
        };
        assert_eq!(
            refused(wide),
            GeometryError::Kernel {
                axis: 1,
                span: 5,
                padded: 4
            }
        );
        let huge = Geometry {
            n: 0,
            h: usize::MAX / 2,
            ..good
        };
        assert_eq!(refused(huge), GeometryError::TooLarge);
        let padded = Geometry {
            padding: [[usize::MAX, 1], [0, 0]],
            ..good
        };
        assert_eq!(refused(padded), GeometryError::TooLarge);
        let dilated = Geometry {
            dilation: [usize::MAX, 1],
            ..good
        };
        assert_eq!(refused(dilated), GeometryError::TooLarge);
    }

    #[test]
    fn the_taps_that_meet_an_input_are_those_inside_it() {
        for (input, taps, stride, low, high, dilation) in [
            (5, 3, 1, 1, 1, 1),
            (4, 3, 2, 4, 5, 2),
            (1, 2, 3, 7, 7, 1),
            (0, 2, 1, 1, 1, 1),
            (9, 4, 3, 0, 5, 3),
        ] {
            let axis = Axis::new(0, input, taps, stride, [low, high], dilation).unwrap();
            for output in 0..axis.output {
                let at = |tap: usize| (output * stride + tap * dilation) as isize - low as isize;
                let wanted: Vec<usize> = (0..taps)
                    .filter(|&tap| (0..input as isize).contains(&at(tap)))
                    .collect();
                let (found, first) = axis.meets(output);
                assert_eq!(found.clone().collect::<Vec<_>>(), wanted, "{axis:?} {output}");
                if !found.is_empty() {
                    assert_eq!(first as isize, at(found.start));
                }
            }
        }
    }
}
