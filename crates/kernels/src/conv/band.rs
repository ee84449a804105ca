//! Bands: the results computed together, and the padded copy of the part of the source they see.
//!
//! In the copy every result finds its taps at the same distances, whatever the padding, so that the inner loops know
//! nothing of borders; and what they read lies close together, whatever the number of channels.

use std::ops::Range;

use super::correlation::{Correlation, Line};
use crate::{
    level::{Kernel, Simd},
    vector::{Vector, load_up_to, store_up_to},
};

/// The most results of a band: a multiple of every tile's height.
pub(crate) const MOST_PLACES: usize = 480;

/// Where a result's window starts, in pixels of the copy, and where the result lies, in floats of the target.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// The places of one band.
pub(crate) struct Places {
    all: [Place; MOST_PLACES],
    len: usize,
}

impl Places {
    pub(crate) fn as_slice(&self) -> &[Place] {
        &self.all[..self.len]
    }
}

/// One line of the copy: sources are taken `gather` apart, which changes strides and dilations accordingly.
#[derive(Copy, Clone, Debug)]
struct CopyLine {
    gather: usize,
    stride: usize,
    dilation: usize,
    taps: usize,
}

impl CopyLine {
    fn new(line: Line) -> CopyLine {
        let shared = if line.taps > 1 { line.dilation } else { 0 };
        let gather = greatest_common_divisor(line.stride, shared);
        CopyLine {
            gather,
            stride: line.stride / gather,
            dilation: line.dilation.div_ceil(gather),
            taps: line.taps,
        }
    }

    /// What the windows of `results` neighbours span.
    fn span(&self, results: usize) -> usize {
        (results - 1) * self.stride + self.taps.saturating_sub(1) * self.dilation + 1
    }
}

/// The way the results of a correlation are cut into bands.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Bands {
    shape: Correlation,
    copy: [CopyLine; 2],
    /// Rows of results, over all images, in a band.
    rows: usize,
    /// Results of a row in a band: all, unless the rows are very long.
    chunk: usize,
    /// Pixels of a row of the copy.
    pitch: usize,
}

impl Bands {
    /// Cuts into bands of at most `places` results, whose copies have about `floats` floats at `channels` per pixel,
    /// and so small that there are `at_least` of them if there can be.
    pub(crate) fn new(
        shape: &Correlation,
        channels: usize,
        places: usize,
        floats: usize,
        at_least: usize,
    ) -> Bands {
        let copy = shape.lines.map(CopyLine::new);
        let [down, across] = shape.lines;
        let all_rows = shape.n * down.results;
        let chunk = across.results.min(places).max(1);
        let pitch = copy[1].span(chunk);
        let affordable = floats / (copy[0].stride * pitch * channels).max(1);
        let fair = all_rows.div_ceil(at_least.max(1));
        let most = (places / chunk).min(affordable).min(fair).max(1);
        let rows = if chunk < across.results {
            1
        } else {
            all_rows.div_ceil(all_rows.div_ceil(most).max(1)).max(1)
        };
        Bands {
            shape: *shape,
            copy,
            rows,
            chunk,
            pitch,
        }
    }

    pub(crate) fn count(&self) -> usize {
        let [down, across] = self.shape.lines;
        (self.shape.n * down.results).div_ceil(self.rows) * across.results.div_ceil(self.chunk)
    }

    /// The most results of a band.
    pub(crate) fn places(&self) -> usize {
        self.rows * self.chunk
    }

    /// The most floats of a copy with `channels` floats per pixel.
    pub(crate) fn copy_len(&self, channels: usize) -> usize {
        let images = (self.rows.saturating_sub(1)).div_ceil(self.shape.lines[0].results.max(1)) + 1;
        let rows = self.rows * self.copy[0].stride + images * self.copy[0].span(1);
        rows * self.pitch * channels
    }

    /// From a tap to the next, down and across, in pixels of the copy.
    pub(crate) fn tap_steps(&self) -> [usize; 2] {
        [self.copy[0].dilation * self.pitch, self.copy[1].dilation]
    }

    /// Pixels of a row of the copy.
    pub(crate) fn pitch(&self) -> usize {
        self.pitch
    }

    /// Whether the taps of a row of the kernel lie side by side.
    pub(crate) fn is_dense(&self) -> bool {
        self.copy[1].dilation == 1
    }

    /// Whether a band sees the source as it is, so that nothing need be copied: every result sees one pixel, its own.
    pub(crate) fn is_direct(&self) -> bool {
        let own =
            |line: &Line| [line.taps, line.stride] == [1, 1] && line.low == 0 && line.source == line.results;
        self.shape.lines.iter().all(own) && self.chunk == self.shape.lines[1].results
    }

    /// The first pixel of the source that a band sees, if it sees the source as it is.
    pub(crate) fn first_pixel(&self, band: usize) -> usize {
        band * self.rows * self.chunk
    }

    fn columns(&self, band: usize) -> Range<usize> {
        let all = self.shape.lines[1].results;
        let left = band % all.div_ceil(self.chunk) * self.chunk;
        left..(left + self.chunk).min(all)
    }

    /// The rows of results of a band, cut at the borders of images: image, first row, rows.
    fn pieces(&self, band: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let results = self.shape.lines[0].results;
        let top = band / self.shape.lines[1].results.div_ceil(self.chunk) * self.rows;
        let bottom = (top + self.rows).min(self.shape.n * results);
        let mut row = top;
        std::iter::from_fn(move || {
            let (image, first) = (row / results.max(1), row % results.max(1));
            let count = (results - first).min(bottom - row);
            row += count;
            (count > 0).then_some((image, first, count))
        })
    }

    /// The places of a band's results.
    pub(crate) fn locate(&self, band: usize, places: &mut Places) {
        let [down, across] = self.shape.lines;
        let pitch = self.shape.target_pitch();
        let (mut len, mut top) = (0, 0);
        for (image, first, count) in self.pieces(band) {
            for row in 0..count {
                let y = image * down.target + (first + row) * down.step + down.start;
                let from = (top + row * self.copy[0].stride) * self.pitch;
                for (i, column) in self.columns(band).enumerate() {
                    let x = column * across.step + across.start;
                    places.all[len] = Place {
                        from: from + i * self.copy[1].stride,
                        to: (y * across.target + x) * pitch,
                    };
                    len += 1;
                }
            }
            top += self.copy[0].span(count);
        }
        places.len = len;
    }

    /// Visits the rows of a band's copy in their order.
    pub(crate) fn each_row(&self, band: usize, mut visit: impl FnMut(CopyRow)) {
        let [down, across] = self.shape.lines;
        let pitch = self.shape.source_pitch();
        let left = (self.columns(band).start * across.stride) as isize - across.low;
        let gather = self.copy[1].gather;
        // Pixel `i` of the copy is column `left + i * gather` of the source.
        let before = (left.min(0).unsigned_abs()).div_ceil(gather).min(self.pitch);
        let room = (across.source as isize - left).max(0).unsigned_abs();
        let end = room.div_ceil(gather).clamp(before, self.pitch);
        let first = (left + (before * gather) as isize).max(0).unsigned_abs();
        for (image, row, count) in self.pieces(band) {
            let top = (row * down.stride) as isize - down.low;
            for row in 0..self.copy[0].span(count) {
                let y = top + (row * self.copy[0].gather) as isize;
                let is_inside = (0..down.source as isize).contains(&y) && before < end;
                let line = (image * down.source + y.max(0).unsigned_abs()) * across.source;
                visit(CopyRow {
                    pixels: if is_inside { before..end } else { 0..0 },
                    from: if is_inside { (line + first) * pitch } else { 0 },
                    step: gather * pitch,
                });
            }
        }
    }

    /// Copies what a band sees of the `channels` of the source, with zeros around it.
    pub(super) fn copy(
        &self,
        simd: Simd,
        band: usize,
        source: &[f32],
        channels: Range<usize>,
        to: &mut [f32],
    ) {
        assert!(
            to.len() >= self.copy_len(channels.len()),
            "conv: a band's copy needs more than {} floats",
            to.len()
        );
        let width = channels.len();
        let mut rows = to.chunks_exact_mut((self.pitch * width).max(1));
        self.each_row(band, |row| {
            let to = rows
                .next()
                .expect("the copy has a row for every row the band sees");
            let Range { start, end } = row.pixels;
            to[..start * width].fill(0.0);
            to[end * width..].fill(0.0);
            if start < end {
                simd.run(CopyPixels {
                    from: &source[row.from + channels.start..],
                    pitch: row.step,
                    width,
                    to: &mut to[start * width..end * width],
                });
            }
        });
    }
}

/// A row of a band's copy.
pub(crate) struct CopyRow {
    /// The pixels that lie inside the source; those around them are zero.
    pub(crate) pixels: Range<usize>,
    /// Where the first of them lies in the source, and how far it is to the next.
    pub(crate) from: usize,
    pub(crate) step: usize,
}

impl Default for Places {
    fn default() -> Places {
        Places {
            all: [Place::default(); MOST_PLACES],
            len: 0,
        }
    }
}

/// Copies `width` floats of every pixel.
struct CopyPixels<'a> {
    from: &'a [f32],
    pitch: usize,
    width: usize,
    to: &'a mut [f32],
}

impl Kernel for CopyPixels<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (width, pitch) = (self.width, self.pitch);
        if width == pitch {
            return self.to.copy_from_slice(&self.from[..self.to.len()]);
        }
        let pixels = self.to.len() / width;
        assert!(self.from.len() >= (pixels - 1) * pitch + width);
        for pixel in 0..pixels {
            let mut i = 0;
            while i < width {
                let count = (width - i).min(V::LANES);
                // SAFETY: `width` floats of every pixel lie inside both slices.
                unsafe {
                    let value = load_up_to::<V>(self.from.as_ptr().add(pixel * pitch + i), count);
                    store_up_to(value, self.to.as_mut_ptr().add(pixel * width + i), count);
                }
                i += count;
            }
        }
    }
}

pub(crate) fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
