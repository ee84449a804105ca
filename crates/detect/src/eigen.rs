//! The largest eigenvalues of a covariance, soon and in single precision; [`synod_sums::eigen`] is the exact way.

use synod_core::Random;
use synod_kernels::{Epilogue, Matrix, Simd, gemm, gemm_workspace};
use synod_sums::eigen::diagonalise;

/// More directions than this are never asked for.
pub(crate) const MOST: usize = 64;

/// Passes of the subspace iteration from a start that knows nothing, and from one that is nearly right.
const PASSES: usize = 24;
const WARM_PASSES: usize = 4;
/// What may be left beside a diagonal, as a share of all squares: it is below what single precision tells.
const LEFT: f64 = 1e-15;

/// Directions of large variance, the largest first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Directions {
    /// The variance along each direction.
    pub(crate) values: Vec<f64>,
    /// One unit vector per row, row-major.
    pub(crate) vectors: Vec<f32>,
}

/// The `k` largest eigenvalues of a symmetric, row-major, non-negative `n x n` matrix, with their vectors: at most [`MOST`]
/// of them. A start near the answer makes it quick.
pub(crate) fn largest(matrix: &[f64], n: usize, k: usize, start: Option<&Directions>) -> Directions {
    let k = k.min(n).min(MOST);
    if k == 0 {
        let (values, vectors) = (vec![], vec![]);
        return Directions { values, vectors };
    }
    let single: Vec<f32> = matrix.iter().map(|v| *v as f32).collect();
    let warm = start.filter(|s| s.vectors.len() == n * k);
    let mut basis: Vec<f32> = warm.map_or_else(|| spread(n, k), |s| s.vectors.clone());
    let passes = if warm.is_some() { WARM_PASSES } else { PASSES };
    orthonormalise(&mut basis, n);
    let mut next = vec![0.0; k * n];
    for _ in 0..passes {
        multiply(&basis, &single, k, n, &mut next);
        std::mem::swap(&mut basis, &mut next);
        orthonormalise(&mut basis, n);
    }
    ritz(&basis, &single, k, n)
}

/// Vectors that are neither equal nor orthogonal to anything in particular.
fn spread(n: usize, k: usize) -> Vec<f32> {
    let mut random = Random::new(0, &[]);
    (0..n * k).map(|_| random.uniform() as f32 - 0.5).collect()
}

/// `out = rows * matrix`, with `k` rows of `n` and a symmetric matrix.
fn multiply(rows: &[f32], matrix: &[f32], k: usize, n: usize, out: &mut [f32]) {
    let simd = Simd::best();
    let mut workspace = vec![0.0; gemm_workspace(simd, k, n, n, 1)];
    let (a, b) = (Matrix::row_major(rows, n), Matrix::row_major(matrix, n));
    gemm(simd, k, n, n, a, b, out, &Epilogue::default(), 1, &mut workspace);
}

/// Makes rows of `n` orthonormal, one after the other.
fn orthonormalise(rows: &mut [f32], n: usize) {
    for i in 0..rows.len() / n {
        let (done, rest) = rows.split_at_mut(i * n);
        let row = &mut rest[..n];
        scale_to_unit(row);
        for attempt in 0..n + 4 {
            for other in done.chunks_exact(n) {
                let along = dot(row, other) as f32;
                row.iter_mut().zip(other).for_each(|(x, o)| *x -= along * o);
            }
            let left = dot(row, row).sqrt();
            if left < 1e-3 {
                // It lay among the others, and what is left is rounding: another one must do.
                row.fill(0.0);
                row[(i + attempt) % n] = 1.0;
                continue;
            }
            scale_to_unit(row);
            // Whoever lost little is orthogonal to the last bits; whoever lost much goes round again.
            if left > 0.5 {
                break;
            }
        }
    }
}

fn scale_to_unit(row: &mut [f32]) {
    let length = dot(row, row).sqrt();
    if length > 0.0 {
        row.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
}

/// Sums that do not wait for each other, so that the compiler can keep them in one register.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0.0f64; 16];
    let (heads, tails) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest = heads.remainder().iter().zip(tails.remainder());
    let rest: f64 = rest.map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
    for (x, y) in heads.zip(tails) {
        for i in 0..16 {
            sums[i] += f64::from(x[i]) * f64::from(y[i]);
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// The best eigenvectors within the span of an orthonormal basis.
fn ritz(basis: &[f32], matrix: &[f32], k: usize, n: usize) -> Directions {
    let mut image = vec![0.0; k * n];
    multiply(basis, matrix, k, n, &mut image);
    let entry = |i: usize| dot(&basis[i / k * n..][..n], &image[i % k * n..][..n]);
    let mut small: Vec<f64> = (0..k * k).map(entry).collect();
    let turn = diagonalise(&mut small, k, LEFT);
    let mut order: Vec<usize> = (0..k).collect();
    order.sort_by(|a, b| small[b * k + b].total_cmp(&small[a * k + a]));
    let values = order.iter().map(|&i| small[i * k + i].max(0.0)).collect();
    let mut vectors = Vec::with_capacity(k * n);
    let mut mixed = vec![0.0f64; n];
    for &column in &order {
        mixed.fill(0.0);
        for (r, row) in basis.chunks_exact(n).enumerate() {
            let part = turn[column * k + r];
            mixed
                .iter_mut()
                .zip(row)
                .for_each(|(m, b)| *m += part * f64::from(*b));
        }
        vectors.extend(mixed.iter().map(|m| *m as f32));
    }
    Directions { values, vectors }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A covariance with known eigenvectors: reflections of the axes.
    fn known(n: usize) -> (Vec<f64>, Vec<f64>) {
        let v: Vec<f64> = (0..n).map(|i| ((i * 7 + 3) % 11) as f64 + 1.0).collect();
        let length: f64 = v.iter().map(|x| x * x).sum();
        let axis = |i: usize, j: usize| f64::from(u8::from(i == j)) - 2.0 * v[i] * v[j] / length;
        let values: Vec<f64> = (0..n).map(|i| 50.0 * 0.8f64.powi(i as i32)).collect();
        let entry = |r: usize, c: usize| (0..n).map(|i| values[i] * axis(i, r) * axis(i, c)).sum();
        ((0..n * n).map(|i| entry(i / n, i % n)).collect(), values)
    }

    #[test]
    fn known_eigenvalues_are_found_and_vectors_are_unit() {
        for (n, k) in [(1, 1), (5, 5), (40, 12), (90, 64)] {
            let (matrix, values) = known(n);
            let found = largest(&matrix, n, k, None);
            for (got, want) in found.values.iter().zip(&values).take(k.min(10)) {
                assert!((got - want).abs() < 1e-3 * values[0], "{n}: {got} for {want}");
            }
            for v in found.vectors.chunks_exact(n) {
                assert!((dot(v, v) - 1.0).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn a_singular_matrix_does_not_show_its_largest_direction_twice() {
        let n = 36;
        // Two equal features and one that is the sum of two others.
        let features = |t: usize, i: usize| {
            let x = |i: usize| ((t * (i + 3) * 7919 + i * 104_729) % 1009) as f32 / 500.0 - 1.0;
            let common = x(99) * 4.0;
            match i {
                1 => x(0) + common,
                5 => x(2) + x(3) + 2.0 * common,
                _ => x(i) + common,
            }
        };
        let rows: Vec<f32> = (0..2000 * n).map(|i| features(i / n, i % n)).collect();
        let covariance = crate::moments::Moments::of(&crate::rows::Rows::new(n, rows)).covariance();
        let trace: f64 = (0..n).map(|i| covariance[i * n + i]).sum();
        let found = largest(&covariance, n, n, None);
        let sum: f64 = found.values.iter().sum();
        assert!((sum - trace).abs() < 1e-3 * trace, "{sum} for {trace}");
        for i in 0..n {
            for j in 0..i {
                let along = dot(&found.vectors[i * n..][..n], &found.vectors[j * n..][..n]);
                assert!(along.abs() < 1e-4, "{i} and {j}: {along}");
            }
        }
    }

    #[test]
    fn a_matrix_of_lower_rank_has_no_further_variance() {
        let n = 6;
        let matrix: Vec<f64> = (0..n * n).map(|i| ((i / n + 1) * (i % n + 1)) as f64).collect();
        let found = largest(&matrix, n, 4, None);
        let trace: f64 = (1..=n).map(|i| (i * i) as f64).sum();
        assert!((found.values[0] - trace).abs() < 1e-2, "{:?}", found.values);
        assert!(found.values[1..].iter().all(|v| *v < 1e-2), "{:?}", found.values);
    }
}
