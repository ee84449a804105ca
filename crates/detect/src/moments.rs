//! Sums over rows from which mean and covariance follow: they add up across blocks of time and across nodes.

use synod_kernels::{Epilogue, Matrix, Simd, gemm, gemm_workspace};

use crate::rows::Rows;

/// Rows that are multiplied at once: their sums stay exact enough in single precision.
const CHUNK: usize = 1024;

/// The number of rows, their sum and the sum of their outer products.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    count: f64,
    sum: Vec<f64>,
    products: Vec<f64>,
}

impl Moments {
    /// The moments of no rows.
    pub fn empty(width: usize) -> Moments {
        Moments {
            count: 0.0,
            sum: vec![0.0; width],
            products: vec![0.0; width * width],
        }
    }

    /// The moments of some rows.
    pub fn of(rows: &Rows) -> Moments {
        let (simd, n) = (Simd::best(), rows.width());
        let mut moments = Moments::empty(n);
        let mut product = vec![0.0f32; n * n];
        let mut workspace = vec![0.0f32; gemm_workspace(simd, n, n, CHUNK, 1)];
        for chunk in rows.values().chunks(CHUNK * n.max(1)) {
            let count = chunk.len() / n.max(1);
            let x = Matrix::row_major(chunk, n);
            let (epilogue, out) = (Epilogue::default(), &mut product);
            gemm(
                simd,
                n,
                n,
                count,
                x.transposed(),
                x,
                out,
                &epilogue,
                1,
                &mut workspace,
            );
            moments.count += count as f64;
            for row in chunk.chunks_exact(n.max(1)) {
                moments
                    .sum
                    .iter_mut()
                    .zip(row)
                    .for_each(|(s, x)| *s += f64::from(*x));
            }
            moments
                .products
                .iter_mut()
                .zip(&product)
                .for_each(|(s, x)| *s += f64::from(*x));
        }
        moments
    }

    /// Adds the rows behind other moments of the same width.
    pub fn add(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum.iter_mut().zip(&other.sum).for_each(|(a, b)| *a += b);
        self.products
            .iter_mut()
            .zip(&other.products)
            .for_each(|(a, b)| *a += b);
    }

    /// Adds as many rows around the centre, 0, that vary as a covariance says.
    pub fn lean(&mut self, rows: f64, covariance: &[f64]) {
        let products = self.products.iter_mut().zip(covariance);
        products.for_each(|(product, entry)| *product += rows * entry);
        self.count += rows;
    }

    /// How many rows stand behind the sums.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// The mean row.
    pub fn mean(&self) -> Vec<f64> {
        self.sum.iter().map(|s| s / self.count.max(1.0)).collect()
    }

    /// The covariance, row-major.
    pub fn covariance(&self) -> Vec<f64> {
        let (mean, n) = (self.mean(), self.sum.len());
        let count = self.count.max(1.0);
        let entry = |i: usize, p: &f64| p / count - mean[i / n] * mean[i % n];
        self.products
            .iter()
            .enumerate()
            .map(|(i, p)| entry(i, p))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaning_is_as_if_rows_around_the_centre_had_been_seen() {
        let rows = Rows::new(2, vec![1.0, 2.0, 3.0, 1.0, 5.0, 6.0, 7.0, 3.0]);
        // Two rows whose mean is the centre, and their covariance.
        let others = Rows::new(2, vec![2.0, -3.0, -2.0, 3.0]);
        let mut leaning = Moments::of(&rows);
        leaning.lean(2.0, &[4.0, -6.0, -6.0, 9.0]);
        let mut all = Moments::of(&rows);
        all.add(&Moments::of(&others));
        assert_eq!(leaning.count(), 6.0);
        assert_eq!(leaning.mean(), all.mean());
        for (a, b) in leaning.covariance().iter().zip(all.covariance()) {
            assert!((a - b).abs() < 1e-9, "{a} {b}");
        }
    }

    #[test]
    fn blocks_add_up_to_the_whole() {
        let values: Vec<f32> = (0..3000 * 3)
            .map(|i| ((i * 37 + i / 7) % 101) as f32 / 50.0 - 1.0)
            .collect();
        let rows = Rows::new(3, values);
        let mut sum = Moments::of(&rows.slice(0..1234));
        sum.add(&Moments::of(&rows.slice(1234..3000)));
        let (whole, mean) = (Moments::of(&rows).covariance(), sum.mean());
        for (i, (a, b)) in whole.iter().zip(sum.covariance()).enumerate() {
            let (r, c) = (i / 3, i % 3);
            let direct: f64 = rows
                .iter()
                .map(|x| (f64::from(x[r]) - mean[r]) * (f64::from(x[c]) - mean[c]))
                .sum::<f64>()
                / 3000.0;
            assert!(
                (a - b).abs() < 1e-5 && (a - direct).abs() < 1e-5,
                "{a} {b} {direct}"
            );
        }
    }
}
