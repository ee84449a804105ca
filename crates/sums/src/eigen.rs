//! Eigenvalues and eigenvectors of symmetric matrices, to the last digits of `f64` and with the same bits on every machine.

/// Directions that are followed beside those asked for, so that these settle soon.
const SPARE: usize = 16;
/// Products with the matrix between two looks at what has become of the directions.
const PASSES: usize = 8;
/// Looks at most. Directions that have not settled by then have variances so alike that any of them will do.
const LOOKS: usize = 60;
/// How far from an eigenvector a settled direction may be led by the matrix, in units of the largest eigenvalue.
const SETTLED: f64 = 1e-12;
/// What may be left beside the diagonal, as a share of all squares.
const LEFT: f64 = 1e-28;

/// Eigenvectors of a symmetric matrix, those of large eigenvalues first.
#[derive(Clone, Debug, PartialEq)]
pub struct Directions {
    /// The eigenvalue of each.
    pub values: Vec<f64>,
    /// One unit vector per row, row-major.
    pub vectors: Vec<f64>,
}

/// The `k` largest eigenvalues of a symmetric, row-major `n x n` matrix without negative ones, with their vectors; all if there
/// are not so many.
///
/// ```
/// use synod_sums::eigen::largest;
///
/// let found = largest(&[2.0, 1.0, 1.0, 2.0], 2, 1);
/// assert!((found.values[0] - 3.0).abs() < 1e-12);
/// assert!((found.vectors[0] - found.vectors[1]).abs() < 1e-12);
/// ```
pub fn largest(matrix: &[f64], n: usize, k: usize) -> Directions {
    let k = k.min(n);
    let followed = n.min(2 * k + SPARE);
    let whole = followed == n;
    let mut basis = if whole { identity(n) } else { spread(n, followed) };
    let mut values = vec![];
    for _look in 0..LOOKS {
        for _pass in 0..if whole { 0 } else { PASSES } {
            basis = multiply(&basis, matrix, n);
            orthonormalise(&mut basis, n);
        }
        let off;
        (values, off) = turn(&mut basis, matrix, n, k);
        if whole || off <= SETTLED * values.first().copied().unwrap_or(0.0) {
            break;
        }
    }
    values.truncate(k);
    basis.truncate(k * n);
    Directions {
        values,
        vectors: basis,
    }
}

/// Turns a basis into the best eigenvectors within its span, the largest eigenvalue first. Beside the eigenvalues it tells how
/// far the matrix leads any of the first `k` from itself.
fn turn(basis: &mut Vec<f64>, matrix: &[f64], n: usize, k: usize) -> (Vec<f64>, f64) {
    let image = multiply(basis, matrix, n);
    let count = basis.len() / n.max(1);
    let entry = |i: usize| dot(&basis[i / count * n..][..n], &image[i % count * n..][..n]);
    let mut small: Vec<f64> = (0..count * count).map(entry).collect();
    let turned = diagonalise(&mut small, count, LEFT);
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| small[b * count + b].total_cmp(&small[a * count + a]));
    let values: Vec<f64> = order.iter().map(|&i| small[i * count + i]).collect();
    let mix = |rows: &[f64]| -> Vec<f64> {
        let mix = |&i: &usize| combine(&turned[i * count..][..count], rows, n);
        order.iter().flat_map(mix).collect()
    };
    *basis = mix(basis);
    let image = mix(&image);
    let mut off = 0.0f64;
    for (i, value) in values.iter().enumerate().take(k) {
        let (own, led) = (&basis[i * n..][..n], &image[i * n..][..n]);
        let square: f64 = led.iter().zip(own).map(|(l, o)| (l - value * o).powi(2)).sum();
        off = off.max(square.sqrt());
    }
    (values, off)
}

/// Diagonalises a symmetric `n x n` matrix in place by Jacobi's plane rotations, until what is `left` beside the diagonal is at
/// most such a share of all squares. The rows of the result are the eigenvectors, in the order of the diagonal.
pub fn diagonalise(matrix: &mut [f64], n: usize, left: f64) -> Vec<f64> {
    let mut turn = identity(n);
    for _sweep in 0..30 {
        let off: f64 = (0..n * n)
            .filter(|i| i / n != i % n)
            .map(|i| matrix[i] * matrix[i])
            .sum();
        let all: f64 = matrix.iter().map(|x| x * x).sum();
        if off <= left * all {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(matrix, &mut turn, n, p, q);
            }
        }
    }
    turn
}

fn rotate(a: &mut [f64], turn: &mut [f64], k: usize, p: usize, q: usize) {
    let apq = a[p * k + q];
    if apq == 0.0 {
        return;
    }
    let theta = (a[q * k + q] - a[p * k + p]) / (2.0 * apq);
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let t = if theta == 0.0 { 1.0 } else { t };
    let c = 1.0 / (t * t + 1.0).sqrt();
    let s = t * c;
    for i in 0..k {
        let (x, y) = (a[i * k + p], a[i * k + q]);
        (a[i * k + p], a[i * k + q]) = (c * x - s * y, s * x + c * y);
    }
    for i in 0..k {
        let (x, y) = (a[p * k + i], a[q * k + i]);
        (a[p * k + i], a[q * k + i]) = (c * x - s * y, s * x + c * y);
        let (x, y) = (turn[p * k + i], turn[q * k + i]);
        (turn[p * k + i], turn[q * k + i]) = (c * x - s * y, s * x + c * y);
    }
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect()
}

/// Orthonormal vectors that are neither equal nor orthogonal to anything in particular.
fn spread(n: usize, count: usize) -> Vec<f64> {
    let mut random = synod_core::Random::new(0, &[]);
    let mut rows: Vec<f64> = (0..n * count).map(|_| random.uniform() - 0.5).collect();
    orthonormalise(&mut rows, n);
    rows
}

/// Rows of `n` times a symmetric matrix.
fn multiply(rows: &[f64], matrix: &[f64], n: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows.len()];
    for (j, line) in matrix.chunks_exact(n.max(1)).enumerate() {
        for (row, out) in rows.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            add_scaled(out, row[j], line);
        }
    }
    out
}

/// The sum of rows of `n`, each times its factor.
fn combine(factors: &[f64], rows: &[f64], n: usize) -> Vec<f64> {
    let mut sum = vec![0.0; n];
    for (factor, row) in factors.iter().zip(rows.chunks_exact(n)) {
        add_scaled(&mut sum, *factor, row);
    }
    sum
}

/// Makes rows of `n` orthonormal, one after the other.
fn orthonormalise(rows: &mut [f64], n: usize) {
    for i in 0..rows.len() / n.max(1) {
        let (done, rest) = rows.split_at_mut(i * n);
        let row = &mut rest[..n];
        scale_to_unit(row);
        for attempt in 0..n + 4 {
            for other in done.chunks_exact(n) {
                let along = dot(row, other);
                add_scaled(row, -along, other);
            }
            let left = dot(row, row).sqrt();
            if left < 1e-10 {
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

fn scale_to_unit(row: &mut [f64]) {
    let length = dot(row, row).sqrt();
    if length > 0.0 {
        row.iter_mut().for_each(|x| *x /= length);
    }
}

fn add_scaled(sum: &mut [f64], factor: f64, row: &[f64]) {
    sum.iter_mut().zip(row).for_each(|(s, x)| *s += factor * x);
}

/// Sums that do not wait for each other, so that the compiler can keep them in registers.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (heads, tails) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = heads
        .remainder()
        .iter()
        .zip(tails.remainder())
        .map(|(x, y)| x * y)
        .sum();
    for (x, y) in heads.zip(tails) {
        for i in 0..8 {
            sums[i] += x[i] * y[i];
        }
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix with known eigenvalues and, as rows, eigenvectors: reflections of the axes.
    fn known(n: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let v: Vec<f64> = (0..n).map(|i| ((i * 7 + 3) % 11) as f64 + 1.0).collect();
        let length: f64 = v.iter().map(|x| x * x).sum();
        let axis = |i: usize, j: usize| f64::from(u8::from(i == j)) - 2.0 * v[i] * v[j] / length;
        let values: Vec<f64> = (0..n).map(|i| 50.0 * 0.8f64.powi(i as i32)).collect();
        let entry = |r: usize, c: usize| (0..n).map(|i| values[i] * axis(i, r) * axis(i, c)).sum();
        let matrix = (0..n * n).map(|i| entry(i / n, i % n)).collect();
        (matrix, values, (0..n * n).map(|i| axis(i / n, i % n)).collect())
    }

    #[test]
    fn known_eigenvectors_are_found_to_the_last_digits() {
        for (n, k) in [(1, 1), (5, 2), (30, 30), (40, 7), (90, 20), (120, 3)] {
            let (matrix, values, vectors) = known(n);
            let found = largest(&matrix, n, k);
            assert_eq!((found.values.len(), found.vectors.len()), (k, k * n));
            for i in 0..k {
                assert!((found.values[i] - values[i]).abs() < 1e-11, "{n}, {k}: value {i}");
                let along = dot(&found.vectors[i * n..][..n], &vectors[i * n..][..n]);
                assert!((along.abs() - 1.0).abs() < 1e-12, "{n}, {k}: vector {i}: {along}");
            }
        }
    }

    #[test]
    fn a_part_of_the_directions_is_what_jacobi_finds_among_all() {
        let mut random = synod_core::Random::new(3, &[]);
        let n = 60;
        let rows: Vec<f64> = (0..90 * n)
            .map(|i| random.normal() * (1.0 + (i % n) as f64))
            .collect();
        let product = |i: usize| (0..90).map(|r| rows[r * n + i / n] * rows[r * n + i % n]).sum();
        let matrix: Vec<f64> = (0..n * n).map(product).collect();
        let mut diagonal = matrix.clone();
        let all = diagonalise(&mut diagonal, n, 1e-28);
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| diagonal[b * n + b].total_cmp(&diagonal[a * n + a]));
        let found = largest(&matrix, n, 6);
        for (i, &at) in order.iter().enumerate().take(6) {
            let want = diagonal[at * n + at];
            assert!((found.values[i] - want).abs() < 1e-11 * want);
            let along = dot(&found.vectors[i * n..][..n], &all[at * n..][..n]);
            assert!((along.abs() - 1.0).abs() < 1e-10, "vector {i}: {along}");
        }
    }

    #[test]
    fn a_matrix_of_low_rank_has_orthonormal_directions_without_variance() {
        for n in [6, 50] {
            let matrix: Vec<f64> = (0..n * n).map(|i| ((i / n + 1) * (i % n + 1)) as f64).collect();
            let trace: f64 = (1..=n).map(|i| (i * i) as f64).sum();
            let found = largest(&matrix, n, 4);
            assert!(
                (found.values[0] - trace).abs() < 1e-10 * trace,
                "{:?}",
                found.values
            );
            assert!(found.values[1..].iter().all(|v| v.abs() < 1e-10 * trace));
            for (i, a) in found.vectors.chunks(n).enumerate() {
                for (j, b) in found.vectors.chunks(n).enumerate() {
                    assert!((dot(a, b) - f64::from(u8::from(i == j))).abs() < 1e-12);
                }
            }
        }
        let none = largest(&[0.0; 400], 20, 2);
        assert_eq!(none.values, [0.0, 0.0]);
        assert!(largest(&[], 0, 3).values.is_empty());
    }
}
