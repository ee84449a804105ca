//! From windows to features: which metrics are used and how, learnt from training windows alone.

mod column;
mod detrend;
mod settings;
mod shared;

use serde::{Deserialize, Serialize};
use synod_telemetry::{Dropped, Frame};

pub use column::{Column, Direction, Scale, direction, growth, mean_and_deviation};
pub use settings::{FeatureSettings, Scaling};

use crate::error::{Error, Result};
use crate::rows::Rows;
use column::Counter;
use detrend::Detrend;

/// What of a node's windows a detector looks at.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// The values themselves.
    Values,
    /// How each value differs from the one a window before.
    Changes,
}

/// How to turn a node's windows into features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Features {
    step: i64,
    compress: bool,
    #[serde(default)]
    detrend: Option<Detrend>,
    columns: Vec<Column>,
    dropped: Vec<(String, String)>,
}

impl Features {
    /// Learns from training windows which metrics to use, which are counters, and their centre and scale.
    pub fn fit(frame: &Frame, settings: &FeatureSettings) -> Result<Features> {
        let width = frame.width();
        let mut dropped: Vec<(String, String)> = frame
            .dropped()
            .iter()
            .map(|d| (d.metric.clone(), d.reason.clone()))
            .collect();
        let mut columns = vec![];
        for (index, name) in frame.metrics().iter().enumerate() {
            let values: Vec<f32> = frame
                .values()
                .iter()
                .skip(index)
                .step_by(width)
                .copied()
                .collect();
            match Column::fit(name, &values, (frame.times(), frame.step()), settings) {
                Ok(column) => columns.push(column),
                Err(reason) => dropped.push((name.clone(), reason)),
            }
        }
        if columns.is_empty() {
            return Err(Error::Node {
                node: frame.node().to_owned(),
                problem: format!(
                    "none of {width} metrics varies in {} training windows, so there is nothing to learn; give it more \
                     or other windows",
                    frame.rows()
                ),
            });
        }
        let (step, compress) = (frame.step(), settings.compress);
        Ok(Features {
            step,
            compress,
            detrend: settings.detrend.map(|seconds| Detrend::over(seconds, step)),
            columns,
            dropped,
        })
    }

    /// The metrics that are used, in the order of the features.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.columns.iter().map(|c| c.name.as_str())
    }

    /// The number of features.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Metrics that are not used, with the reasons.
    pub fn dropped(&self) -> Vec<Dropped> {
        let dropped = |(metric, reason): &(String, String)| Dropped {
            metric: metric.clone(),
            reason: reason.clone(),
        };
        self.dropped.iter().map(dropped).collect()
    }

    /// The windows of a frame, prepared: one row of raw values per window in the order of the features, counters as the
    /// increase since the window before, NaN where there is none. Metrics the frame lacks are missing in every window.
    pub fn prepare(&self, frame: &Frame) -> Prepared {
        let width = self.columns.len();
        let places = self.places(frame.metrics());
        let mut counters: Vec<Counter> = vec![Counter::default(); width];
        let mut values = Vec::with_capacity(frame.rows() * width);
        for row in 0..frame.rows() {
            let (time, row) = (frame.times()[row], frame.row(row));
            for (i, column) in self.columns.iter().enumerate() {
                let raw = places[i].map_or(f32::NAN, |p| row[p]);
                let raw = if raw.is_finite() { raw } else { f32::NAN };
                values.push(match column.counter {
                    Some(direction) => counters[i].increase(raw, direction, time, self.step),
                    None => raw,
                });
            }
        }
        let present: Vec<bool> = frame
            .values()
            .chunks_exact(frame.width().max(1))
            .flat_map(|row| {
                places
                    .iter()
                    .map(|p| p.is_some_and(|p| row[p].is_finite()))
                    .collect::<Vec<_>>()
            })
            .collect();
        Prepared {
            width,
            trend: self.trend(frame.times(), &values),
            values,
            present,
            times: frame.times().to_vec(),
        }
    }

    /// Where each metric stands in a frame. Frames mostly keep the order of training, so the search goes on from the last.
    fn places(&self, metrics: &[String]) -> Vec<Option<usize>> {
        let mut next = 0;
        let mut place = |column: &Column| {
            let (before, after) = metrics.split_at(next.min(metrics.len()));
            let found = after.iter().position(|m| *m == column.name).map(|i| next + i);
            let found = found.or_else(|| before.iter().position(|m| *m == column.name));
            next = found.map_or(next, |i| i + 1);
            found
        };
        self.columns.iter().map(&mut place).collect()
    }

    /// What is taken from every value of the values' view; nothing without detrending.
    fn trend(&self, times: &[i64], values: &[f32]) -> Vec<f32> {
        let (Some(detrend), width) = (self.detrend, self.columns.len()) else {
            return vec![];
        };
        let mut trends = vec![f32::NAN; values.len()];
        for column in 0..width {
            let series: Vec<f32> = values.iter().skip(column).step_by(width).copied().collect();
            let trend = detrend.trend(times, &series, self.step);
            let places = trends.iter_mut().skip(column).step_by(width);
            places.zip(trend).for_each(|(place, t)| *place = t);
        }
        trends
    }

    /// Windows before one that the features of its values depend on.
    pub fn look_back(&self) -> usize {
        self.detrend.map_or(0, |d| d.windows)
    }

    /// The features of prepared windows; what is missing is 0, the centre.
    pub fn view(&self, prepared: &Prepared, view: View) -> Rows {
        let width = self.columns.len();
        let mut rows = Vec::with_capacity(prepared.values.len());
        for row in 0..prepared.len() {
            let now = prepared.row(row);
            let follows = row > 0 && prepared.times[row] - prepared.times[row - 1] <= 2 * self.step;
            let before = if follows {
                Some(prepared.row(row - 1))
            } else {
                None
            };
            for (i, column) in self.columns.iter().enumerate() {
                let feature = match view {
                    View::Values => column.values.apply(now[i] - prepared.trend(row, i)),
                    View::Changes => column.changes.apply(before.map_or(f32::NAN, |b| now[i] - b[i])),
                };
                rows.push(self.squeeze(feature));
            }
        }
        Rows::new(width, rows)
    }

    fn squeeze(&self, feature: f32) -> f32 {
        match feature {
            f if !f.is_finite() => 0.0,
            // Half the time of `ln_1p`, and what it loses near 0 is far below any noise.
            f if self.compress => (1.0 + f.abs()).ln().copysign(f),
            f => f,
        }
    }

    /// A feature of the values' view, back in the metric's own unit, before any trend is added.
    pub fn in_units(&self, index: usize, feature: f32) -> f32 {
        let wide = match self.compress {
            true => feature.signum() * feature.abs().exp_m1(),
            false => feature,
        };
        self.columns[index].values.undo(wide)
    }
}

/// Windows in the order of the features, before scaling.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    width: usize,
    values: Vec<f32>,
    /// As long as the values, or empty.
    trend: Vec<f32>,
    present: Vec<bool>,
    times: Vec<i64>,
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

    /// The values of one window; NaN where there is none.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..(row + 1) * self.width]
    }

    /// What is taken from a value in the values' view: 0 without detrending, NaN where nothing came before.
    pub fn trend(&self, row: usize, column: usize) -> f32 {
        match self.trend.is_empty() {
            true => 0.0,
            false => self.trend[row * self.width + column],
        }
    }

    /// Which metrics were measured in one window.
    pub fn present(&self, row: usize) -> &[bool] {
        &self.present[row * self.width..(row + 1) * self.width]
    }
}
