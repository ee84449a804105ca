//! A metric without its slow drift: values less the median of the windows before.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::rolling::Rolling;

/// How far back the median looks.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Detrend {
    pub(super) windows: usize,
}

/// The values of one metric that the next median is taken of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Trend {
    held: VecDeque<i64>,
    latest: Rolling,
}

impl Detrend {
    /// A look back of so many seconds, in windows of `step` seconds, at least one.
    pub(super) fn over(seconds: i64, step: i64) -> Detrend {
        let windows = seconds.max(0) / step.max(1);
        Detrend {
            windows: usize::try_from(windows).unwrap_or(usize::MAX).max(1),
        }
    }

    /// The median of the values of the last windows strictly before `time`; NaN where there are none. Windows are told by
    /// their times, so one that is not there takes its place among the last all the same. Takes in the value of this one.
    pub(super) fn next(&self, trend: &mut Trend, time: i64, value: f32, step: i64) -> f32 {
        let reach = i64::try_from(self.windows)
            .unwrap_or(i64::MAX)
            .saturating_mul(step.max(1));
        let oldest = time.saturating_sub(reach);
        let Trend { held, latest } = trend;
        while held.len() > self.windows || held.front().is_some_and(|t| *t < oldest) {
            held.pop_front();
            latest.pop();
        }
        let median = latest.median().unwrap_or(f32::NAN);
        if value.is_finite() {
            latest.push(value);
            held.push_back(time);
        }
        median
    }

    /// The medians at every window of a series.
    pub(super) fn trend(&self, times: &[i64], values: &[f32], step: i64) -> Vec<f32> {
        let mut trend = Trend::default();
        let pairs = times.iter().zip(values);
        pairs
            .map(|(time, value)| self.next(&mut trend, *time, *value, step))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By sorting, window after window.
    fn naive(times: &[i64], values: &[f32], windows: i64, step: i64) -> Vec<f32> {
        let one = |row: usize| {
            let before = (0..row).filter(|b| times[row] - times[*b] <= windows * step);
            let mut known: Vec<f32> = before.map(|b| values[b]).filter(|v| v.is_finite()).collect();
            known.sort_by(f32::total_cmp);
            match known.len() {
                0 => f32::NAN,
                n if n % 2 == 1 => known[n / 2],
                n => known[n / 2 - 1] + (known[n / 2] - known[n / 2 - 1]) / 2.0,
            }
        };
        (0..values.len()).map(one).collect()
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|v| v.to_bits()).collect()
    }

    proptest! {
        #[test]
        fn it_is_the_median_of_the_windows_before_with_gaps_and_missing_values(
            rows in proptest::collection::vec((1i64..5, -20i32..20), 0..150),
            windows in 1usize..12,
        ) {
            let mut time = 0;
            let (mut times, mut values) = (vec![], vec![]);
            for (steps, value) in rows {
                // Most windows follow one another.
                time += 60 * if steps < 4 { 1 } else { 5 };
                times.push(time);
                values.push(if value == 0 { f32::NAN } else { value as f32 });
            }
            let found = Detrend { windows }.trend(&times, &values, 60);
            prop_assert_eq!(bits(&found), bits(&naive(&times, &values, windows as i64, 60)));
        }
    }

    #[test]
    fn the_future_and_the_window_itself_make_no_difference() {
        let times: Vec<i64> = (0..50).map(|t| t * 900).collect();
        let values: Vec<f32> = (0..50).map(|t| (t * 7 % 11) as f32).collect();
        let mut other = values.clone();
        other[30..].fill(99.0);
        let detrend = Detrend::over(86_400, 900);
        assert_eq!(detrend.windows, 96);
        let (a, b) = (
            detrend.trend(&times, &values, 900),
            detrend.trend(&times, &other, 900),
        );
        assert_eq!(bits(&a[..=30]), bits(&b[..=30]));
    }

    #[test]
    fn a_daily_drift_is_taken_away_and_a_jump_is_not() {
        let times: Vec<i64> = (0..400).map(|t| t * 900).collect();
        let values: Vec<f32> = (0..400)
            .map(|t| 0.01 * t as f32 + if t == 300 { 50.0 } else { 0.0 })
            .collect();
        let trend = Detrend { windows: 96 }.trend(&times, &values, 900);
        let rest = |row: usize| values[row] - trend[row];
        assert!(
            (rest(200) - 0.485).abs() < 1e-3,
            "half a day behind: {}",
            rest(200)
        );
        assert!(
            (rest(350) - 0.49).abs() < 0.02,
            "the jump is gone from the median: {}",
            rest(350)
        );
        assert!(rest(300) > 50.0);
    }

    #[test]
    fn odd_settings_are_at_least_one_window() {
        for (seconds, step) in [(-5, 900), (0, 0), (60, 900), (i64::MAX, i64::MIN)] {
            let detrend = Detrend::over(seconds, step);
            assert!(detrend.windows >= 1);
            assert_eq!(detrend.trend(&[0, 900], &[1.0, 2.0], step).len(), 2);
        }
    }
}
