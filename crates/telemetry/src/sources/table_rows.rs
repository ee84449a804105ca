//! The rows of a table on their way to a frame.

use std::cmp::Reverse;

use synod_data::readers::Batch;

use crate::Truth;

/// What DCGM writes where it has no value, as it comes out of a column of `f32`.
const BLANK: f32 = 9_223_372_036_854_775_794.0;

/// Rows with their times and labels.
pub(super) struct Rows {
    width: usize,
    pub(super) times: Vec<i64>,
    labels: Vec<f32>,
    pub(super) values: Vec<f32>,
    rows: usize,
}

impl Rows {
    pub(super) fn new(width: usize) -> Rows {
        Rows {
            width,
            times: Vec::new(),
            labels: Vec::new(),
            values: Vec::new(),
            rows: 0,
        }
    }

    pub(super) fn append(&mut self, batch: &Batch) {
        self.values.extend_from_slice(&batch.values);
        self.times.extend_from_slice(&batch.times);
        self.labels.extend_from_slice(&batch.labels);
        self.rows += batch.rows();
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// What is known of each row; nothing if there was no label column.
    pub(super) fn truth(&self) -> Vec<Truth> {
        match self.labels.is_empty() {
            true => vec![Truth::Unknown; self.rows],
            false => self
                .labels
                .iter()
                .map(|&label| Truth::from_label(label))
                .collect(),
        }
    }

    /// Makes infinite values and blanks missing.
    pub(super) fn without_sentinels(&mut self, notes: &mut Vec<String>) {
        let mut replaced = 0u64;
        for value in &mut self.values {
            if value.is_infinite() || *value == BLANK {
                *value = f32::NAN;
                replaced += 1;
            }
        }
        if replaced > 0 {
            notes.push(format!(
                "{replaced} infinite or blank values are taken as missing"
            ));
        }
    }

    /// Makes seconds of times. Exact times are nanoseconds; others are in the unit in which they lie between 1973 and
    /// 5138, or else seconds.
    pub(super) fn times_to_seconds(&mut self, exact: bool) {
        let greatest = self
            .times
            .iter()
            .filter(|&&t| t != i64::MIN)
            .map(|t| t.unsigned_abs())
            .max();
        let unit = match greatest.unwrap_or(0) {
            _ if exact => 1_000_000_000,
            0..100_000_000_000 => 1,
            100_000_000_000..100_000_000_000_000 => 1_000,
            100_000_000_000_000..100_000_000_000_000_000 => 1_000_000,
            _ => 1_000_000_000,
        };
        for time in self.times.iter_mut().filter(|t| **t != i64::MIN) {
            *time = time.div_euclid(unit);
        }
    }

    /// Puts rows in the order of their times, one row per time, none without a time.
    pub(super) fn sort(&mut self, notes: &mut Vec<String>) {
        let mut order: Vec<usize> = (0..self.rows).filter(|&i| self.times[i] != i64::MIN).collect();
        let timeless = self.rows - order.len();
        let unsorted = order
            .windows(2)
            .filter(|w| self.times[w[1]] < self.times[w[0]])
            .count();
        order.sort_by_key(|&i| (self.times[i], Reverse(self.present(i)), i));
        order.dedup_by_key(|i| self.times[*i]);
        let repeated = self.rows - timeless - order.len();
        for (count, what) in [
            (
                unsorted,
                "rows came before the row they follow in the file; all were sorted by time",
            ),
            (
                repeated,
                "rows repeat the time of another; of each time the fullest row was kept",
            ),
            (timeless, "rows have no time and were left out"),
        ] {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        }
        if unsorted > 0 || order.len() < self.rows {
            self.keep(&order);
        }
    }

    /// The median distance of two rows; none if there is only one.
    pub(super) fn median_step(&self) -> Option<i64> {
        let mut steps: Vec<i64> = self.times.windows(2).map(|t| t[1].saturating_sub(t[0])).collect();
        let middle = steps.len() / 2;
        (!steps.is_empty()).then(|| *steps.select_nth_unstable(middle).1)
    }

    fn present(&self, row: usize) -> usize {
        let values = &self.values[row * self.width..(row + 1) * self.width];
        values.iter().filter(|value| !value.is_nan()).count()
    }

    fn keep(&mut self, order: &[usize]) {
        let width = self.width;
        let values = order
            .iter()
            .flat_map(|&i| &self.values[i * width..(i + 1) * width]);
        self.values = values.copied().collect();
        self.times = order.iter().map(|&i| self.times[i]).collect();
        if !self.labels.is_empty() {
            self.labels = order.iter().map(|&i| self.labels[i]).collect();
        }
        self.rows = order.len();
    }
}
