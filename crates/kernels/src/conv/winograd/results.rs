//! Results from sources and a transformed filter, block of squares by block of squares.

use std::ops::Range;

use super::{
    Squares, Values,
    filter::Layout,
    sources::{From, Transform},
    transform::{self, POINTS, SIDE, ToResults},
};
use crate::{
    activation::{Activation, Gate},
    conv::{
        band::Place,
        correlation::Correlation,
        finish::{Finish, FinishTile, SCRATCH},
        tile::{BandTile, Runs},
    },
    level::{Kernel, Simd},
    share::on_threads_with,
    vector::{Vector, load_up_to, store_up_to},
};

/// Squares of a block at most: a multiple of every tile's height.
const MOST: usize = 48;

/// Floats of a block's transformed sources that stay in the L2 cache beside the filter's.
const SOURCES: usize = 128 << 10;

/// Channels summed in registers before they go to memory: a panel this deep stays in the L1 cache.
const DEPTH: usize = 256;

const PLAIN: Finish<'static> = Finish {
    bias: None,
    residual: None,
    activation: Activation::Identity,
    gate: Gate::Open,
};

/// A correlation cut for a number of threads.
#[derive(Copy, Clone)]
pub(in crate::conv) struct Plan {
    shape: Correlation,
    squares: Squares,
    layout: Layout,
    /// Squares of a block.
    block: usize,
    sources: Values,
    products: Values,
    threads: usize,
}

impl Plan {
    /// None if another way is better.
    pub(in crate::conv) fn new(simd: Simd, shape: &Correlation, threads: usize) -> Option<Plan> {
        let squares = Squares::new(shape)?;
        let layout = Layout::new(simd, shape);
        let each = squares.len().div_ceil(threads.max(1)).next_multiple_of(8);
        let fitting = (SOURCES / (POINTS * shape.depth)).next_multiple_of(8);
        let block = fitting.min(MOST).min(each).max(8);
        Some(Plan {
            shape: *shape,
            squares,
            layout,
            block,
            sources: Values::new(block, shape.depth),
            products: Values::new(block, layout.width),
            threads: threads.clamp(1, squares.len().div_ceil(block).max(1)),
        })
    }

    /// Floats of the transformed filter.
    pub(in crate::conv) fn packed_len(&self) -> usize {
        self.layout.len()
    }

    /// Transforms the filter.
    pub(in crate::conv) fn pack(&self, simd: Simd, weights: &[f32], to: &mut [f32], threads: usize) {
        self.layout.pack(simd, &self.shape, weights, to, threads);
    }

    fn thread_workspace(&self) -> usize {
        self.sources.len() + self.products.len()
    }

    /// Floats of workspace, besides those of the transformed filter.
    pub(in crate::conv) fn workspace(&self) -> usize {
        self.thread_workspace() * self.threads
    }

    /// Computes all results from a transformed filter.
    pub(in crate::conv) fn run(
        &self,
        simd: Simd,
        source: &[f32],
        panels: &[f32],
        finish: Finish<'_>,
        target: &mut [f32],
        workspace: &mut [f32],
    ) {
        let job = Job {
            plan: self,
            simd,
            source,
            panels,
            finish,
            target: target.as_mut_ptr(),
        };
        let blocks = self.squares.len().div_ceil(self.block);
        on_threads_with(self.threads, workspace, self.thread_workspace(), |index, own| {
            for block in index * blocks / self.threads..(index + 1) * blocks / self.threads {
                let first = block * self.block;
                job.block(first..(first + self.block).min(self.squares.len()), own);
            }
        });
    }
}

/// A correlation to be computed. The threads write different results through the pointer.
struct Job<'a> {
    plan: &'a Plan,
    simd: Simd,
    source: &'a [f32],
    panels: &'a [f32],
    finish: Finish<'a>,
    target: *mut f32,
}

// SAFETY: the operands are only read, and different squares are different results.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    fn block(&self, range: Range<usize>, workspace: &mut [f32]) {
        let Plan {
            shape,
            squares,
            layout,
            sources,
            products,
            ..
        } = self.plan;
        let (values, rest) = workspace.split_at_mut(sources.len());
        let count = range.len();
        self.simd.run(Transform {
            squares,
            from: From::Sources,
            range: range.clone(),
            tensor: self.source,
            channels: shape.depth,
            values: *sources,
            to: values.as_mut_ptr(),
        });
        let mut places = [Place::default(); MOST];
        for (i, place) in places.iter_mut().enumerate() {
            *place = Place {
                from: i,
                to: i * layout.width,
            };
        }
        for panel in 0..layout.panels {
            for value in 0..POINTS {
                let filter = &self.panels[layout.value(panel, value)];
                let sources = &values[value * sources.stride..][..count * sources.pitch];
                let to = &mut rest[value * products.stride..][..count * layout.width];
                self.multiply(&places[..count], sources, filter, to.as_mut_ptr());
            }
            let first = panel * layout.width;
            self.simd.run(Back {
                squares,
                range: range.clone(),
                values: *products,
                products: rest,
                columns: first..(first + layout.width).min(shape.columns),
                pitch: shape.columns,
                target: self.target,
                finish: &self.finish,
            });
        }
    }

    /// The products of one value, of all squares of a block and a panel.
    fn multiply(&self, places: &[Place], sources: &[f32], filter: &[f32], to: *mut f32) {
        let (depth, width) = (self.plan.shape.depth, self.plan.layout.width);
        for first in (0..depth).step_by(DEPTH) {
            let len = (depth - first).min(DEPTH);
            self.simd.run(BandTile {
                places,
                copy: &sources[first..],
                pixel: depth,
                runs: Runs {
                    count: [1, 1],
                    step: [0, 0],
                    len,
                },
                panels: &filter[first * width..],
                columns: 0..width,
                target: to,
                finish: PLAIN,
                first_column: 0,
                add: first > 0,
                last: first + len == depth,
            });
        }
    }
}

/// Results of a block's squares from the products of their values.
struct Back<'a> {
    squares: &'a Squares,
    range: Range<usize>,
    values: Values,
    products: &'a [f32],
    columns: Range<usize>,
    /// Floats of a pixel of the target.
    pitch: usize,
    target: *mut f32,
    finish: &'a Finish<'a>,
}

impl Kernel for Back<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        assert!(self.products.len() >= self.values.len());
        // SAFETY: passed on from the caller.
        unsafe {
            match self.squares.side() {
                4 => self.each::<V, 4>(),
                _ => self.each::<V, 2>(),
            }
        }
    }
}

impl Back<'_> {
    #[inline(always)]
    unsafe fn each<V: Vector, const M: usize>(&self) {
        let [height, width] = self.squares.lines.map(|line| line.results);
        for (i, square) in self.range.clone().enumerate() {
            let corner = self.squares.corner(square);
            let [top, left] = corner.results;
            let size = [(height - top).min(M), (width - left).min(M)];
            let first = ((corner.image * height + top) * width + left) * self.pitch;
            for column in self.columns.clone().step_by(V::LANES) {
                let count = (self.columns.end - column).min(V::LANES);
                let from = i * self.values.pitch + column - self.columns.start;
                // SAFETY: a panel is whole vectors wide, and the square's results lie inside the target.
                unsafe {
                    let mut values = [[V::splat(0.0); SIDE]; SIDE];
                    for (value, v) in values.as_flattened_mut().iter_mut().enumerate() {
                        *v = V::load(self.products.as_ptr().add(value * self.values.stride + from));
                    }
                    let results = transform::both::<V, ToResults, SIDE, M>(values);
                    if self.finish.is_simple() {
                        self.store::<V, M>(results, first + column, column, size, width, count);
                    } else {
                        self.finish_slowly::<V, M>(results, first, column, size, width, count);
                    }
                }
            }
        }
    }

    /// # Safety
    /// As for [`Finish::apply`], which this is without what is rarely there.
    #[inline(always)]
    unsafe fn store<V: Vector, const M: usize>(
        &self,
        results: [[V; M]; M],
        first: usize,
        column: usize,
        size: [usize; 2],
        width: usize,
        count: usize,
    ) {
        // SAFETY: passed on from the caller.
        unsafe {
            let bias = self
                .finish
                .bias
                .map_or(V::splat(0.0), |bias| load_up_to(bias.as_ptr().add(column), count));
            for (y, row) in results.iter().enumerate().take(size[0]) {
                for (x, result) in row.iter().enumerate().take(size[1]) {
                    let at = first + (y * width + x) * self.pitch;
                    let mut sum = *result + bias;
                    if let Some(residual) = self.finish.residual {
                        sum = sum + load_up_to(residual.as_ptr().add(at), count);
                    }
                    store_up_to(
                        self.finish.activation.apply_linear(sum),
                        self.target.add(at),
                        count,
                    );
                }
            }
        }
    }

    /// # Safety
    /// As for [`FinishTile`].
    #[inline(always)]
    unsafe fn finish_slowly<V: Vector, const M: usize>(
        &self,
        results: [[V; M]; M],
        first: usize,
        column: usize,
        size: [usize; 2],
        width: usize,
        count: usize,
    ) {
        let mut scratch = [0.0; SCRATCH];
        let mut places = [Place::default(); 16];
        let mut len = 0;
        for (y, row) in results.iter().enumerate().take(size[0]) {
            for (x, result) in row.iter().enumerate().take(size[1]) {
                // SAFETY: the scratch has room for sixteen of the largest vectors.
                unsafe { result.store(scratch.as_mut_ptr().add(len * V::LANES)) };
                places[len].to = first + (y * width + x) * self.pitch;
                len += 1;
            }
        }
        // SAFETY: passed on from the caller.
        unsafe {
            V::run(FinishTile {
                scratch: &scratch,
                width: V::LANES,
                places: &places[..len],
                columns: column..column + count,
                first_column: 0,
                target: self.target,
                finish: self.finish,
                add: false,
                last: true,
            });
        }
    }
}
