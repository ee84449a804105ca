//! Which metrics make a window unusual.

use serde::{Deserialize, Serialize};

use super::Scored;
use crate::detector::Detector;
use crate::features::View;
use crate::model::{BROKEN, SILENCE};

/// One metric's part in an alarm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contribution {
    /// The metric.
    pub metric: String,
    /// What was measured; none if it was silent.
    pub observed: Option<f32>,
    /// What would have been usual, given the other metrics.
    pub expected: f32,
    /// The metric's share of the score; all add up to 1.
    pub share: f32,
}

impl Scored<'_> {
    /// The metrics that make a window unusual by itself, the strongest first: this window, or the one so many windows ago;
    /// nothing if that is no longer known.
    pub fn explain(&self, back: usize) -> Vec<Contribution> {
        let Some(kept) = self.recent.ago(back) else {
            return vec![];
        };
        let (model, features) = (self.model, &self.model.features);
        let width = features.width();
        let prepared = self.recent.prepared(back, model.look_back(), width);
        let Some(last) = prepared.len().checked_sub(1) else {
            return vec![];
        };
        let (mut shares, mut expected) = (vec![0.0f32; width], vec![0.0f32; width]);
        let mut heard = 0.0f32;
        for judge in &model.members {
            let rows = features.view(&prepared, judge.view);
            let parts = judge.fitted.explain(&rows);
            let mut size = [0.0];
            judge.fitted.judge(&rows, &mut vec![], &mut size);
            let (_, word) = judge.word(&mut judge.begin(), size[0]);
            let (whole, weight) = (parts.shares.iter().sum::<f32>(), word.clamp(-4.0, 20.0).exp());
            if whole > 0.0 {
                let pairs = shares.iter_mut().zip(&parts.shares);
                pairs.for_each(|(share, part)| *share += weight * part / whole);
                heard += weight;
            }
            if judge.view == View::Values {
                expected = parts.expected;
            }
        }
        if model.silence {
            let missing = model.habits.missing(&prepared, last);
            let silent = missing.iter().filter(|missing| **missing).count();
            let usual = model.habits.usual().max(1);
            let weight = (SILENCE * silent as f32 / usual as f32).min(20.0).exp();
            heard += blame(&mut shares, &missing, weight);
            heard += blame(&mut shares, &kept.broken, BROKEN.exp());
        }
        let trend = |c: usize| {
            Some(prepared.trend(last, c))
                .filter(|t| t.is_finite())
                .unwrap_or(0.0)
        };
        let contribution = |(c, name): (usize, &str)| Contribution {
            metric: name.to_owned(),
            observed: Some(prepared.row(last)[c]).filter(|v| v.is_finite()),
            expected: features.in_units(c, expected[c]) + trend(c),
            share: shares[c] / heard.max(f32::MIN_POSITIVE),
        };
        let mut contributions: Vec<Contribution> = features.names().enumerate().map(contribution).collect();
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
