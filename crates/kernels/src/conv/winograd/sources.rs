//! Squares of images, and of results' gradients, as values.

use std::ops::Range;

use super::{
    Squares, Values,
    transform::{self, OfErrors, OfSource, SIDE},
};
use crate::{
    conv::correlation::Line,
    level::Kernel,
    vector::{Vector, load_up_to, store_up_to},
};

/// What the squares are cut from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The source, whose squares overlap.
    Sources,
    /// A tensor of the results' extent.
    Results,
}

/// Transforms squares of a tensor.
pub(super) struct Transform<'a> {
    pub(super) squares: &'a Squares,
    pub(super) from: From,
    /// Which squares; they are written from the first of these on.
    pub(super) range: Range<usize>,
    pub(super) tensor: &'a [f32],
    /// Channels of the tensor.
    pub(super) channels: usize,
    pub(super) values: Values,
    pub(super) to: *mut f32,
}

impl Kernel for Transform<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: passed on from the caller.
        unsafe {
            match (self.from, self.squares.side()) {
                (From::Sources, _) => self.each::<V, OfSource, SIDE>(),
                (From::Results, 4) => self.each::<V, OfErrors, 4>(),
                (From::Results, _) => self.each::<V, OfErrors, 2>(),
            }
        }
    }
}

impl Transform<'_> {
    /// The extent of the tensor along an axis, and where a square that begins at result `first` begins in it.
    #[inline(always)]
    fn axis(&self, line: &Line, first: usize) -> (usize, isize) {
        match self.from {
            From::Sources => (line.source, line.first_source(first)),
            From::Results => (line.results, first as isize),
        }
    }

    #[inline(always)]
    unsafe fn each<V: Vector, T: transform::Transform<A, SIDE>, const A: usize>(&self) {
        let [down, across] = &self.squares.lines;
        for (i, square) in self.range.clone().enumerate() {
            let corner = self.squares.corner(square);
            let (height, top) = self.axis(down, corner.results[0]);
            let (width, left) = self.axis(across, corner.results[1]);
            let rows = inside::<A>(top, height);
            let columns = inside::<A>(left, width);
            let first = ((corner.image * height) as isize + top) * width as isize + left;
            let pixels = Pixels {
                first: first * self.channels as isize,
                row: width * self.channels,
                column: self.channels,
            };
            if !rows.is_empty() && !columns.is_empty() {
                let last = first + ((rows.end - 1) * width + columns.end - 1) as isize;
                assert!(last >= 0 && (last as usize + 1) * self.channels <= self.tensor.len());
            }
            let is_whole = rows.len() == A && columns.len() == A;
            for channel in (0..self.channels).step_by(V::LANES) {
                let count = (self.channels - channel).min(V::LANES);
                // SAFETY: the pixels inside the tensor were just checked; the caller vouches for what is written.
                unsafe {
                    let from = self.tensor.as_ptr().wrapping_add(channel);
                    let square = if is_whole && count == V::LANES {
                        pixels.whole::<V, A>(from)
                    } else {
                        pixels.part::<V, A>(from, &rows, &columns, count)
                    };
                    let values = transform::both::<V, T, A, SIDE>(square);
                    let to = self.to.add(i * self.values.pitch + channel);
                    for (value, v) in values.as_flattened().iter().enumerate() {
                        store_up_to(*v, to.add(value * self.values.stride), count);
                    }
                }
            }
        }
    }
}

/// Which of `A` elements from `first` on lie inside an axis.
#[inline(always)]
fn inside<const A: usize>(first: isize, len: usize) -> Range<usize> {
    let start = (-first).clamp(0, A as isize) as usize;
    let end = (len as isize - first).clamp(start as isize, A as isize) as usize;
    start..end
}

/// The pixels of a square: where the first lies in the tensor, possibly outside, and the ways to the next.
struct Pixels {
    first: isize,
    row: usize,
    column: usize,
}

impl Pixels {
    #[inline(always)]
    fn at(&self, from: *const f32, y: usize, x: usize) -> *const f32 {
        from.wrapping_offset(self.first)
            .wrapping_add(y * self.row + x * self.column)
    }

    /// # Safety
    /// The CPU supports `V`, and all lanes of all pixels are readable.
    #[inline(always)]
    unsafe fn whole<V: Vector, const A: usize>(&self, from: *const f32) -> [[V; A]; A] {
        // SAFETY: passed on from the caller.
        unsafe {
            let mut square = [[V::splat(0.0); A]; A];
            for (y, line) in square.iter_mut().enumerate() {
                for (x, pixel) in line.iter_mut().enumerate() {
                    *pixel = V::load(self.at(from, y, x));
                }
            }
            square
        }
    }

    /// Zeros around the given rows and columns.
    ///
    /// # Safety
    /// The CPU supports `V`, and `count` lanes of the pixels in these rows and columns are readable.
    #[inline(always)]
    unsafe fn part<V: Vector, const A: usize>(
        &self,
        from: *const f32,
        rows: &Range<usize>,
        columns: &Range<usize>,
        count: usize,
    ) -> [[V; A]; A] {
        // SAFETY: passed on from the caller.
        unsafe {
            let mut square = [[V::splat(0.0); A]; A];
            for (y, line) in square.iter_mut().enumerate() {
                for (x, pixel) in line.iter_mut().enumerate() {
                    if rows.contains(&y) && columns.contains(&x) {
                        *pixel = load_up_to(self.at(from, y, x), count);
                    }
                }
            }
            square
        }
    }
}
