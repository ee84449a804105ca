//! The loops around the register tile: blocks for the caches, shares for the threads.

use std::ops::Range;

use super::{
    Bias, Epilogue, Sum,
    blocking::{ALIGNMENT, Blocking},
    pack::MatrixPack,
    start::Start,
    tile::{Panels, Stage},
};
use crate::{level::Simd, share::on_threads_with};

/// A product to be computed. The threads write disjoint regions of `c` through the pointer.
pub(super) struct Job<'a> {
    simd: Simd,
    size: [usize; 3],
    a: &'a MatrixPack<'a>,
    b: &'a MatrixPack<'a>,
    c: *mut f32,
    epilogue: &'a Epilogue<'a>,
}

// SAFETY: the operands are only read, and regions of `c` written by different threads are disjoint.
unsafe impl Sync for Job<'_> {}

impl<'a> Job<'a> {
    pub(super) fn new(
        simd: Simd,
        size: [usize; 3],
        a: &'a MatrixPack<'a>,
        b: &'a MatrixPack<'a>,
        c: &'a mut [f32],
        epilogue: &'a Epilogue<'a>,
    ) -> Job<'a> {
        let [m, n, _] = size;
        assert!(c.len() == m * n, "gemm: c has {} floats, not {m} x {n}", c.len());
        match epilogue.bias {
            Bias::None => {}
            Bias::PerColumn(bias) => assert!(bias.len() == n, "gemm: {} biases for {n} columns", bias.len()),
            Bias::PerRow(bias) => assert!(bias.len() == m, "gemm: {} biases for {m} rows", bias.len()),
        }
        if let Some(residual) = epilogue.residual {
            assert!(
                residual.len() == m * n,
                "gemm: the residual has {} floats, not {m} x {n}",
                residual.len()
            );
        }
        epilogue.gate.check(m * n, "gemm");
        Job {
            simd,
            size,
            a,
            b,
            c: c.as_mut_ptr(),
            epilogue,
        }
    }

    pub(super) fn run(&self, threads: usize, workspace: &mut [f32]) {
        let [m, n, k] = self.size;
        if m == 0 || n == 0 {
            return;
        }
        let blocking = Blocking::new(self.simd, m, n, k, threads);
        let needed = blocking.workspace();
        assert!(
            workspace.len() >= needed,
            "gemm: a workspace of {} floats, not {needed}",
            workspace.len()
        );
        let each = blocking.thread_workspace();
        on_threads_with(blocking.threads(), workspace, each, |index, share| {
            self.region(&blocking, index, share)
        });
    }

    /// Computes one thread's region of `c`.
    fn region(&self, blocking: &Blocking, index: usize, workspace: &mut [f32]) {
        let [m, n, k] = self.size;
        let [rows, columns] = blocking.region(index, m, n);
        let start = workspace
            .as_ptr()
            .align_offset(ALIGNMENT * size_of::<f32>())
            .min(ALIGNMENT);
        let (a_block, b_block) = workspace[start..].split_at_mut(blocking.panels()[0]);
        for left in columns.clone().step_by(blocking.columns) {
            let block_columns = left..(left + blocking.columns).min(columns.end);
            let mut first = 0;
            // At least once: a product over nothing still has an epilogue.
            loop {
                let depth = first..(first + blocking.depth).min(k);
                self.b.pack(
                    block_columns.clone(),
                    depth.clone(),
                    blocking.tile_columns,
                    b_block,
                );
                for top in rows.clone().step_by(blocking.rows) {
                    let block_rows = top..(top + blocking.rows).min(rows.end);
                    self.a
                        .pack(block_rows.clone(), depth.clone(), blocking.tile_rows, a_block);
                    self.block(
                        blocking,
                        block_rows,
                        block_columns.clone(),
                        depth.clone(),
                        a_block,
                        b_block,
                    );
                }
                first = depth.end;
                if first >= k {
                    break;
                }
            }
        }
    }

    fn block(
        &self,
        blocking: &Blocking,
        rows: Range<usize>,
        columns: Range<usize>,
        depth: Range<usize>,
        a: &[f32],
        b: &[f32],
    ) {
        let panels = |len: usize, tile: usize| len.div_ceil(tile) * tile * depth.len();
        assert!(
            a.len() >= panels(rows.len(), blocking.tile_rows),
            "gemm: a packed block of a is too short"
        );
        assert!(
            b.len() >= panels(columns.len(), blocking.tile_columns),
            "gemm: a packed block of b is too short"
        );
        let (c, stride) = (self.c, self.size[1]);
        let begun = depth.start > 0;
        let (start, add, bias) = match (self.epilogue.sum, begun) {
            (Sum::Blocks, _) => (Start::Zero, begun, self.epilogue.bias),
            (Sum::OntoOld, _) => (Start::Zero, true, self.epilogue.bias),
            (Sum::InOrder, false) => (Start::Bias(self.epilogue.bias), false, Bias::None),
            (Sum::InOrder, true) => (Start::Stored, false, Bias::None),
        };
        let last = depth.end == self.size[2];
        let stage = Stage { add, last };
        let epilogue = &Epilogue {
            bias,
            ..*self.epilogue
        };
        self.simd.run(Panels {
            rows,
            columns,
            depth: depth.len(),
            a,
            b,
            c,
            stride,
            epilogue,
            start,
            stage,
        });
    }
}
