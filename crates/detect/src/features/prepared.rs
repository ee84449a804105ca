//! Windows on their way to features, and what features remember from one window to the next.

use serde::{Deserialize, Serialize};

use super::column::Counter;
use super::detrend::Trend;

/// What features remember of the windows before: all that the features of the next one depend on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Past {
    pub(super) counters: Vec<Counter>,
    pub(super) trends: Vec<Trend>,
    pub(super) last: Option<i64>,
    pub(super) values: Vec<f32>,
}

impl Past {
    /// The time of the last window.
    pub fn last(&self) -> Option<i64> {
        self.last
    }
}

/// Windows in the order of the features, before scaling.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepared {
    pub(super) width: usize,
    pub(super) values: Vec<f32>,
    /// As long as the values, or empty.
    pub(super) trend: Vec<f32>,
    pub(super) present: Vec<bool>,
    pub(super) times: Vec<i64>,
    /// The window before the first, if there is one.
    pub(super) before: Option<i64>,
    pub(super) before_values: Vec<f32>,
}

impl Prepared {
    /// The number of windows.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there is no window.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The start of every window.
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// The values of one window; NaN where there is none.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..(row + 1) * self.width]
    }

    /// The window before one, if it is known: its time and its values.
    pub(super) fn before(&self, row: usize) -> Option<(i64, &[f32])> {
        match row.checked_sub(1) {
            Some(before) => Some((self.times[before], self.row(before))),
            None => self.before.map(|time| (time, self.before_values.as_slice())),
        }
    }

    /// What is taken from a value in the values' view: 0 without detrending, NaN where nothing came before.
    pub fn trend(&self, row: usize, column: usize) -> f32 {
        match self.trend.is_empty() {
            true => 0.0,
            false => self.trend[row * self.width + column],
        }
    }

    /// What is taken from all values of a window; nothing without detrending.
    pub(crate) fn trends(&self, row: usize) -> &[f32] {
        match self.trend.is_empty() {
            true => &[],
            false => &self.trend[row * self.width..(row + 1) * self.width],
        }
    }

    /// No window yet, after one that is known.
    pub(crate) fn following(width: usize, before: Option<(i64, &[f32])>) -> Prepared {
        Prepared {
            width,
            before: before.map(|(time, _)| time),
            before_values: before.map_or(vec![], |(_, values)| values.to_vec()),
            ..Prepared::default()
        }
    }

    /// Adds a window as it was prepared before.
    pub(crate) fn push(&mut self, time: i64, values: &[f32], trend: &[f32], present: &[bool]) {
        self.times.push(time);
        self.values.extend_from_slice(values);
        self.trend.extend_from_slice(trend);
        self.present.extend_from_slice(present);
    }

    /// Which metrics were measured in one window.
    pub fn present(&self, row: usize) -> &[bool] {
        &self.present[row * self.width..(row + 1) * self.width]
    }

    /// Forgets all windows and keeps its room.
    pub(super) fn clear(&mut self, width: usize) {
        self.width = width;
        self.values.clear();
        self.trend.clear();
        self.present.clear();
        self.times.clear();
        self.before = None;
        self.before_values.clear();
    }
}
