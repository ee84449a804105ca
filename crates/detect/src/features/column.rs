//! One metric: whether it is of use, whether it is a counter, its centre and scale.

use serde::{Deserialize, Serialize};

use super::detrend::Detrend;
use super::settings::{FeatureSettings, Scaling};

/// Fewer values than this say nothing of a metric.
const FEWEST: usize = 10;

/// A counter changes this often at least, and this share of its changes have one sign.
const FEWEST_CHANGES: usize = 20;
const ONE_SIGN: f64 = 0.98;

/// One metric as a feature: how it counts, and where its values and its changes lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    pub(super) name: String,
    pub(super) counter: Option<Direction>,
    pub(super) values: Scale,
    pub(super) changes: Scale,
}

/// Which way a counter counts.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// It grows.
    Up,
    /// It shrinks.
    Down,
}

/// Centre and width of a quantity.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    centre: f32,
    width: f32,
}

impl Scale {
    /// A width of 0 is taken to be the smallest there is.
    pub fn new(centre: f64, width: f64) -> Scale {
        Scale {
            centre: centre as f32,
            width: (width as f32).max(f32::MIN_POSITIVE),
        }
    }

    pub(super) fn apply(&self, value: f32) -> f32 {
        (value - self.centre) / self.width
    }

    pub(super) fn undo(&self, feature: f32) -> f32 {
        feature * self.width + self.centre
    }

    /// `None` if the values do not vary.
    fn fit(values: &mut [f32], scaling: Scaling) -> Option<Scale> {
        let (mean, deviation) = mean_and_deviation(values);
        // Sums of equal numbers may differ from them in the last bits.
        if deviation <= 1e-6 * mean.abs() || deviation == 0.0 {
            return None;
        }
        let (centre, width) = match scaling {
            Scaling::Standard => (mean, deviation),
            Scaling::Robust => {
                values.sort_by(f32::total_cmp);
                let at = |q: f64| f64::from(values[((values.len() - 1) as f64 * q).round() as usize]);
                let quartiles = (at(0.75) - at(0.25)) / 1.35;
                // A metric that rests most of the time has no quartiles to speak of.
                (
                    at(0.5),
                    if quartiles > 0.1 * deviation {
                        quartiles
                    } else {
                        deviation
                    },
                )
            }
            Scaling::Minmax => {
                let low = values.iter().copied().fold(f32::INFINITY, f32::min);
                let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                (f64::from(low), f64::from(high - low))
            }
        };
        Some(Scale::new(centre, width))
    }
}

/// The mean of some values and their standard deviation; 0 of nothing.
pub fn mean_and_deviation(values: &[f32]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / count;
    let square = |v: &f32| (f64::from(*v) - mean).powi(2);
    (mean, (values.iter().map(square).sum::<f64>() / count).sqrt())
}

impl Column {
    /// A metric that counts as said, with where its values and its changes lie.
    pub fn new(name: &str, counter: Option<Direction>, values: Scale, changes: Scale) -> Column {
        Column {
            name: name.to_owned(),
            counter,
            values,
            changes,
        }
    }

    /// Learns a metric from its training values, `step` seconds apart, or says why it is of no use.
    pub(super) fn fit(
        name: &str,
        raw: &[f32],
        (times, step): (&[i64], i64),
        settings: &FeatureSettings,
    ) -> Result<Column, String> {
        let known: Vec<f32> = raw.iter().copied().filter(|v| v.is_finite()).collect();
        if known.is_empty() {
            return Err("it has no value in training".to_owned());
        }
        if known.len() < FEWEST {
            return Err(format!("it has only {} values in training", known.len()));
        }
        let counter = if settings.counters {
            direction(&known)
        } else {
            None
        };
        let series = growth(raw, counter, times, step);
        let mut known: Vec<f32> = match settings.detrend {
            Some(seconds) => {
                let trend = Detrend::over(seconds, step).trend(times, &series, step);
                series.iter().zip(trend).map(|(v, t)| v - t).collect()
            }
            None => series.clone(),
        };
        known.retain(|v| v.is_finite());
        let mut changes = changes(&series, times, step);
        changes.retain(|v| v.is_finite());
        let Some(values) = Scale::fit(&mut known, settings.scaling) else {
            let value = known.first().copied().unwrap_or_default();
            return Err(match counter {
                Some(_) => "it is a counter that always grows by the same".to_owned(),
                None if settings.detrend.is_some() => {
                    format!("it is {value} above its rolling median in every training window")
                }
                None => format!("it is {value} in every training window"),
            });
        };
        // A metric whose every value equals the last has values that vary and changes that do not.
        let changes = Scale::fit(&mut changes, settings.scaling).unwrap_or(values);
        Ok(Column {
            name: name.to_owned(),
            counter,
            values,
            changes,
        })
    }
}

/// The values as they are or, of a counter, their growth per step since the value before.
pub fn growth(raw: &[f32], counter: Option<Direction>, times: &[i64], step: i64) -> Vec<f32> {
    let Some(direction) = counter else {
        return raw.to_vec();
    };
    let mut state = Counter::default();
    let pairs = raw.iter().zip(times);
    pairs
        .map(|(value, time)| state.increase(*value, direction, *time, step))
        .collect()
}

/// How each value but the first differs from the one a window before; NaN where that window is not there.
pub fn changes(series: &[f32], times: &[i64], step: i64) -> Vec<f32> {
    let pairs = series.windows(2).zip(times.windows(2));
    let change = |(values, times): (&[f32], &[i64])| match follows(times[0], times[1], step) {
        true => values[1] - values[0],
        false => f32::NAN,
    };
    pairs.map(change).collect()
}

/// Whether a window comes next after another: one between them may be missing.
pub(super) fn follows(before: i64, time: i64, step: i64) -> bool {
    time - before <= 2 * step
}

/// Up or down if almost all changes have one sign.
pub fn direction(known: &[f32]) -> Option<Direction> {
    let (mut up, mut down) = (0usize, 0usize);
    for pair in known.windows(2) {
        match pair[1].total_cmp(&pair[0]) {
            std::cmp::Ordering::Greater => up += 1,
            std::cmp::Ordering::Less => down += 1,
            std::cmp::Ordering::Equal => {}
        }
    }
    let changes = up + down;
    if changes < FEWEST_CHANGES || changes * 50 < known.len() {
        return None;
    }
    match (up as f64 / changes as f64, down as f64 / changes as f64) {
        (share, _) if share >= ONE_SIGN => Some(Direction::Up),
        (_, share) if share >= ONE_SIGN => Some(Direction::Down),
        _ => None,
    }
}

/// The last value of a counter.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counter {
    last: Option<(i64, f32)>,
}

impl Counter {
    /// The growth per step since the last known value; NaN without one, and after a reset.
    pub(super) fn increase(&mut self, value: f32, direction: Direction, time: i64, step: i64) -> f32 {
        if !value.is_finite() {
            return f32::NAN;
        }
        let Some((then, before)) = self.last.replace((time, value)) else {
            return f32::NAN;
        };
        let grown = match direction {
            Direction::Up => value - before,
            Direction::Down => before - value,
        };
        let steps = ((time - then) as f32 / step.max(1) as f32).max(1.0);
        if grown < 0.0 { f32::NAN } else { grown / steps }
    }
}
