//! From windows to features: which metrics are used and how, learnt from training windows alone.

mod column;
mod detrend;
mod prepared;
mod settings;
mod shared;

use serde::{Deserialize, Serialize};
use synod_core::{Dropped, Frame};

pub use column::{Column, Direction, Scale, changes, direction, growth, mean_and_deviation};
pub use prepared::{Past, Prepared};
pub use settings::{FeatureSettings, Scaling};

use crate::error::{Error, Result};
use crate::rows::Rows;
use column::{Counter, follows};
use detrend::{Detrend, Trend};

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
        let (mut past, mut prepared) = (self.begin(), Prepared::default());
        let places = self.places(frame.metrics());
        self.prepare_next(&mut past, frame.times(), frame.values(), &places, &mut prepared);
        prepared
    }

    /// What is remembered before the first window.
    pub fn begin(&self) -> Past {
        let width = self.columns.len();
        Past {
            counters: vec![Counter::default(); width],
            trends: match self.detrend {
                Some(_) => vec![Trend::default(); width],
                None => vec![],
            },
            ..Past::default()
        }
    }

    /// Whether a past is one of these features.
    pub fn suits(&self, past: &Past) -> bool {
        let (width, begun) = (self.columns.len(), self.begin());
        let seen = if past.last.is_some() { width } else { 0 };
        (past.counters.len(), past.trends.len(), past.values.len()) == (width, begun.trends.len(), seen)
    }

    /// Prepares the windows that follow those of the past, in place of what `prepared` holds. The metrics of a row stand where
    /// `places` has them; rows without values are windows of which nothing came.
    pub(crate) fn prepare_next(
        &self,
        past: &mut Past,
        times: &[i64],
        rows: &[f32],
        places: &[Option<usize>],
        prepared: &mut Prepared,
    ) {
        let wide = rows.len() / times.len().max(1);
        prepared.clear(self.columns.len());
        prepared.before = past.last;
        prepared.before_values.extend_from_slice(&past.values);
        prepared.times.extend_from_slice(times);
        for (i, time) in times.iter().enumerate() {
            let row = &rows[i * wide..(i + 1) * wide];
            for (c, column) in self.columns.iter().enumerate() {
                let raw = places[c]
                    .and_then(|p| row.get(p))
                    .copied()
                    .filter(|v| v.is_finite());
                let (counter, raw) = (&mut past.counters[c], raw.unwrap_or(f32::NAN));
                let value = match column.counter {
                    Some(direction) => counter.increase(raw, direction, *time, self.step),
                    None => raw,
                };
                prepared.values.push(value);
                prepared.present.push(!raw.is_nan());
                if let (Some(detrend), Some(trend)) = (self.detrend, past.trends.get_mut(c)) {
                    prepared.trend.push(detrend.next(trend, *time, value, self.step));
                }
            }
        }
        if let Some(last) = times.len().checked_sub(1) {
            past.last = Some(times[last]);
            past.values.clear();
            past.values.extend_from_slice(prepared.row(last));
        }
    }

    /// Where each metric stands in a frame. Frames mostly keep the order of training, so the search goes on from the last.
    pub(crate) fn places(&self, metrics: &[String]) -> Vec<Option<usize>> {
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

    /// Whether a rolling median is taken from values.
    pub(crate) fn detrends(&self) -> bool {
        self.detrend.is_some()
    }

    /// The features of prepared windows; what is missing is 0, the centre.
    pub fn view(&self, prepared: &Prepared, view: View) -> Rows {
        let mut rows = Rows::default();
        self.view_onto(prepared, view, rows.refill(self.columns.len()));
        rows
    }

    /// Puts the features of prepared windows behind what is there.
    pub(crate) fn view_onto(&self, prepared: &Prepared, view: View, out: &mut Vec<f32>) {
        for row in 0..prepared.len() {
            let now = prepared.row(row);
            let before = prepared.before(row);
            let before = before.filter(|(time, _)| follows(*time, prepared.times[row], self.step));
            for (i, column) in self.columns.iter().enumerate() {
                let feature = match view {
                    View::Values => column.values.apply(now[i] - prepared.trend(row, i)),
                    View::Changes => column
                        .changes
                        .apply(before.map_or(f32::NAN, |(_, b)| now[i] - b[i])),
                };
                out.push(self.squeeze(feature));
            }
        }
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
