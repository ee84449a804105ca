//! Which metrics make a window unusual.

use synod_telemetry::Frame;

use super::{BROKEN, Contribution, NodeModel, SILENCE};
use crate::detector::Detector;
use crate::features::View;

/// Windows before one that is explained.
const BEFORE: usize = 9;

impl NodeModel {
    /// The metrics that make a window unusual, the strongest first, by the members that found it so.
    pub fn explain(&self, frame: &Frame, row: usize) -> Vec<Contribution> {
        // Counters, changes, trends and rests need what was before.
        let before = BEFORE
            .max(self.habits.look_back())
            .saturating_add(self.features.look_back());
        let prepared = self
            .features
            .prepare(&frame.slice(row.saturating_sub(before)..row + 1));
        let last = prepared.len() - 1;
        let width = self.features.width();
        let mut shares = vec![0.0f32; width];
        let mut expected = vec![0.0f32; width];
        let mut heard = 0.0f32;
        for judge in &self.members {
            let rows = self.features.view(&prepared, judge.view);
            let parts = judge.fitted.explain_last(&rows);
            let whole: f32 = parts.shares.iter().sum();
            let weight = judge
                .scores(&judge.fitted.sizes(&rows))
                .last()
                .copied()
                .unwrap_or(0.0)
                .clamp(-4.0, 20.0)
                .exp();
            if whole > 0.0 {
                shares
                    .iter_mut()
                    .zip(&parts.shares)
                    .for_each(|(s, p)| *s += weight * p / whole);
                heard += weight;
            }
            if judge.view == View::Values {
                expected = parts.expected;
            }
        }
        let missing = self.habits.missing(&prepared, last);
        let silent = missing.iter().filter(|m| **m).count();
        if self.silence && silent > 0 {
            let usual = self.habits.usual().max(1);
            let weight = (SILENCE * silent as f32 / usual as f32).min(20.0).exp();
            heard += blame(&mut shares, &missing, weight);
        }
        if self.silence {
            heard += blame(&mut shares, &self.habits.broken_last(&prepared), BROKEN.exp());
        }
        let trend = |c: usize| {
            Some(prepared.trend(last, c))
                .filter(|t| t.is_finite())
                .unwrap_or(0.0)
        };
        let mut contributions: Vec<Contribution> = self
            .features
            .names()
            .enumerate()
            .map(|(c, name)| Contribution {
                metric: name.to_owned(),
                observed: Some(prepared.row(last)[c]).filter(|v| v.is_finite()),
                expected: self.features.in_units(c, expected[c]) + trend(c),
                share: shares[c] / heard.max(f32::MIN_POSITIVE),
            })
            .collect();
        contributions.sort_by(|a, b| b.share.total_cmp(&a.share));
        contributions
    }
}

/// Divides a weight among some metrics; returns it, or nothing if there are none.
fn blame(shares: &mut [f32], metrics: &[bool], weight: f32) -> f32 {
    let count = metrics.iter().filter(|m| **m).count();
    let blamed = shares.iter_mut().zip(metrics).filter(|(_, m)| **m);
    blamed.for_each(|(share, _)| *share += weight / count as f32);
    if count > 0 { weight } else { 0.0 }
}
