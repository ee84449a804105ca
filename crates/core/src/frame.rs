//! One node's windows.

use crate::error::{Error, Result};

/// What is known of a window's health.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Truth {
    /// Said to be healthy.
    Healthy,
    /// Said to be anomalous.
    Anomalous,
    /// Nobody said.
    #[default]
    Unknown,
}

impl Truth {
    /// From a label as monitoring writes it: above zero is anomalous, NaN is unknown.
    pub fn from_label(label: f32) -> Truth {
        match label {
            l if l > 0.0 => Truth::Anomalous,
            l if l.is_nan() => Truth::Unknown,
            _ => Truth::Healthy,
        }
    }
}

/// A metric that was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The metric's name.
    pub metric: String,
    /// Why it is not used, as a person would say it.
    pub reason: String,
}

/// One node's windows in time order: a row per window, a column per metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    node: String,
    step: i64,
    times: Vec<i64>,
    metrics: Vec<String>,
    values: Vec<f32>,
    truth: Vec<Truth>,
    dropped: Vec<Dropped>,
}

impl Frame {
    /// A frame of `times.len()` rows, row-major `values`, and no labels. Times are seconds since 1970 and must increase;
    /// `step` is the usual distance between two windows, in seconds.
    pub fn new(
        node: impl Into<String>,
        step: i64,
        times: Vec<i64>,
        metrics: Vec<String>,
        values: Vec<f32>,
    ) -> Result<Frame> {
        let node = node.into();
        if step <= 0 {
            let problem = format!("a step of {step} s makes no windows; give one above zero");
            return Err(Error::Frame { node, problem });
        }
        if values.len() != times.len() * metrics.len() {
            let (values, windows, metrics) = (values.len(), times.len(), metrics.len());
            let problem = format!("{values} values do not fill {windows} windows of {metrics} metrics");
            return Err(Error::Frame { node, problem });
        }
        if let Some(i) = times.windows(2).position(|t| t[1] <= t[0]) {
            let (number, time, before) = (i + 1, times[i + 1], times[i]);
            let problem = format!("window {number} at {time} s does not follow the one at {before} s");
            return Err(Error::Frame { node, problem });
        }
        let truth = vec![Truth::Unknown; times.len()];
        Ok(Frame {
            node,
            step,
            times,
            metrics,
            values,
            truth,
            dropped: Vec::new(),
        })
    }

    /// The same frame with one truth per row.
    pub fn with_truth(mut self, truth: Vec<Truth>) -> Result<Frame> {
        if truth.len() != self.times.len() {
            let problem = format!("{} labels for {} windows", truth.len(), self.times.len());
            let node = self.node;
            return Err(Error::Frame { node, problem });
        }
        self.truth = truth;
        Ok(self)
    }

    /// The same frame, which remembers metrics that its source had and it has not.
    pub fn with_dropped(mut self, dropped: Vec<Dropped>) -> Frame {
        self.dropped = dropped;
        self
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The usual distance between two windows, in seconds.
    pub fn step(&self) -> i64 {
        self.step
    }

    /// The number of windows.
    pub fn rows(&self) -> usize {
        self.times.len()
    }

    /// The number of metrics.
    pub fn width(&self) -> usize {
        self.metrics.len()
    }

    /// The start of every window, in seconds since 1970.
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// The names of the columns.
    pub fn metrics(&self) -> &[String] {
        &self.metrics
    }

    /// All values, row by row; NaN where there is none.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The values of one window.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width()..(row + 1) * self.width()]
    }

    /// What is known of every window.
    pub fn truth(&self) -> &[Truth] {
        &self.truth
    }

    /// Metrics that the source had and the frame has not.
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }

    /// The rows of a range, as a frame of their own.
    ///
    /// # Panics
    /// If the range reaches beyond the last row.
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Frame {
        let width = self.width();
        Frame {
            node: self.node.clone(),
            step: self.step,
            times: self.times[rows.clone()].to_vec(),
            metrics: self.metrics.clone(),
            values: self.values[rows.start * width..rows.end * width].to_vec(),
            truth: self.truth[rows].to_vec(),
            dropped: self.dropped.clone(),
        }
    }

    /// The rows for which `keep` holds, as a frame of their own.
    ///
    /// # Panics
    /// If `keep` has not one entry per row.
    pub fn filter(&self, keep: &[bool]) -> Frame {
        assert_eq!(keep.len(), self.rows(), "one entry per row");
        let kept = || (0..self.rows()).filter(|i| keep[*i]);
        Frame {
            node: self.node.clone(),
            step: self.step,
            times: kept().map(|i| self.times[i]).collect(),
            metrics: self.metrics.clone(),
            values: kept().flat_map(|i| self.row(i).iter().copied()).collect(),
            truth: kept().map(|i| self.truth[i]).collect(),
            dropped: self.dropped.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(times: Vec<i64>) -> Result<Frame> {
        let values = vec![0.0; times.len() * 2];
        Frame::new("n1", 60, times, vec!["a".into(), "b".into()], values)
    }

    #[test]
    fn times_must_increase() {
        assert!(frame(vec![0, 60, 180]).is_ok());
        let error = frame(vec![0, 60, 60]).map(|_| ()).expect_err("equal times");
        assert!(error.to_string().contains("window 2 at 60 s"), "{error}");
    }

    #[test]
    fn a_slice_keeps_rows_and_truth_together() -> Result<()> {
        let truth = vec![Truth::Healthy, Truth::Anomalous, Truth::Unknown];
        let whole = Frame::new("n1", 60, vec![0, 60, 120], vec!["a".into()], vec![1.0, 2.0, 3.0])?
            .with_truth(truth)?;
        let part = whole.slice(1..3);
        assert_eq!(part.row(0), [2.0]);
        assert_eq!(part.truth(), [Truth::Anomalous, Truth::Unknown]);
        assert_eq!(part.times(), [60, 120]);
        Ok(())
    }

    #[test]
    fn labels_above_zero_are_anomalous() {
        assert_eq!(Truth::from_label(2.0), Truth::Anomalous);
        assert_eq!(Truth::from_label(0.0), Truth::Healthy);
        assert_eq!(Truth::from_label(f32::NAN), Truth::Unknown);
    }
}
