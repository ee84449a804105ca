//! Maxima and sums over windows of images whose channels are innermost, with the adjoints their gradients need.

use crate::{
    conv::{Axis, GeometryError, volume},
    level::Simd,
    share::{Shared, share},
    vector::MAX_LANES,
};

mod max;
mod sum;
mod windows;

use windows::Part;

/// The sizes of a pooling as they are asked for; images are `[n, h, w, c]`, results `[n, oh, ow, c]`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolGeometry {
    /// Images in the batch.
    pub n: usize,
    /// Rows of an image.
    pub h: usize,
    /// Columns of an image.
    pub w: usize,
    /// Channels of images and results.
    pub c: usize,
    /// Rows and columns of a window.
    pub kernel: [usize; 2],
    /// Distance between neighbouring windows, down and across.
    pub stride: [usize; 2],
    /// How far windows reach beyond the image, before and after, down and across.
    pub padding: [[usize; 2]; 2],
    /// Distance between neighbouring elements of a window, down and across.
    pub dilation: [usize; 2],
}

impl PoolGeometry {
    /// Windows side by side, without padding.
    pub fn new([n, h, w, c]: [usize; 4], kernel: [usize; 2]) -> PoolGeometry {
        PoolGeometry {
            n,
            h,
            w,
            c,
            kernel,
            stride: kernel,
            padding: [[0; 2]; 2],
            dilation: [1; 2],
        }
    }
}

/// What the sum over a window is divided by.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Divisor {
    /// Nothing.
    One,
    /// The elements of the window, those outside the image included.
    Window,
    /// The elements of the window that lie inside the image.
    Inside,
}

/// A pooling whose sizes fit together.
///
/// Only elements inside the image count. A maximum is the first of the largest elements in the order of the window, rows
/// first; where there is a NaN, it is the first NaN. A window wholly outside the image has the maximum minus infinity,
/// the sum zero, and picks zero.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    window: PoolGeometry,
    axes: [Axis; 2],
}

impl Pool {
    /// Checks the sizes.
    pub fn new(window: PoolGeometry) -> Result<Pool, GeometryError> {
        let axis = |i: usize, input: usize| {
            let (taps, stride) = (window.kernel[i], window.stride[i]);
            Axis::new(i, input, taps, stride, window.padding[i], window.dilation[i])
        };
        let axes = [axis(0, window.h)?, axis(1, window.w)?];
        let padded = axes.map(|axis| axis.reach().max(axis.input).max(1));
        volume(&[window.n.max(1), padded[0], padded[1], window.c.max(1)])?;
        Ok(Pool { window, axes })
    }

    /// The sizes this pooling was made from.
    pub fn window(&self) -> &PoolGeometry {
        &self.window
    }

    /// The shape of the result, `[n, oh, ow, c]`.
    pub fn output_shape(&self) -> [usize; 4] {
        [
            self.window.n,
            self.axes[0].output,
            self.axes[1].output,
            self.window.c,
        ]
    }

    /// Elements of the images.
    pub fn input_len(&self) -> usize {
        let PoolGeometry { n, h, w, c, .. } = self.window;
        n * h * w * c
    }

    /// Elements of the result.
    pub fn output_len(&self) -> usize {
        self.output_shape().iter().product()
    }

    /// `y` = the maximum of every window.
    pub fn max(&self, simd: Simd, x: &[f32], y: &mut [f32], threads: usize) {
        self.check_len("x", x.len(), self.input_len());
        self.check_len("y", y.len(), self.output_len());
        let y = Shared::new(y);
        self.share_rows(threads, |part| {
            simd.run(max::Max {
                part,
                x,
                y: y.pointer(),
            })
        });
    }

    /// `y` = the element of `z` where `x` has its maximum, for every window.
    pub fn max_pick(&self, simd: Simd, x: &[f32], z: &[f32], y: &mut [f32], threads: usize) {
        self.check_len("x", x.len(), self.input_len());
        self.check_len("z", z.len(), self.input_len());
        self.check_len("y", y.len(), self.output_len());
        let y = Shared::new(y);
        self.share_rows(threads, |part| {
            simd.run(max::Pick {
                part,
                x,
                z,
                y: y.pointer(),
            })
        });
    }

    /// `dx` = the sum of the `dy` of all windows that have their maximum of `x` here: the adjoint of
    /// [`Pool::max_pick`] in `z`.
    pub fn max_spread(&self, simd: Simd, x: &[f32], dy: &[f32], dx: &mut [f32], threads: usize) {
        self.check_len("x", x.len(), self.input_len());
        self.check_len("dy", dy.len(), self.output_len());
        self.check_len("dx", dx.len(), self.input_len());
        let dx = Shared::new(dx);
        self.share_images(threads, |part| {
            simd.run(max::Spread {
                part,
                x,
                dy,
                dx: dx.pointer(),
                overlap: self.overlap(),
            })
        });
    }

    /// `y` = the sum of every window, divided as asked.
    pub fn sum(&self, simd: Simd, x: &[f32], divisor: Divisor, y: &mut [f32], threads: usize) {
        self.check_len("x", x.len(), self.input_len());
        self.check_len("y", y.len(), self.output_len());
        let y = Shared::new(y);
        self.share_rows(threads, |part| {
            simd.run(sum::Sum {
                part,
                x,
                divisor,
                y: y.pointer(),
            })
        });
    }

    /// `dx` = the sum of the divided `dy` of all windows that see an element: the adjoint of [`Pool::sum`].
    pub fn sum_spread(&self, simd: Simd, dy: &[f32], divisor: Divisor, dx: &mut [f32], threads: usize) {
        self.check_len("dy", dy.len(), self.output_len());
        self.check_len("dx", dx.len(), self.input_len());
        let dx = Shared::new(dx);
        self.share_images(threads, |part| {
            simd.run(sum::Spread {
                part,
                dy,
                divisor,
                dx: dx.pointer(),
            })
        });
    }

    /// Shares out the rows of the results.
    fn share_rows(&self, threads: usize, run: impl Fn(Part<'_>) + Sync) {
        share(threads, self.window.n * self.axes[0].output, |rows| {
            run(Part {
                pool: self,
                rows,
                channels: 0..self.window.c,
            })
        });
    }

    /// Shares out whole images, or channels where the images are fewer than the threads: windows of one image overlap.
    fn share_images(&self, threads: usize, run: impl Fn(Part<'_>) + Sync) {
        let PoolGeometry { n, c, .. } = self.window;
        let height = self.axes[0].output;
        if n >= threads {
            return share(threads, n, |images| {
                run(Part {
                    pool: self,
                    rows: images.start * height..images.end * height,
                    channels: 0..c,
                })
            });
        }
        share(threads, c.div_ceil(MAX_LANES), |blocks| {
            run(Part {
                pool: self,
                rows: 0..n * height,
                channels: blocks.start * MAX_LANES..(blocks.end * MAX_LANES).min(c),
            })
        });
    }

    /// Whether windows may share elements.
    fn overlap(&self) -> bool {
        let spans = self.axes.map(|axis| (axis.taps - 1) * axis.dilation + 1);
        spans[0] > self.axes[0].stride || spans[1] > self.axes[1].stride
    }

    fn check_len(&self, name: &str, found: usize, wanted: usize) {
        assert!(
            found == wanted,
            "{:?}: {name} has {found} floats, not {wanted}",
            self.window
        );
    }
}
