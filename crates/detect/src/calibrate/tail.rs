//! Peaks over threshold: what the highest scores of training say of higher ones.
//!
//! Runs of scores above a level u are counted once, by their peaks. For a high u the excesses of independent peaks follow a
//! generalised Pareto distribution. If λ peaks above u come in a month, the score that B of them exceed is
//! u + σ/ξ ((λ/B)^ξ − 1), or u + σ ln(λ/B) where ξ is 0.

use serde::{Deserialize, Serialize};

use super::{Verdict, runs};
use crate::smooth::sorted_quantile;

/// Where the tail may begin: the highest of these percentiles that leaves enough peaks, else the last.
const BEGINS: [f64; 4] = [0.98, 0.97, 0.96, 0.95];

/// Peaks that a tail should be fitted to, and without which its shape cannot be told from an exponential one.
const ENOUGH: usize = 40;
const FEWEST: usize = 10;

/// Shapes beyond this are noise in the few peaks there are.
const EXTREME_SHAPE: f64 = 0.5;

/// A generalised Pareto distribution of excesses: P(Y > y) = (1 + ξ y / σ)^(−1/ξ).
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pareto {
    /// ξ: 0 is an exponential tail, above it is heavier, below it ends.
    pub shape: f64,
    /// σ, in the unit of the excesses.
    pub scale: f64,
}

impl Pareto {
    /// By probability-weighted moments: with a₀ the mean excess and a₁ that of y (1 − F(y)), ξ = 2 − a₀ / (a₀ − 2a₁) and
    /// σ = 2 a₀ a₁ / (a₀ − 2a₁). Of too few excesses, or where that has no meaning, an exponential of their mean.
    pub fn fit(excesses: &[f64]) -> Pareto {
        let mut sorted: Vec<f64> = excesses.iter().copied().filter(|e| e.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len().max(1) as f64;
        let weight = |i: usize| 1.0 - (i as f64 + 0.65) / count;
        let mean = sorted.iter().sum::<f64>() / count;
        let weighted = sorted.iter().enumerate().map(|(i, e)| weight(i) * e).sum::<f64>() / count;
        let rest = mean - 2.0 * weighted;
        let exponential = Pareto {
            shape: 0.0,
            scale: mean.max(0.0),
        };
        if sorted.len() < FEWEST || rest <= 1e-9 * mean || weighted <= 0.0 {
            return exponential;
        }
        let shape = (2.0 - mean / rest).clamp(-EXTREME_SHAPE, EXTREME_SHAPE);
        // The mean of the distribution is σ / (1 − ξ); this is the scale of the moments where the shape was not clamped.
        Pareto {
            shape,
            scale: mean * (1.0 - shape),
        }
    }

    /// The excess that one in `times` reaches.
    pub fn reached_once_in(&self, times: f64) -> f64 {
        let logarithm = times.max(1.0).ln();
        if self.shape.abs() < 1e-6 {
            self.scale * logarithm
        } else {
            self.scale * (self.shape * logarithm).exp_m1() / self.shape
        }
    }
}

/// Alarms above the score that as many peaks of healthy windows exceed as the budget allows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    threshold: f32,
    pareto: Pareto,
}

impl Tail {
    pub(super) fn new(reference: &[f32], budget: f64, step: i64) -> Tail {
        let known: Vec<f32> = reference.iter().copied().filter(|s| s.is_finite()).collect();
        if known.is_empty() {
            return Tail {
                threshold: f32::INFINITY,
                pareto: Pareto::fit(&[]),
            };
        }
        let (level, peaks) = peaks(&known, runs::gap(step));
        let excesses: Vec<f64> = peaks.iter().map(|p| f64::from(*p) - f64::from(level)).collect();
        let pareto = Pareto::fit(&excesses);
        let per_month = peaks.len() as f64 / known.len() as f64 * runs::per_month(step);
        let threshold = f64::from(level) + pareto.reached_once_in(per_month / budget);
        Tail {
            threshold: threshold as f32,
            pareto,
        }
    }

    /// The tail of the training scores.
    pub fn pareto(&self) -> Pareto {
        self.pareto
    }

    /// The score above which there is an alarm; infinite without a reference.
    pub fn threshold(&self) -> f32 {
        self.threshold
    }

    pub(super) fn push(&mut self, score: f32) -> Verdict {
        Verdict {
            threshold: self.threshold,
            alarm: score > self.threshold,
        }
    }
}

/// Where the tail begins, and the peaks of the runs above.
fn peaks(scores: &[f32], gap: usize) -> (f32, Vec<f32>) {
    let mut sorted = scores.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    let above = |share: f64| {
        let level = sorted_quantile(&sorted, share);
        let highest = |run: std::ops::Range<usize>| scores[run].iter().copied().fold(level, f32::max);
        let runs = runs::above(scores, level, gap);
        (level, runs.into_iter().map(highest).collect::<Vec<_>>())
    };
    let mut tails = BEGINS.map(above);
    let enough = tails.iter().position(|(_, peaks)| peaks.len() >= ENOUGH);
    std::mem::take(&mut tails[enough.unwrap_or(BEGINS.len() - 1)])
}

#[cfg(test)]
mod tests {
    use super::super::testing::noise;
    use super::*;

    /// Excesses of a known distribution.
    fn excesses(shape: f64, scale: f64, count: usize) -> Vec<f64> {
        let pareto = Pareto { shape, scale };
        let times = |u: f32| 1.0 / (f64::from(u) + 0.5 + 1e-9);
        noise(count, 17)
            .into_iter()
            .map(|u| pareto.reached_once_in(times(u)))
            .collect()
    }

    #[test]
    fn a_known_tail_is_recovered() {
        for (shape, scale) in [(0.0, 1.0), (0.25, 2.0), (-0.3, 0.5), (0.1, 10.0)] {
            let fitted = Pareto::fit(&excesses(shape, scale, 50_000));
            assert!((fitted.shape - shape).abs() < 0.03, "{shape} {scale}: {fitted:?}");
            assert!(
                (fitted.scale / scale - 1.0).abs() < 0.03,
                "{shape} {scale}: {fitted:?}"
            );
        }
    }

    #[test]
    fn the_exponential_is_the_limit_of_small_shapes() {
        let at = |shape: f64| Pareto { shape, scale: 2.0 }.reached_once_in(100.0);
        assert!((at(0.0) - 2.0 * 100f64.ln()).abs() < 1e-12);
        assert!((at(1e-5) - at(0.0)).abs() < 1e-3 && (at(-1e-5) - at(0.0)).abs() < 1e-3);
        assert_eq!(
            Pareto {
                shape: -0.5,
                scale: 1.0
            }
            .reached_once_in(f64::INFINITY),
            2.0,
            "where it ends"
        );
    }

    #[test]
    fn few_or_equal_excesses_make_an_exponential_or_bounded_tail() {
        assert_eq!(
            Pareto::fit(&[]),
            Pareto {
                shape: 0.0,
                scale: 0.0
            }
        );
        assert_eq!(
            Pareto::fit(&[1.0, 3.0]),
            Pareto {
                shape: 0.0,
                scale: 2.0
            }
        );
        let equal = Pareto::fit(&[1.0; 100]);
        assert!(
            equal.shape.abs() <= EXTREME_SHAPE && equal.scale.is_finite(),
            "{equal:?}"
        );
    }

    #[test]
    fn the_threshold_is_exceeded_as_often_as_the_budget_allows() {
        // Exponential scores, a reference of about seven months and a budget that it hardly shows.
        let exponential = |u: &f32| -(f64::from(*u) + 0.5 + 1e-9).ln() as f32;
        let reference: Vec<f32> = noise(20_000, 3).iter().map(exponential).collect();
        let threshold = Tail::new(&reference, 2.0, 900).threshold();
        let expected = (2880.0f64 / 2.0).ln();
        assert!(
            (f64::from(threshold) - expected).abs() < 0.6,
            "{threshold} rather than {expected}"
        );
    }

    #[test]
    fn a_run_is_one_peak() {
        let mut scores = noise(1000, 1);
        scores[500..540].fill(3.0);
        scores[520] = 7.0;
        let (level, peaks) = peaks(&scores, 4);
        assert!(level < 3.0, "{level}");
        assert_eq!(peaks.iter().filter(|p| **p >= 3.0).count(), 1);
        assert!(peaks.contains(&7.0));
    }

    #[test]
    fn a_constant_reference_leaves_its_value_as_the_threshold() {
        let mut tail = Tail::new(&[2.0; 300], 2.0, 900);
        assert!(!tail.push(2.0).alarm);
        assert!(tail.push(2.1).alarm);
    }
}
