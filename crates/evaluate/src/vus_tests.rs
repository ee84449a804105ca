//! VUS-PR against the slow form of its definition.

use super::*;
use crate::windows::windows;
use Truth::{Anomalous as A, Healthy as H, Unknown as U};
use proptest::prelude::*;

/// Each threshold and each width on its own, windows marked one by one. Takes known windows only.
fn by_definition(scores: &[f32], truth: &[Truth], window: usize) -> f64 {
    let n = scores.len();
    let segments = true_segments(truth);
    let score = |i: usize| {
        if scores[i].is_nan() {
            f32::NEG_INFINITY
        } else {
            scores[i]
        }
    };
    let mut sorted: Vec<f32> = (0..n).map(score).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut volume = 0.0;
    for width in 0..=window {
        let half = width / 2;
        let mut weight = vec![0.0f64; n];
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for s in &segments {
            let (from, to) = (s.start.saturating_sub(half), (s.end + half).min(n));
            for (i, weight) in weight.iter_mut().enumerate().take(to).skip(from) {
                let distance = if i < s.start {
                    s.start - i
                } else {
                    (i + 1).saturating_sub(s.end)
                };
                *weight += if distance == 0 {
                    1.0
                } else {
                    (1.0 - distance as f64 / width as f64).sqrt()
                };
            }
            match ranges.last_mut() {
                Some(last) if last.1 > from => last.1 = to,
                _ => ranges.push((from, to)),
            }
        }
        let weight: Vec<f64> = weight.into_iter().map(|w| w.min(1.0)).collect();
        let positives = truth.iter().filter(|t| **t == A).count() as f64;
        let mut before = 0.0;
        for k in 0..250 {
            let index = if k == 249 {
                n - 1
            } else {
                (k as f64 * ((n - 1) as f64 / 249.0)) as usize
            };
            let alarm: Vec<bool> = (0..n).map(|i| score(i) >= sorted[index]).collect();
            let hit: f64 = (0..n).filter(|i| alarm[*i]).map(|i| weight[i]).sum();
            let labels: f64 = (0..n)
                .filter(|i| alarm[*i] || truth[*i] == A)
                .map(|i| weight[i])
                .sum();
            let touched = ranges
                .iter()
                .filter(|(from, to)| alarm[*from..*to].contains(&true))
                .count();
            let recall = (hit / ((positives + labels) / 2.0)).min(1.0) * touched as f64 / ranges.len() as f64;
            volume += (recall - before) * hit / alarm.iter().filter(|a| **a).count() as f64;
            before = recall;
        }
    }
    volume / (window + 1) as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_fast_form_equals_the_definition((scores, _, truth) in windows(80), window in 0usize..20) {
        let truth: Vec<Truth> = truth.into_iter().map(|t| if t == U { H } else { t }).collect();
        let fast = vus_pr(&scores, &truth, window);
        if truth.contains(&A) && truth.contains(&H) {
            let slow = by_definition(&scores, &truth, window);
            prop_assert!((fast.unwrap_or(f64::NAN) - slow).abs() < 1e-9, "{fast:?} {slow}");
        } else {
            prop_assert_eq!(fast, None);
        }
    }

    #[test]
    fn unknown_windows_at_the_ends_change_nothing((scores, _, truth) in windows(40), window in 0usize..20) {
        let truth: Vec<Truth> = truth.into_iter().map(|t| if t == U { H } else { t }).collect();
        let pad = |n: usize| std::iter::repeat_n(9.0f32, n);
        let padded: Vec<f32> = pad(5).chain(scores.iter().copied()).chain(pad(3)).collect();
        let mut longer = vec![U; 5];
        longer.extend(&truth);
        longer.extend([U; 3]);
        prop_assert_eq!(vus_pr(&padded, &longer, window), vus_pr(&scores, &truth, window));
    }
}

#[test]
fn an_alarm_beside_the_anomaly_earns_something_only_with_a_buffer() {
    let mut truth = vec![H; 40];
    truth[20..24].fill(A);
    let mut scores = vec![0.0; 40];
    scores[18..20].fill(1.0);
    let plain = vus_pr(&scores, &truth, 0).unwrap_or(f64::NAN);
    let buffered = vus_pr(&scores, &truth, 8).unwrap_or(f64::NAN);
    assert!(plain < 0.11 && buffered > 2.0 * plain, "{plain} {buffered}");
}

#[test]
fn perfect_scores_reach_one_without_a_buffer() {
    let truth = [H, H, A, A, H, H, H, H];
    let scores = truth.map(|t| f32::from(u8::from(t == A)));
    assert_eq!(vus_pr(&scores, &truth, 0), Some(1.0));
}

#[test]
fn an_absurd_window_is_bounded() {
    assert!(vus_pr(&[1.0, 0.0, 0.5], &[A, H, H], usize::MAX).is_some());
}
