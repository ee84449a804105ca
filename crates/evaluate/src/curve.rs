//! What one sort of the scores tells: how well they rank, at every threshold.

use serde::{Deserialize, Serialize};
use synod_core::Truth;

/// Figures that need no threshold of ours.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Area under the ROC curve, ties counting half; undefined unless both kinds of windows are there.
    pub auroc: Option<f64>,
    /// Average precision, equal scores taken together; undefined without anomalies.
    pub ap: Option<f64>,
    /// The best F1 that any threshold gives; undefined without anomalies.
    pub best_f1: Option<f64>,
}

/// An integer that orders as the score does: NaN is negative infinity, and both zeros are equal.
pub(super) fn rank_key(score: f32) -> u32 {
    let score = if score.is_nan() {
        f32::NEG_INFINITY
    } else {
        score + 0.0
    };
    let bits = score.to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

/// Ranks the windows of known truth once and reads all figures off; the longer slice's tail is not read.
pub fn curve(scores: &[f32], truth: &[Truth]) -> Curve {
    let mut ranked: Vec<u64> = scores
        .iter()
        .zip(truth)
        .filter(|(_, truth)| **truth != Truth::Unknown)
        .map(|(&score, &truth)| u64::from(rank_key(score)) << 1 | u64::from(truth == Truth::Anomalous))
        .collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    let positives = ranked.iter().filter(|r| **r & 1 == 1).count() as f64;
    let negatives = ranked.len() as f64 - positives;
    let (mut hits, mut misses) = (0.0, 0.0);
    let (mut pairs, mut ap, mut best_f1) = (0.0, 0.0, 0.0f64);
    for equal in ranked.chunk_by(|a, b| a >> 1 == b >> 1) {
        let new_hits = equal.iter().filter(|r| **r & 1 == 1).count() as f64;
        let new_misses = equal.len() as f64 - new_hits;
        pairs += new_misses * (hits + new_hits / 2.0);
        hits += new_hits;
        misses += new_misses;
        ap += new_hits * (hits / (hits + misses));
        best_f1 = best_f1.max(2.0 * hits / (hits + misses + positives));
    }
    let any = positives > 0.0;
    Curve {
        auroc: (any && negatives > 0.0).then(|| pairs / (positives * negatives)),
        ap: any.then(|| ap / positives),
        best_f1: any.then_some(best_f1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::windows;
    use Truth::{Anomalous as A, Healthy as H};
    use proptest::prelude::*;

    fn above(a: f32, b: f32) -> bool {
        (!a.is_nan() && b.is_nan() && a != f32::NEG_INFINITY) || a > b
    }

    fn auroc_by_pairs(scores: &[f32], truth: &[Truth]) -> Option<f64> {
        let of = |kind| (0..scores.len()).filter(move |i| truth[*i] == kind);
        let (mut sum, mut count) = (0.0, 0);
        for a in of(A) {
            for h in of(H) {
                let (a, h) = (scores[a], scores[h]);
                sum += if above(a, h) {
                    1.0
                } else if above(h, a) {
                    0.0
                } else {
                    0.5
                };
                count += 1;
            }
        }
        (count > 0).then(|| sum / count as f64)
    }

    /// Precision and recall with everything at or above `threshold` an alarm.
    fn at(threshold: f32, scores: &[f32], truth: &[Truth]) -> (f64, f64) {
        let alarm = |i: &usize| !above(threshold, scores[*i]);
        let of = |kind| (0..scores.len()).filter(move |i| truth[*i] == kind);
        let (hits, misses) = (of(A).filter(alarm).count(), of(H).filter(alarm).count());
        (
            hits as f64 / (hits + misses) as f64,
            hits as f64 / of(A).count() as f64,
        )
    }

    fn ap_and_best_f1_by_definition(scores: &[f32], truth: &[Truth]) -> Option<(f64, f64)> {
        if !truth.contains(&A) {
            return None;
        }
        let mut thresholds: Vec<f32> = (0..scores.len())
            .filter(|i| truth[*i] != Truth::Unknown)
            .map(|i| scores[i])
            .collect();
        thresholds.sort_by(|a, b| match (above(*a, *b), above(*b, *a)) {
            (true, _) => std::cmp::Ordering::Less,
            (_, true) => std::cmp::Ordering::Greater,
            _ => std::cmp::Ordering::Equal,
        });
        let (mut ap, mut best, mut before) = (0.0, 0.0f64, 0.0);
        for t in thresholds {
            let (precision, recall) = at(t, scores, truth);
            ap += (recall - before) * precision;
            before = recall;
            if precision + recall > 0.0 {
                best = best.max(2.0 * precision * recall / (precision + recall));
            }
        }
        Some((ap, best))
    }

    fn near(a: Option<f64>, b: Option<f64>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() < 1e-12,
            (a, b) => a == b,
        }
    }

    proptest! {
        #[test]
        fn figures_equal_their_definitions((scores, _, truth) in windows(60)) {
            let curve = curve(&scores, &truth);
            prop_assert!(near(curve.auroc, auroc_by_pairs(&scores, &truth)), "{curve:?}");
            let naive = ap_and_best_f1_by_definition(&scores, &truth);
            prop_assert!(near(curve.ap, naive.map(|n| n.0)), "{curve:?} {naive:?}");
            prop_assert!(near(curve.best_f1, naive.map(|n| n.1)), "{curve:?} {naive:?}");
        }
    }

    #[test]
    fn equal_scores_know_nothing() {
        let curve = curve(&[3.0; 4], &[A, H, H, H]);
        assert_eq!(curve.auroc, Some(0.5));
        assert_eq!(curve.ap, Some(0.25));
        assert_eq!(curve.best_f1, Some(0.4));
    }

    #[test]
    fn one_kind_of_window_leaves_no_auroc() {
        assert_eq!(curve(&[1.0, 2.0], &[H, H]), Curve::default());
        let all = curve(&[1.0, 2.0], &[A, A]);
        assert_eq!((all.auroc, all.ap, all.best_f1), (None, Some(1.0), Some(1.0)));
        assert_eq!(curve(&[], &[]), Curve::default());
    }

    #[test]
    fn a_missing_score_ranks_below_every_number() {
        assert_eq!(curve(&[f32::NAN, -1e30], &[H, A]).auroc, Some(1.0));
        assert_eq!(curve(&[f32::NAN, -f32::NAN], &[H, A]).auroc, Some(0.5));
        assert_eq!(curve(&[0.0, -0.0], &[H, A]).auroc, Some(0.5));
    }
}
