//! Moving elements without changing them.

use crate::{
    level::{Kernel, Simd},
    vector::{MAX_LANES, Vector},
};

/// Rows and columns of the block whose two sides fit in the first-level cache together.
const BLOCK: usize = 32;

/// `y[c][r] = x[r][c]`, with `x` `rows` by `columns`, row major.
pub fn transpose(simd: Simd, rows: usize, columns: usize, x: &[f32], y: &mut [f32]) {
    let len = rows * columns;
    assert!(
        x.len() == len && y.len() == len,
        "transpose of {rows} x {columns}: {} inputs, {} outputs",
        x.len(),
        y.len()
    );
    simd.run(Transpose { rows, columns, x, y });
}

/// Copies the rows of `x`, each `width` long, that `rows` names, one after the other.
pub fn gather_rows(x: &[f32], width: usize, rows: &[u32], y: &mut [f32]) {
    assert!(
        y.len() == rows.len() * width,
        "gather_rows: {} rows of {width} into {} floats",
        rows.len(),
        y.len()
    );
    if width == 0 {
        return;
    }
    for (to, &row) in y.chunks_exact_mut(width).zip(rows) {
        let start = row as usize * width;
        let from = x.get(start..start + width);
        to.copy_from_slice(from.unwrap_or_else(|| panic!("gather_rows: no row {row} in {} floats", x.len())));
    }
}

/// Rows that a later [`gather_rows`] will copy. They are fetched from memory a few cache lines at a time, among other work.
#[derive(Clone, Debug)]
pub struct Ahead<'a> {
    x: &'a [f32],
    width: usize,
    rows: std::slice::Iter<'a, u32>,
    row: std::iter::StepBy<std::slice::Iter<'a, f32>>,
}

impl<'a> Ahead<'a> {
    /// The rows of `x`, each `width` long, that `rows` names. Rows that do not exist are passed over.
    ///
    /// Asks for the ends of all rows: to find a page takes longer than to fetch a line, and a core can look for several at
    /// once.
    pub fn new(x: &'a [f32], width: usize, rows: &'a [u32]) -> Ahead<'a> {
        let ahead = Ahead {
            x,
            width,
            rows: rows.iter(),
            row: [].iter().step_by(MAX_LANES),
        };
        for &row in rows {
            let row = ahead.row(row);
            row.first().into_iter().chain(row.last()).for_each(prefetch);
        }
        ahead
    }

    fn row(&self, row: u32) -> &'a [f32] {
        let start = row as usize * self.width;
        self.x.get(start..start + self.width).unwrap_or_default()
    }

    /// The cache lines that were not asked for.
    pub fn lines(&self) -> usize {
        self.row.len() + self.rows.len() * self.width.div_ceil(MAX_LANES)
    }

    /// Asks for the next `lines`.
    pub fn fetch(&mut self, lines: usize) {
        for _ in 0..lines {
            let value = loop {
                if let Some(value) = self.row.next() {
                    break value;
                }
                let Some(&row) = self.rows.next() else {
                    return;
                };
                self.row = self.row(row).iter().step_by(MAX_LANES);
            };
            prefetch(value);
        }
    }
}

#[inline(always)]
fn prefetch(value: &f32) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint about an address that exists; every x86-64 processor has the instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(value).cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}

struct Transpose<'a> {
    rows: usize,
    columns: usize,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for Transpose<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (from, to) = (self.x.as_ptr(), self.y.as_mut_ptr());
        for top in (0..self.rows).step_by(BLOCK) {
            let bottom = (top + BLOCK).min(self.rows);
            for left in (0..self.columns).step_by(BLOCK) {
                let right = (left + BLOCK).min(self.columns);
                for column in (left..right).step_by(8) {
                    for row in (top..bottom).step_by(8) {
                        let (height, width) = ((bottom - row).min(8), (right - column).min(8));
                        // SAFETY: `height` by `width` elements lie inside both matrices.
                        unsafe {
                            let from = from.add(row * self.columns + column);
                            let to = to.add(column * self.rows + row);
                            if height == 8 && width == 8 {
                                V::transpose8(from, self.columns, 8, to, self.rows);
                            } else {
                                for c in 0..width {
                                    for r in 0..height {
                                        *to.add(c * self.rows + r) = *from.add(r * self.columns + c);
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Ahead;

    #[test]
    fn rows_are_asked_for_line_by_line_and_absent_ones_passed_over() {
        let x = [0.0; 40 * 5];
        let mut ahead = Ahead::new(&x, 40, &[4, 9, 0]);
        assert_eq!(ahead.lines(), 9);
        ahead.fetch(2);
        assert_eq!(
            ahead.lines(),
            7,
            "one line of the first row is left, and two rows"
        );
        ahead.fetch(2);
        assert_eq!(ahead.lines(), 2, "the absent row took none");
        ahead.fetch(100);
        assert_eq!(ahead.lines(), 0);
        assert_eq!(Ahead::new(&[], 0, &[1, 2]).lines(), 0);
    }
}
