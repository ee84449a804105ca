//! Which rows are wanted.

use std::ops::{Bound, RangeBounds};

use super::schema::Schema;
use crate::error::Result;

/// Conditions on time, label and columns, all of which a row must meet. NaN meets no condition.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    time: Vec<Limits<i64>>,
    label: Vec<Limits<f64>>,
    columns: Vec<(String, Limits<f32>)>,
}

impl Filter {
    /// Every row.
    pub fn all() -> Filter {
        Filter::default()
    }

    /// Rows whose time lies in a range.
    pub fn time(mut self, range: impl RangeBounds<i64>) -> Filter {
        self.time.push(Limits::of(range));
        self
    }

    /// Rows whose label lies in a range; none in a file without labels.
    pub fn label(mut self, range: impl RangeBounds<f64>) -> Filter {
        self.label.push(Limits::of(range));
        self
    }

    /// Rows whose value in the named column lies in a range.
    pub fn column(mut self, name: impl Into<String>, range: impl RangeBounds<f32>) -> Filter {
        self.columns.push((name.into(), Limits::of(range)));
        self
    }

    /// The same with column indices in place of names.
    pub(super) fn resolve(&self, schema: &Schema) -> Result<Resolved> {
        let columns = self
            .columns
            .iter()
            .map(|(name, limits)| Ok((schema.column(name)?, *limits)));
        Ok(Resolved {
            time: self.time.clone(),
            label: self.label.clone(),
            columns: columns.collect::<Result<_>>()?,
        })
    }
}

pub(super) struct Resolved {
    pub(super) time: Vec<Limits<i64>>,
    pub(super) label: Vec<Limits<f64>>,
    pub(super) columns: Vec<(usize, Limits<f32>)>,
}

/// A range that can be asked whether it holds a value, or may hold one between two others.
#[derive(Copy, Clone, Debug)]
pub(super) struct Limits<T> {
    low: Bound<T>,
    high: Bound<T>,
}

impl<T: PartialOrd + Copy> Limits<T> {
    pub(super) fn of(range: impl RangeBounds<T>) -> Limits<T> {
        Limits {
            low: range.start_bound().cloned(),
            high: range.end_bound().cloned(),
        }
    }

    pub(super) fn holds(&self, value: T) -> bool {
        // Comparisons are written so that NaN, on either side, is never held.
        self.above_low(value) && self.below_high(value) && value.partial_cmp(&value).is_some()
    }

    /// Whether a value between `min` and `max` may be held.
    pub(super) fn may_hold(&self, min: T, max: T) -> bool {
        min <= max && self.above_low(max) && self.below_high(min)
    }

    fn above_low(&self, value: T) -> bool {
        match self.low {
            Bound::Included(low) => value >= low,
            Bound::Excluded(low) => value > low,
            Bound::Unbounded => true,
        }
    }

    fn below_high(&self, value: T) -> bool {
        match self.high {
            Bound::Included(high) => value <= high,
            Bound::Excluded(high) => value < high,
            Bound::Unbounded => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_they_say_and_never_nan() {
        let half_open = Limits::of(1.0f32..2.0);
        assert!(half_open.holds(1.0) && !half_open.holds(2.0) && !half_open.holds(f32::NAN));
        let open = Limits::<f32>::of(..);
        assert!(open.holds(f32::INFINITY) && !open.holds(f32::NAN));
        assert!(!Limits::of(f32::NAN..).holds(0.0));
    }

    #[test]
    fn a_range_may_hold_a_value_of_an_interval_exactly_if_they_meet() {
        let range = Limits::of(10i64..20);
        assert!(range.may_hold(0, 10) && range.may_hold(19, 30) && range.may_hold(0, 30));
        assert!(!range.may_hold(0, 9) && !range.may_hold(20, 30));
        let empty = (f32::INFINITY, f32::NEG_INFINITY);
        assert!(!Limits::<f32>::of(..).may_hold(empty.0, empty.1));
    }
}
