//! Changes of images.

use super::{Augmentation, Draws};

/// Rows, columns and channels of an image, or steps, 1 and channels of a series.
pub(super) type Extent = [usize; 3];

/// A change of an image.
#[derive(Clone, Debug, PartialEq)]
pub enum Image {
    /// Left becomes right.
    FlipHorizontal,
    /// Top becomes bottom.
    FlipVertical,
    /// Moves the image by up to `padding` pixels each way; zeros come in at the edges.
    Crop {
        /// The most pixels to move by.
        padding: usize,
    },
    /// Sets a square of `size` pixels, whose centre is anywhere in the image, to `fill`.
    Cutout {
        /// Side of the square.
        size: usize,
        /// What is put there.
        fill: f32,
    },
}

impl Augmentation for Image {
    fn problem(&self, [height, width, _]: Extent) -> Option<String> {
        match self {
            Image::Crop { padding } if *padding >= height.min(width).max(1) => Some(format!(
                "a crop with padding {padding} may lose a whole image of {height} x {width}"
            )),
            Image::Cutout { size: 0, .. } => Some("a cutout of size 0 changes nothing".to_owned()),
            _ => None,
        }
    }

    fn change(&self, extent: Extent, draws: &mut Draws, values: &mut [f32], scratch: &mut Vec<f32>) {
        let [height, width, channels] = extent;
        if values.is_empty() {
            return;
        }
        let line = width * channels;
        match *self {
            Image::FlipHorizontal => {
                for row in values.chunks_exact_mut(line) {
                    for x in 0..width / 2 {
                        for c in 0..channels {
                            row.swap(x * channels + c, (width - 1 - x) * channels + c);
                        }
                    }
                }
            }
            Image::FlipVertical => {
                for y in 0..height / 2 {
                    let (top, bottom) = values.split_at_mut((height - 1 - y) * line);
                    top[y * line..(y + 1) * line].swap_with_slice(&mut bottom[..line]);
                }
            }
            Image::Crop { padding } => {
                let down = draws.below(2 * padding + 1) as isize - padding as isize;
                let right = draws.below(2 * padding + 1) as isize - padding as isize;
                translate(extent, down, right, values, scratch);
            }
            Image::Cutout { size, fill } => {
                let span = |centre: usize, end: usize| {
                    centre.saturating_sub(size / 2)..(centre + size.div_ceil(2)).min(end)
                };
                let (rows, columns) = (span(draws.below(height), height), span(draws.below(width), width));
                for y in rows {
                    values[y * line + columns.start * channels..y * line + columns.end * channels].fill(fill);
                }
            }
        }
    }
}

/// Moves an image, with zeros where nothing was.
fn translate(
    [height, width, channels]: Extent,
    down: isize,
    right: isize,
    values: &mut [f32],
    scratch: &mut Vec<f32>,
) {
    scratch.clear();
    scratch.extend_from_slice(values);
    values.fill(0.0);
    let line = width * channels;
    let (to, from) = (right.max(0) as usize, right.min(0).unsigned_abs());
    let wide = (width - right.unsigned_abs()) * channels;
    for y in 0..height {
        let Some(source) = y.checked_add_signed(-down).filter(|&s| s < height) else {
            continue;
        };
        let (to, from) = (y * line + to * channels, source * line + from * channels);
        values[to..to + wide].copy_from_slice(&scratch[from..from + wide]);
    }
}
