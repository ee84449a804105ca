//! VUS-PR: the volume under the precision-recall surface (Paparrizos et al., VLDB 2022).
//!
//! Around every anomaly lies a buffer whose width grows from 0 to `window`; a window in the buffer at distance `d` is
//! anomalous by `sqrt(1 - d / width)`, up to half the width away. For each width the range-based average precision is taken
//! at 250 thresholds, and VUS-PR is its mean. The thresholds, the recall (whose denominator is the mean of the plain and the
//! buffered anomalies, and which is scaled by the share of anomalies touched at all) and the joining of anomalies whose
//! buffers meet are those of the authors' public code, so that figures can be compared with published ones.

use crate::curve::rank_key;
use crate::events::true_segments;
use std::ops::Range;
use synod_core::Truth;

const THRESHOLDS: usize = 250;

/// Keeps a careless setting from running for hours.
const LONGEST_BUFFER: usize = 10_000;

/// VUS-PR with buffers up to `window` windows wide (10,000 at most), in O(n log n + n · window). Undefined unless windows of both kinds are
/// there. Unknown windows keep their place in time and count for nothing.
pub fn vus_pr(scores: &[f32], truth: &[Truth], window: usize) -> Option<f64> {
    let segments = true_segments(truth);
    if segments.is_empty() || !truth.contains(&Truth::Healthy) {
        return None;
    }
    let window = window.min(LONGEST_BUFFER);
    let ranks = ranks(scores, truth);
    let mut alarms = [0.0; THRESHOLDS];
    let mut hits = [0.0; THRESHOLDS];
    for (&rank, &truth) in ranks.iter().zip(truth) {
        if let Some(count) = alarms.get_mut(rank) {
            *count += 1.0;
            hits[rank] += f64::from(u8::from(truth == Truth::Anomalous));
        }
    }
    accumulate(&mut alarms);
    accumulate(&mut hits);
    let buffer = buffer(&ranks, truth, &segments, window / 2);
    let mut reach = Reach::new(&ranks, segments);
    let mut sum = 0.0;
    for width in 0..=window {
        let extra = buffered(&buffer, width);
        let touched = reach.touched(width / 2);
        sum += average_precision(&alarms, &hits, &extra, &touched);
    }
    Some(sum / (window + 1) as f64)
}

fn accumulate(counts: &mut [f64; THRESHOLDS]) {
    let mut sum = 0.0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
}

/// For each window the first threshold, from the highest, at which it is an alarm; `THRESHOLDS` if its truth is unknown.
fn ranks(scores: &[f32], truth: &[Truth]) -> Vec<usize> {
    let known = |t: &Truth| *t != Truth::Unknown;
    let pairs = || scores.iter().zip(truth);
    let mut sorted: Vec<u32> = pairs()
        .filter(|(_, t)| known(t))
        .map(|(s, _)| rank_key(*s))
        .collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let last = sorted.len().saturating_sub(1);
    let spacing = last as f64 / (THRESHOLDS - 1) as f64;
    let at = |k: usize| {
        if k == THRESHOLDS - 1 {
            last
        } else {
            (k as f64 * spacing) as usize
        }
    };
    let thresholds: Vec<u32> = (0..THRESHOLDS)
        .filter_map(|k| sorted.get(at(k)).copied())
        .collect();
    pairs()
        .map(|(score, truth)| {
            let key = rank_key(*score);
            if known(truth) {
                thresholds.partition_point(|t| key < *t)
            } else {
                THRESHOLDS
            }
        })
        .collect()
}

/// A healthy window near an anomaly.
struct Buffered {
    rank: usize,
    nearest: usize,
    second: usize,
}

fn buffer(ranks: &[usize], truth: &[Truth], segments: &[Range<usize>], half: usize) -> Vec<Buffered> {
    let mut found = Vec::new();
    let mut next = 0;
    for (i, (&rank, &truth)) in ranks.iter().zip(truth).enumerate() {
        while segments.get(next).is_some_and(|s| s.end <= i) {
            next += 1;
        }
        if truth != Truth::Healthy {
            continue;
        }
        let left = |back: usize| {
            next.checked_sub(back)
                .and_then(|k| segments.get(k))
                .map(|s| i + 1 - s.end)
        };
        let right = |on: usize| segments.get(next + on).map(|s| s.start - i);
        let mut distances = [left(1), left(2), right(0), right(1)].map(|d| d.unwrap_or(usize::MAX));
        distances.sort_unstable();
        let [nearest, second, ..] = distances;
        if nearest <= half {
            found.push(Buffered {
                rank,
                nearest,
                second,
            });
        }
    }
    found
}

/// The anomalous share of the buffer among the alarms of each threshold.
fn buffered(buffer: &[Buffered], width: usize) -> [f64; THRESHOLDS] {
    let half = width / 2;
    let share: Vec<f64> = (0..=half)
        .map(|d| {
            if width == 0 {
                0.0
            } else {
                (1.0 - d as f64 / width as f64).sqrt()
            }
        })
        .collect();
    let mut sums = [0.0; THRESHOLDS];
    for near in buffer {
        if let (Some(share), Some(sum)) = (share.get(near.nearest), sums.get_mut(near.rank)) {
            // Each share is at least sqrt(1/2), so two of them exceed the whole at which they are cut.
            *sum += if near.second <= half { 1.0 } else { *share };
        }
    }
    accumulate(&mut sums);
    sums
}

/// Anomalies with buffers that grow, and the first threshold at which each is touched.
struct Reach<'a> {
    ranks: &'a [usize],
    segments: Vec<Range<usize>>,
    first: Vec<usize>,
    half: usize,
}

impl<'a> Reach<'a> {
    fn new(ranks: &'a [usize], segments: Vec<Range<usize>>) -> Reach<'a> {
        let lowest = |s: &Range<usize>| ranks.get(s.clone()).and_then(|r| r.iter().min().copied());
        let first = segments.iter().map(|s| lowest(s).unwrap_or(THRESHOLDS)).collect();
        Reach {
            ranks,
            segments,
            first,
            half: 0,
        }
    }

    fn grow(&mut self) {
        self.half += 1;
        for (segment, first) in self.segments.iter().zip(&mut self.first) {
            let left = segment.start.checked_sub(self.half);
            let right = Some(segment.end - 1 + self.half);
            for i in [left, right].into_iter().flatten() {
                *first = self.ranks.get(i).map_or(*first, |r| (*r).min(*first));
            }
        }
    }

    /// The share of anomalies, joined where buffers of `half` meet, that the alarms of each threshold touch.
    fn touched(&mut self, half: usize) -> [f64; THRESHOLDS] {
        while self.half < half {
            self.grow();
        }
        let mut touched = [0.0; THRESHOLDS];
        let mut groups = 0.0;
        let mut first = THRESHOLDS;
        for (i, segment) in self.segments.iter().enumerate() {
            first = first.min(self.first[i]);
            let joins = |next: &Range<usize>| segment.end - 1 + 2 * half >= next.start;
            if self.segments.get(i + 1).is_some_and(joins) {
                continue;
            }
            groups += 1.0;
            if let Some(count) = touched.get_mut(first) {
                *count += 1.0;
            }
            first = THRESHOLDS;
        }
        accumulate(&mut touched);
        touched.map(|count| count / groups)
    }
}

fn average_precision(
    alarms: &[f64; THRESHOLDS],
    hits: &[f64; THRESHOLDS],
    extra: &[f64; THRESHOLDS],
    touched: &[f64; THRESHOLDS],
) -> f64 {
    let positives = hits[THRESHOLDS - 1];
    let (mut sum, mut before) = (0.0, 0.0);
    for k in 0..THRESHOLDS {
        let found = hits[k] + extra[k];
        let recall = (found / (positives + extra[k] / 2.0)).min(1.0) * touched[k];
        sum += (recall - before) * found / alarms[k];
        before = recall;
    }
    sum
}

#[cfg(test)]
#[path = "vus_tests.rs"]
mod tests;
