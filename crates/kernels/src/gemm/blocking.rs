//! Tile, block and grid sizes.

use std::ops::Range;

use crate::level::{Level, Simd};

/// Floats by which a workspace may have to be advanced to reach a cache line.
pub(super) const ALIGNMENT: usize = 16;

/// The sizes of every loop of a product. Those that decide the order of additions depend on `k` and the level alone.
#[derive(Copy, Clone, Debug)]
pub(super) struct Blocking {
    /// Rows of a register tile.
    pub(super) tile_rows: usize,
    /// Columns of a register tile.
    pub(super) tile_columns: usize,
    /// Products summed in registers before they go to memory: a panel of `b` this deep stays in the L1 cache.
    pub(super) depth: usize,
    /// Rows of `a` packed at once: they stay in the L2 cache.
    pub(super) rows: usize,
    /// Columns of `b` packed at once: they stay in the L3 cache.
    pub(super) columns: usize,
    /// Threads along the rows and the columns.
    pub(super) grid: [usize; 2],
    /// Rows and columns of a thread's share, whole tiles.
    pub(super) share: [usize; 2],
}

impl Blocking {
    pub(super) fn new(simd: Simd, m: usize, n: usize, k: usize, threads: usize) -> Blocking {
        let (tile_rows, tile_columns) = tile(simd);
        let [deepest, most_rows, most_columns] = match simd.level() {
            Level::Portable => [256, 120, 2048],
            Level::Avx2 => [384, 240, 4096],
            Level::Avx512 => [512, 336, 4096],
        };
        let grid = grid(m.div_ceil(tile_rows), n.div_ceil(tile_columns), threads.max(1));
        let share = [
            m.div_ceil(tile_rows).div_ceil(grid[0]) * tile_rows,
            n.div_ceil(tile_columns).div_ceil(grid[1]) * tile_columns,
        ];
        Blocking {
            tile_rows,
            tile_columns,
            depth: even_parts(k, deepest, 1),
            rows: even_parts(share[0], most_rows, tile_rows),
            columns: even_parts(share[1], most_columns, tile_columns),
            grid,
            share,
        }
    }

    pub(super) fn threads(&self) -> usize {
        self.grid[0] * self.grid[1]
    }

    /// Floats of workspace for one thread.
    pub(super) fn thread_workspace(&self) -> usize {
        let [a, b] = self.panels();
        a + b + 2 * ALIGNMENT
    }

    /// Floats of the packed blocks of `a` and `b`.
    pub(super) fn panels(&self) -> [usize; 2] {
        [self.rows * self.depth, self.columns * self.depth].map(|len| len.next_multiple_of(ALIGNMENT))
    }

    pub(super) fn workspace(&self) -> usize {
        self.thread_workspace() * self.threads()
    }

    /// The rows and columns of `c` that thread `index` computes.
    pub(super) fn region(&self, index: usize, m: usize, n: usize) -> [Range<usize>; 2] {
        let part = |i: usize, share: usize, all: usize| (i * share).min(all)..((i + 1) * share).min(all);
        [
            part(index / self.grid[1], self.share[0], m),
            part(index % self.grid[1], self.share[1], n),
        ]
    }
}

/// Rows and columns of the register tile: with the vectors of `b` and one broadcast it fills the registers.
pub(super) fn tile(simd: Simd) -> (usize, usize) {
    match simd.level() {
        Level::Portable => (6, 8),
        Level::Avx2 => (6, 16),
        Level::Avx512 => (14, 32),
    }
}

/// The size of the parts when `len` is cut into as few, and as even, multiples of `unit` as `most` allows.
fn even_parts(len: usize, most: usize, unit: usize) -> usize {
    let parts = len.div_ceil(most).max(1);
    len.div_ceil(parts).next_multiple_of(unit).max(unit)
}

/// Splits the tiles among at most `threads` so that the threads pack as little as possible between them.
fn grid(tile_rows: usize, tile_columns: usize, threads: usize) -> [usize; 2] {
    let used = threads.min(tile_rows.max(1) * tile_columns.max(1));
    let splits = (1..=used)
        .filter(|down| used.is_multiple_of(*down))
        .map(|down| [down, used / down]);
    let fits = |[down, across]: &[usize; 2]| *down <= tile_rows.max(1) && *across <= tile_columns.max(1);
    let packed = |[down, across]: &[usize; 2]| tile_rows.div_ceil(*down) + 2 * tile_columns.div_ceil(*across);
    splits.filter(fits).min_by_key(packed).unwrap_or([1, 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_regions_tile_the_result() {
        for (m, n, threads) in [
            (1, 1, 4),
            (100, 7, 3),
            (124, 90, 6),
            (13, 500, 8),
            (0, 5, 2),
            (5, 0, 2),
        ] {
            let blocking = Blocking::new(Simd::best(), m, n, 64, threads);
            let mut seen = vec![0; m * n];
            for index in 0..blocking.threads() {
                let [rows, columns] = blocking.region(index, m, n);
                for r in rows {
                    for c in columns.clone() {
                        seen[r * n + c] += 1;
                    }
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "{m} x {n} on {threads}");
        }
    }

    #[test]
    fn the_order_of_additions_does_not_depend_on_the_threads() {
        let depths = [1, 2, 7].map(|threads| Blocking::new(Simd::best(), 300, 300, 1000, threads).depth);
        assert!(
            depths[0] < 1000 && depths.iter().all(|depth| *depth == depths[0]),
            "{depths:?}"
        );
    }
}
