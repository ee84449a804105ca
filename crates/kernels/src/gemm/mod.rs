//! Matrix products in the manner of BLIS: both operands packed into panels, blocked for the caches, a register tile at
//! the core, and an epilogue applied while the tile is still there.

use crate::{activation::Gate, dense::Activation, level::Simd};

mod blocking;
mod epilogue;
mod nest;
mod pack;
mod start;
mod tile;

use blocking::Blocking;
use nest::Job;
use pack::MatrixPack;

/// A matrix in memory: element `(r, c)` is `data[r * row_stride + c * column_stride]`.
#[derive(Copy, Clone, Debug)]
pub struct Matrix<'a> {
    /// The elements.
    pub data: &'a [f32],
    /// Distance from a row to the next.
    pub row_stride: usize,
    /// Distance from a column to the next.
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A contiguous row-major matrix with `columns` columns.
    pub fn row_major(data: &'a [f32], columns: usize) -> Matrix<'a> {
        Matrix {
            data,
            row_stride: columns,
            column_stride: 1,
        }
    }

    /// The same elements with rows and columns exchanged.
    pub fn transposed(self) -> Matrix<'a> {
        Matrix {
            data: self.data,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    fn check(&self, rows: usize, columns: usize, name: &str) {
        if rows > 0 && columns > 0 {
            let last = (rows - 1) * self.row_stride + (columns - 1) * self.column_stride;
            let len = self.data.len();
            assert!(
                last < len,
                "gemm: {name}, {rows} x {columns}, needs {} floats and has {len}",
                last + 1
            );
        }
    }
}

/// What is added to every row or column of a product.
#[derive(Copy, Clone, Debug)]
pub enum Bias<'a> {
    /// Nothing.
    None,
    /// One value per column.
    PerColumn(&'a [f32]),
    /// One value per row.
    PerRow(&'a [f32]),
}

/// How the terms of a product are added up.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Sum {
    /// In blocks of `k`, each from zero on; then the bias.
    Blocks,
    /// As [`Sum::Blocks`], and the old contents of `c`.
    OntoOld,
    /// One after the other from the bias on, whatever the blocks: the bits of [`Dense::forward`](crate::Dense::forward).
    InOrder,
}

/// What happens to a product on its way to memory: `c = gate(act(product [+ c] + bias + residual))`.
#[derive(Copy, Clone, Debug)]
pub struct Epilogue<'a> {
    /// How the terms are added up.
    pub sum: Sum,
    /// What is added to each row or column.
    pub bias: Bias<'a>,
    /// A row-major `m x n` matrix added before the activation.
    pub residual: Option<&'a [f32]>,
    /// The function applied to the sum.
    pub activation: Activation,
    /// The gate the result passes, from row-major `m x n` outputs.
    pub gate: Gate<'a>,
}

impl Default for Epilogue<'_> {
    fn default() -> Self {
        Epilogue {
            sum: Sum::Blocks,
            bias: Bias::None,
            residual: None,
            activation: Activation::Identity,
            gate: Gate::Open,
        }
    }
}

/// `c = epilogue(a * b)`, with `a` `m x k`, `b` `k x n` and `c` row-major `m x n`. The bits of the result do not depend
/// on `threads`, and with one thread nothing is allocated.
#[expect(clippy::too_many_arguments, reason = "the sizes and operands of a product")]
pub fn gemm(
    simd: Simd,
    m: usize,
    n: usize,
    k: usize,
    a: Matrix<'_>,
    b: Matrix<'_>,
    c: &mut [f32],
    epilogue: &Epilogue<'_>,
    threads: usize,
    workspace: &mut [f32],
) {
    a.check(m, k, "a");
    b.check(k, n, "b");
    let (a, b) = (MatrixPack::new(simd, a), MatrixPack::new(simd, b.transposed()));
    Job::new(simd, [m, n, k], &a, &b, c, epilogue).run(threads, workspace);
}

/// The floats of workspace that any of these products of this size needs.
pub fn gemm_workspace(simd: Simd, m: usize, n: usize, k: usize, threads: usize) -> usize {
    Blocking::new(simd, m, n, k, threads).workspace()
}
