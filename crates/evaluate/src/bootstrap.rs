//! How far the figures might have come out otherwise.

use crate::error::Result;
use crate::evaluation::{Scored, Settings, evaluate_checked};
use crate::mean::mean_of;
use crate::metrics::Metrics;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use synod_core::Random;

/// The range in which a figure falls at the stated level.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Intervals by the figure's name. A figure that is undefined in more than half of the resamples has none.
pub type Intervals = BTreeMap<String, Interval>;

/// How to resample. The same seed gives the same intervals.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bootstrap {
    /// How many resamples to draw.
    pub resamples: usize,
    /// The share of resamples inside the interval.
    pub level: f64,
    /// The seed of the draws.
    pub seed: u64,
    /// Windows drawn together, because neighbours resemble each other; the square root of the series' length if absent.
    pub block: Option<usize>,
}

impl Default for Bootstrap {
    fn default() -> Bootstrap {
        Bootstrap {
            resamples: 200,
            level: 0.95,
            seed: 0,
            block: None,
        }
    }
}

/// Intervals for one node, by drawing blocks of consecutive windows (the end joins the beginning). A block's edge may cut
/// an event in two, so blocks should be longer than most events. Fails as [`evaluate`](crate::evaluate) does.
pub fn intervals_over_windows(
    scored: &Scored<'_>,
    settings: &Settings,
    bootstrap: &Bootstrap,
) -> Result<Intervals> {
    scored.check()?;
    let n = scored.scores.len();
    if n == 0 {
        return Ok(Intervals::new());
    }
    let block = bootstrap.block.unwrap_or(n.isqrt()).clamp(1, n);
    let mut draws = Random::from_state(bootstrap.seed);
    let mut rows = Vec::with_capacity(n + block);
    let samples = (0..bootstrap.resamples).map(|_| {
        rows.clear();
        while rows.len() < n {
            let start = draws.below(n as u64) as usize;
            rows.extend((start..start + block).map(|i| i % n));
        }
        rows.truncate(n);
        resampled(scored, settings, &rows)
    });
    Ok(intervals(samples.collect(), bootstrap.level))
}

fn resampled(scored: &Scored<'_>, settings: &Settings, rows: &[usize]) -> Metrics {
    fn pick<T: Copy>(from: &[T], rows: &[usize]) -> Vec<T> {
        rows.iter().filter_map(|i| from.get(*i).copied()).collect()
    }
    let sample = Scored {
        scores: &pick(scored.scores, rows),
        alarms: &pick(scored.alarms, rows),
        truth: &pick(scored.truth, rows),
        step: scored.step,
    };
    evaluate_checked(&sample, settings).metrics
}

/// Intervals for the means over nodes, by drawing whole nodes.
pub fn intervals_over_nodes(nodes: &[Metrics], bootstrap: &Bootstrap) -> Intervals {
    if nodes.is_empty() {
        return Intervals::new();
    }
    let mut draws = Random::from_state(bootstrap.seed);
    let samples = (0..bootstrap.resamples).map(|_| {
        let drawn: Vec<usize> = (0..nodes.len())
            .map(|_| draws.below(nodes.len() as u64) as usize)
            .collect();
        mean_of(drawn.iter().filter_map(|i| nodes.get(*i))).0
    });
    intervals(samples.collect(), bootstrap.level)
}

fn intervals(samples: Vec<Metrics>, level: f64) -> Intervals {
    let columns: Vec<_> = samples.iter().map(Metrics::values).collect();
    let mut found = Intervals::new();
    for (k, name) in Metrics::NAMES.iter().enumerate() {
        let values: Vec<f64> = columns.iter().filter_map(|c| c[k]).collect();
        if 2 * values.len() < samples.len() {
            continue;
        }
        found.extend(interval(values, level).map(|interval| (name.to_string(), interval)));
    }
    found
}

/// The range that holds all but equal shares of the values at its ends; none without values.
pub(super) fn interval(mut values: Vec<f64>, level: f64) -> Option<Interval> {
    let tail = (1.0 - level.clamp(0.0, 1.0)) / 2.0;
    values.sort_by(f64::total_cmp);
    let (low, high) = (quantile(&values, tail)?, quantile(&values, 1.0 - tail)?);
    Some(Interval { low, high })
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let low = *sorted.get(at.floor() as usize)?;
    let high = *sorted.get(at.ceil() as usize)?;
    Some(low + (high - low) * at.fract())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::evaluate;
    use synod_core::Truth;

    fn noisy(n: usize) -> (Vec<f32>, Vec<bool>, Vec<Truth>) {
        let mut draws = Random::from_state(5);
        let truth: Vec<Truth> = (0..n)
            .map(|i| {
                if i % 50 < 5 {
                    Truth::Anomalous
                } else {
                    Truth::Healthy
                }
            })
            .collect();
        let lift = |t: &Truth| if *t == Truth::Anomalous { 40.0 } else { 0.0 };
        let scores: Vec<f32> = truth.iter().map(|t| draws.below(100) as f32 + lift(t)).collect();
        let alarms = scores.iter().map(|s| *s > 95.0).collect();
        (scores, alarms, truth)
    }

    #[test]
    fn intervals_hold_the_estimate_and_shrink_with_more_windows() {
        let width = |n: usize| {
            let (scores, alarms, truth) = noisy(n);
            let scored = Scored {
                scores: &scores,
                alarms: &alarms,
                truth: &truth,
                step: 60,
            };
            let auroc = evaluate(&scored, &Settings::default())
                .expect("same lengths")
                .metrics
                .auroc;
            let found = intervals_over_windows(&scored, &Settings::default(), &Bootstrap::default());
            let found = found.expect("same lengths")["auroc"];
            let auroc = auroc.expect("both kinds");
            assert!(found.low < auroc && auroc < found.high, "{found:?} {auroc}");
            found.high - found.low
        };
        assert!(width(4000) < 0.7 * width(500));
    }

    #[test]
    fn the_same_seed_gives_the_same_intervals_and_another_does_not() {
        let nodes: Vec<Metrics> = (0..9)
            .map(|i| Metrics {
                f1: Some(f64::from(i) / 9.0),
                ..Metrics::default()
            })
            .collect();
        let with = |seed| {
            let settings = Bootstrap {
                seed,
                ..Bootstrap::default()
            };
            intervals_over_nodes(&nodes, &settings)
        };
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
        assert!(!with(1).contains_key("auroc"), "no node defines it");
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
