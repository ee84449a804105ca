//! Batch normalisation and its gradient: two passes over the rows each way, one for sums, one for results.

use std::ops::Range;

use crate::{
    level::{Kernel, Simd},
    share::{Shared, share},
    vector::{Vector, load_up_to, store_up_to},
};

/// Elements that are summed in single precision before the partial sums move on.
const CHUNK: usize = 1 << 15;
/// Rows of a chunk at most.
const LONGEST: usize = 512;
/// Rows whose sums stay in registers.
const TOGETHER: usize = 8;

/// Brings every column of `[rows, channels]` to mean 0 and variance 1, scales and shifts it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct BatchNorm {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub channels: usize,
    /// Added to the variance.
    pub eps: f32,
    /// Whether negative results become zero.
    pub relu: bool,
}

/// What the gradient is computed from.
#[derive(Copy, Clone, Debug)]
pub struct BatchNormGiven<'a> {
    /// What was normalised.
    pub x: &'a [f32],
    /// Per channel.
    pub scale: &'a [f32],
    /// Per channel.
    pub shift: &'a [f32],
    /// As it was found.
    pub mean: &'a [f32],
    /// As it was found.
    pub variance: &'a [f32],
    /// The results' cotangents, or `None` if they lie where those of `x` will.
    pub d: Option<&'a [f32]>,
}

impl BatchNorm {
    fn chunk(&self) -> usize {
        (CHUNK / self.channels.max(1)).clamp(1, LONGEST)
    }

    /// The length of the workspace.
    pub fn workspace(&self) -> usize {
        (2 * self.rows.div_ceil(self.chunk()) + 4) * self.channels
    }

    fn check(&self, full: &[usize], per_channel: &[usize], workspace: usize) {
        let BatchNorm { rows, channels, .. } = *self;
        let fits = full.iter().all(|&len| len == rows * channels)
            && per_channel.iter().all(|&len| len == channels)
            && workspace >= self.workspace();
        assert!(
            fits,
            "batch norm of [{rows}, {channels}]: slices of {full:?} and {per_channel:?} elements"
        );
    }

    /// Writes the results, and mean and (biased) variance of every column. The bits do not depend on `threads`.
    pub fn forward(
        &self,
        simd: Simd,
        [x, scale, shift]: [&[f32]; 3],
        [y, mean, variance, workspace]: [&mut [f32]; 4],
        threads: usize,
    ) {
        let full = [x.len(), y.len()];
        let per_channel = [scale.len(), shift.len(), mean.len(), variance.len()];
        self.check(&full, &per_channel, workspace.len());
        if self.rows == 0 {
            mean.fill(0.0);
            variance.fill(0.0);
            return;
        }
        let (partial, gain) = workspace.split_at_mut(self.workspace() - 4 * self.channels);
        // Deviations from the first row: near enough to the mean for the squares not to drown it.
        let around = &x[..self.channels];
        self.sums(simd, threads, partial, Moments { x, around });
        let rows = self.rows as f64;
        for (c, [sum, squares]) in totals(partial, self.channels).enumerate() {
            let offset = sum / rows;
            mean[c] = (f64::from(around[c]) + offset) as f32;
            variance[c] = (squares / rows - offset * offset).max(0.0) as f32;
            gain[c] = scale[c] / (variance[c] + self.eps).sqrt();
        }
        let columns = Columns {
            mean,
            gain,
            shift,
            relu: self.relu,
        };
        let to = Shared::new(y);
        self.each(simd, threads, &|row| Normalise {
            x: &x[row..],
            columns,
            to: to.pointer().wrapping_add(row),
        });
    }

    /// Writes the cotangents of the argument, the scale and the shift. The bits do not depend on `threads`.
    pub fn backward(
        &self,
        simd: Simd,
        given: BatchNormGiven<'_>,
        [dx, d_scale, d_shift, workspace]: [&mut [f32]; 4],
        threads: usize,
    ) {
        let BatchNormGiven {
            x,
            scale,
            shift,
            mean,
            variance,
            d,
        } = given;
        let full = [x.len(), dx.len(), d.map_or(dx.len(), <[f32]>::len)];
        let parts = [scale, shift, mean, variance, d_scale, d_shift].map(|part| part.len());
        self.check(&full, &parts, workspace.len());
        let (partial, vectors) = workspace.split_at_mut(self.workspace() - 4 * self.channels);
        let (gain, rest) = vectors.split_at_mut(self.channels);
        let (slope, rest) = rest.split_at_mut(self.channels);
        let offset = &mut rest[..self.channels];
        for (c, gain) in gain.iter_mut().enumerate() {
            *gain = scale[c] / (variance[c] + self.eps).sqrt();
        }
        let columns = Columns {
            mean,
            gain,
            shift,
            relu: self.relu,
        };
        let to = Shared::new(dx);
        let d = d.map_or(to.pointer().cast_const(), <[f32]>::as_ptr);
        let errors = Errors {
            x: x.as_ptr(),
            d,
            columns,
        };
        self.sums(simd, threads, partial, errors);
        let rows = (self.rows as f64).max(1.0);
        for (c, [sum, product]) in totals(partial, self.channels).enumerate() {
            let inverse = 1.0 / f64::from(variance[c] + self.eps).sqrt();
            d_shift[c] = sum as f32;
            d_scale[c] = (product * inverse) as f32;
            slope[c] = (-f64::from(columns.gain[c]) * inverse * inverse * product / rows) as f32;
            offset[c] = (-f64::from(columns.gain[c]) * sum / rows) as f32;
        }
        let (slope, offset) = (&*slope, &*offset);
        self.each(simd, threads, &|row| PullBack {
            errors: errors.after(row),
            slope,
            offset,
            to: to.pointer().wrapping_add(row),
        });
    }

    /// Two sums per column and chunk of rows, into `[chunks, 2, channels]`.
    fn sums(&self, simd: Simd, threads: usize, partial: &mut [f32], terms: impl Terms) {
        let BatchNorm { rows, channels, .. } = *self;
        let (chunk, to) = (self.chunk(), Shared::new(partial));
        share(threads, rows.div_ceil(chunk), |chunks| {
            for i in chunks {
                // SAFETY: every chunk has a part of its own.
                let sums = unsafe { to.part(2 * i * channels..2 * (i + 1) * channels) };
                sums.fill(0.0);
                let rows = i * chunk..((i + 1) * chunk).min(rows);
                simd.run(Sums { rows, sums, terms });
            }
        });
    }

    /// Runs a kernel on every row, `of` giving it for the place of its first element.
    fn each<P: PerRow>(&self, simd: Simd, threads: usize, of: &(impl Fn(usize) -> P + Sync)) {
        share(threads, self.rows, |rows| {
            simd.run(Rows {
                rows,
                channels: self.channels,
                of,
            });
        });
    }
}

/// The sums over all chunks, column by column.
fn totals(partial: &[f32], channels: usize) -> impl Iterator<Item = [f64; 2]> {
    (0..channels).map(move |c| {
        let mut totals = [0.0; 2];
        for chunk in partial.chunks_exact(2 * channels) {
            totals[0] += f64::from(chunk[c]);
            totals[1] += f64::from(chunk[channels + c]);
        }
        totals
    })
}

/// What is summed twofold for every column.
trait Terms: Copy + Sync {
    /// The terms of `count` elements from `at` on, which stand in columns from `column` on.
    unsafe fn terms<V: Vector>(self, at: usize, column: usize, count: usize) -> [V; 2];
}

/// Deviations from a point, and their squares.
#[derive(Copy, Clone)]
struct Moments<'a> {
    x: &'a [f32],
    around: &'a [f32],
}

impl Terms for Moments<'_> {
    #[inline(always)]
    unsafe fn terms<V: Vector>(self, at: usize, column: usize, count: usize) -> [V; 2] {
        // SAFETY: the caller stays within the rows.
        unsafe {
            let x = load_up_to::<V>(self.x.as_ptr().add(at), count);
            let deviation = x - load_up_to::<V>(self.around.as_ptr().add(column), count);
            [deviation, deviation * deviation]
        }
    }
}

/// What is the same for all elements of a column.
#[derive(Copy, Clone)]
struct Columns<'a> {
    mean: &'a [f32],
    gain: &'a [f32],
    shift: &'a [f32],
    relu: bool,
}

impl Columns<'_> {
    /// Deviations from the mean, and the results before any function of them.
    #[inline(always)]
    unsafe fn results<V: Vector>(self, x: V, column: usize, count: usize) -> [V; 2] {
        // SAFETY: the caller stays within the columns.
        unsafe {
            let deviation = x - load_up_to::<V>(self.mean.as_ptr().add(column), count);
            let gain = load_up_to::<V>(self.gain.as_ptr().add(column), count);
            let shift = load_up_to::<V>(self.shift.as_ptr().add(column), count);
            [deviation, deviation.mul_add(gain, shift)]
        }
    }
}

/// Cotangents before the activation, and their products with the deviations.
#[derive(Copy, Clone)]
struct Errors<'a> {
    x: *const f32,
    /// Not a slice, since the results may be written in its place.
    d: *const f32,
    columns: Columns<'a>,
}

// SAFETY: elements are read before they are written, by the thread that writes them.
unsafe impl Sync for Errors<'_> {}

impl Errors<'_> {
    fn after(self, elements: usize) -> Self {
        Errors {
            x: self.x.wrapping_add(elements),
            d: self.d.wrapping_add(elements),
            ..self
        }
    }

    /// Cotangents and deviations.
    #[inline(always)]
    unsafe fn at<V: Vector>(self, at: usize, column: usize, count: usize) -> [V; 2] {
        // SAFETY: the caller stays within the rows.
        unsafe {
            let x = load_up_to::<V>(self.x.add(at), count);
            let d = load_up_to::<V>(self.d.add(at), count);
            if !self.columns.relu {
                let mean = load_up_to::<V>(self.columns.mean.as_ptr().add(column), count);
                return [d, x - mean];
            }
            let [deviation, result] = self.columns.results(x, column, count);
            let zero = V::splat(0.0);
            [V::select(zero.less(result), d, zero), deviation]
        }
    }
}

impl Terms for Errors<'_> {
    #[inline(always)]
    unsafe fn terms<V: Vector>(self, at: usize, column: usize, count: usize) -> [V; 2] {
        // SAFETY: passed on.
        let [d, deviation] = unsafe { self.at::<V>(at, column, count) };
        [d, d * deviation]
    }
}

struct Sums<'a, T> {
    rows: Range<usize>,
    /// `[2, channels]`.
    sums: &'a mut [f32],
    terms: T,
}

impl<T: Terms> Kernel for Sums<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let channels = self.sums.len() / 2;
        let sums = self.sums.as_mut_ptr();
        let mut row = self.rows.start;
        while row < self.rows.end {
            let together = (self.rows.end - row).min(TOGETHER);
            let mut column = 0;
            while column < channels {
                let count = channels - column;
                // SAFETY: rows and columns are those of the matrix, and the sums have two numbers per column.
                unsafe {
                    let places = [sums.add(column), sums.add(channels + column)];
                    let mut sums = places.map(|place| load_up_to::<V>(place, count));
                    for r in row..row + together {
                        let terms = self.terms.terms::<V>(r * channels + column, column, count);
                        sums = [sums[0] + terms[0], sums[1] + terms[1]];
                    }
                    store_up_to(sums[0], places[0], count);
                    store_up_to(sums[1], places[1], count);
                }
                column += V::LANES;
            }
            row += together;
        }
    }
}

/// A result for every element of a row.
trait PerRow {
    /// Computes up to a register of results from `column` on.
    unsafe fn at<V: Vector>(&self, column: usize, count: usize);
}

struct Rows<'a, F> {
    rows: Range<usize>,
    channels: usize,
    of: &'a F,
}

impl<P: PerRow, F: Fn(usize) -> P> Kernel for Rows<'_, F> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        for row in self.rows {
            let here = (self.of)(row * self.channels);
            let mut column = 0;
            while column < self.channels {
                // SAFETY: the columns are those of the matrix.
                unsafe { here.at::<V>(column, self.channels - column) };
                column += V::LANES;
            }
        }
    }
}

struct Normalise<'a> {
    x: &'a [f32],
    columns: Columns<'a>,
    to: *mut f32,
}

impl PerRow for Normalise<'_> {
    #[inline(always)]
    unsafe fn at<V: Vector>(&self, column: usize, count: usize) {
        // SAFETY: the caller stays within the row.
        unsafe {
            let x = load_up_to::<V>(self.x.as_ptr().add(column), count);
            let [_, mut result] = self.columns.results(x, column, count);
            if self.columns.relu {
                result = V::splat(0.0).max(result);
            }
            store_up_to(result, self.to.add(column), count);
        }
    }
}

struct PullBack<'a> {
    errors: Errors<'a>,
    slope: &'a [f32],
    offset: &'a [f32],
    to: *mut f32,
}

impl PerRow for PullBack<'_> {
    #[inline(always)]
    unsafe fn at<V: Vector>(&self, column: usize, count: usize) {
        // SAFETY: the caller stays within the row, whose elements are read before they are written.
        unsafe {
            let [d, deviation] = self.errors.at::<V>(column, column, count);
            let gain = load_up_to::<V>(self.errors.columns.gain.as_ptr().add(column), count);
            let slope = load_up_to::<V>(self.slope.as_ptr().add(column), count);
            let offset = load_up_to::<V>(self.offset.as_ptr().add(column), count);
            let result = deviation.mul_add(slope, d.mul_add(gain, offset));
            store_up_to(result, self.to.add(column), count);
        }
    }
}
