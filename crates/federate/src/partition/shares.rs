//! Unequal shares, and counts of rows from them.

use std::collections::BinaryHeap;

use synod_core::Random;

/// Shares of a symmetric Dirichlet distribution; they add up to 1.
pub(super) fn dirichlet(alpha: f64, count: usize, random: &mut Random) -> Vec<f64> {
    // As logarithms: with a low concentration most are too small for a number.
    let logs: Vec<f64> = (0..count).map(|_| log_gamma_variate(alpha, random)).collect();
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut shares: Vec<f64> = logs.iter().map(|log| (log - largest).exp()).collect();
    let total: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= total);
    shares
}

/// The logarithm of a gamma variate of this shape, by Marsaglia and Tsang.
fn log_gamma_variate(shape: f64, random: &mut Random) -> f64 {
    if shape < 1.0 {
        let uniform = 1.0 - random.uniform();
        return log_gamma_variate(shape + 1.0, random) + uniform.ln() / shape;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = random.normal();
        let v = (1.0 + c * x).powi(3);
        let uniform = 1.0 - random.uniform();
        if v > 0.0 && uniform.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d.ln() + v.ln();
        }
    }
}

/// Shares in proportion to rank to the minus `exponent`; they add up to 1.
pub(super) fn power_law(exponent: f64, count: usize) -> Vec<f64> {
    let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// Whole numbers in proportion to shares that add up to 1; they add up to `total`.
pub(super) fn split(total: usize, shares: &[f64]) -> Vec<usize> {
    let (mut sum, mut before) = (0.0, 0);
    let last = shares.len().saturating_sub(1);
    shares
        .iter()
        .enumerate()
        .map(|(i, share)| {
            sum += share;
            let upto = match i == last {
                true => total,
                false => ((sum * total as f64).round() as usize).clamp(before, total),
            };
            let count = upto - before;
            before = upto;
            count
        })
        .collect()
}

/// Moves random rows from those who hold the most to those who hold fewer than `minimum`. There must be enough for all.
pub(super) fn raise_to(minimum: usize, held: &mut [Vec<u32>], random: &mut Random) {
    let mut richest: BinaryHeap<(usize, usize)> = held
        .iter()
        .enumerate()
        .map(|(client, rows)| (rows.len(), client))
        .filter(|&(count, _)| count > minimum)
        .collect();
    for client in 0..held.len() {
        while held[client].len() < minimum {
            let Some((count, giver)) = richest.pop() else {
                return;
            };
            let row = random.below(count as u64) as usize;
            let row = held[giver].swap_remove(row);
            held[client].push(row);
            if count - 1 > minimum {
                richest.push((count - 1, giver));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_variates_have_the_mean_and_variance_they_should() {
        for shape in [0.3, 1.0, 2.5, 20.0] {
            let (mut random, n) = (Random::new(5, &[]), 40_000);
            let draws: Vec<f64> = (0..n)
                .map(|_| log_gamma_variate(shape, &mut random).exp())
                .collect();
            let mean = draws.iter().sum::<f64>() / n as f64;
            let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n as f64;
            assert!((mean / shape - 1.0).abs() < 0.05, "{shape} {mean}");
            assert!((variance / shape - 1.0).abs() < 0.08, "{shape} {variance}");
        }
    }

    #[test]
    fn shares_of_any_concentration_add_up_to_one() {
        for alpha in [1e-6, 0.01, 0.5, 1.0, 100.0, 1e9] {
            let shares = dirichlet(alpha, 50, &mut Random::new(1, &[]));
            let total: f64 = shares.iter().sum();
            assert!((total - 1.0).abs() < 1e-9, "{alpha} {total}");
            assert_eq!(split(12_345, &shares).iter().sum::<usize>(), 12_345);
        }
    }

    #[test]
    fn a_split_is_within_one_of_its_shares() {
        let shares = power_law(1.2, 30);
        for (count, share) in split(1000, &shares).into_iter().zip(shares) {
            assert!((count as f64 - 1000.0 * share).abs() <= 1.0);
        }
    }
}
