//! Scores above a level come in runs; an alarm is a run, not a window.

use std::ops::Range;

use super::ONE_EVENT;

/// Seconds in the month of a budget.
const MONTH: f64 = 30.0 * 86_400.0;

/// Windows in a month.
pub(super) fn per_month(step: i64) -> f64 {
    MONTH / step.max(1) as f64
}

/// Windows of quiet that part two runs.
pub(super) fn gap(step: i64) -> usize {
    (ONE_EVENT / step.max(1)).max(1) as usize
}

/// Runs of scores above a level, those no more than `gap` windows apart taken as one.
pub(super) fn above(scores: &[f32], level: f32, gap: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = vec![];
    for (i, _) in scores.iter().enumerate().filter(|(_, s)| **s > level) {
        match runs.last_mut() {
            Some(last) if i - last.end < gap => last.end = i + 1,
            _ => runs.push(i..i + 1),
        }
    }
    runs
}

/// How many windows of a run are above the level, on average; 1 if there is none.
pub(super) fn mean_length(scores: &[f32], level: f32, gap: usize) -> f64 {
    let windows = scores.iter().filter(|s| **s > level).count();
    match above(scores, level, gap).len() {
        0 => 1.0,
        runs => windows as f64 / runs as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_closer_than_the_gap_are_one() {
        let scores = [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, f32::NAN];
        assert_eq!(above(&scores, 0.5, 1), vec![1..3, 4..5, 8..9]);
        assert_eq!(above(&scores, 0.5, 2), vec![1..5, 8..9]);
        assert_eq!(mean_length(&scores, 0.5, 2), 2.0);
        assert_eq!(mean_length(&[], 0.5, 2), 1.0);
    }

    #[test]
    fn a_month_of_quarter_hours() {
        assert_eq!(per_month(900), 2880.0);
        assert_eq!((gap(900), gap(60), gap(86_400)), (4, 60, 1));
    }
}
