//! Going through the windows of a pooling.

use std::ops::Range;

use super::Pool;
use crate::vector::Vector;

/// Rows of results, counted over all images, and the channels of them that one thread computes.
pub(super) struct Part<'a> {
    pub(super) pool: &'a Pool,
    pub(super) rows: Range<usize>,
    pub(super) channels: Range<usize>,
}

/// What one window sees of its image.
#[derive(Copy, Clone)]
pub(super) struct Seen {
    /// Elements down and across.
    pub(super) count: [usize; 2],
    /// Floats from one to the next, down and across.
    pub(super) step: [usize; 2],
    /// The first element's first channel.
    pub(super) from: usize,
    /// The result's first channel.
    pub(super) to: usize,
}

/// What is done with a window; `#[inline(always)]` like every part of a kernel.
pub(super) trait Visit {
    /// Handles `count` channels of a window from `channel` on.
    ///
    /// # Safety
    /// The CPU supports `V`, and the window lies inside the tensors.
    unsafe fn visit<V: Vector>(&self, seen: &Seen, channel: usize, count: usize);
}

impl Part<'_> {
    /// Visits all channels of all windows, in the order of the results.
    ///
    /// # Safety
    /// The CPU supports `V`, and the visitor's tensors have the pooling's sizes.
    #[inline(always)]
    pub(super) unsafe fn each<V: Vector>(&self, visitor: &impl Visit) {
        let [down, across] = self.pool.axes;
        let c = self.pool.window.c;
        for row in self.rows.clone() {
            let (image, y) = (row / down.output, row % down.output);
            let (vertical, top) = down.meets(y);
            for x in 0..across.output {
                let (horizontal, left) = across.meets(x);
                let seen = Seen {
                    count: [vertical.len(), horizontal.len()],
                    step: [down.dilation * across.input * c, across.dilation * c],
                    from: ((image * down.input + top) * across.input + left) * c,
                    to: (row * across.output + x) * c,
                };
                let mut channel = self.channels.start;
                // SAFETY: passed on from the caller; the window was cut to the image.
                unsafe {
                    while channel + V::LANES <= self.channels.end {
                        visitor.visit::<V>(&seen, channel, V::LANES);
                        channel += V::LANES;
                    }
                    if channel < self.channels.end {
                        visitor.visit::<V>(&seen, channel, self.channels.end - channel);
                    }
                }
            }
        }
    }

    /// Sets the part's channels of its images to zero.
    ///
    /// # Safety
    /// `to` has the images' size, and the part consists of whole images.
    #[inline(always)]
    pub(super) unsafe fn clear(&self, to: *mut f32) {
        let [down, across] = self.pool.axes;
        let c = self.pool.window.c;
        let images = self.rows.start / down.output..self.rows.end / down.output;
        let pixels = down.input * across.input;
        for pixel in images.start * pixels..images.end * pixels {
            // SAFETY: passed on from the caller.
            unsafe {
                to.add(pixel * c + self.channels.start)
                    .write_bytes(0, self.channels.len());
            }
        }
    }
}

impl Seen {
    /// Whether the window lies wholly outside the image.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count[0] == 0 || self.count[1] == 0
    }
}
