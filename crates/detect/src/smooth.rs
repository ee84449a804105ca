//! Averages over time and quantiles.

use serde::{Deserialize, Serialize};

/// An average of what was seen, with weights that fall backwards in time.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Average {
    keep: f64,
    sum: f64,
    weight: f64,
}

impl Average {
    /// An average over about `windows` values; 1 is no average at all.
    pub(crate) fn new(windows: usize) -> Average {
        Average {
            keep: 1.0 - 2.0 / (windows.max(1) as f64 + 1.0),
            sum: 0.0,
            weight: 0.0,
        }
    }

    /// Whether it is one over as many windows as another.
    pub(crate) fn is_like(&self, other: &Average) -> bool {
        self.keep == other.keep
    }

    /// The average including one more value.
    pub(crate) fn push(&mut self, value: f32) -> f32 {
        self.sum = self.keep * self.sum + f64::from(value);
        self.weight = self.keep * self.weight + 1.0;
        (self.sum / self.weight) as f32
    }
}

/// A quantile by linear interpolation between order statistics; 0 of nothing.
pub fn quantile(values: &[f32], share: f64) -> f32 {
    let mut sorted = values.to_vec();
    quantile_of(&mut sorted, share)
}

/// [`quantile`] of values that are put in order.
pub(crate) fn quantile_of(values: &mut [f32], share: f64) -> f32 {
    values.sort_unstable_by(f32::total_cmp);
    let sorted = values;
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_average_is_the_value_itself() {
        let mut average = Average::new(10);
        assert_eq!(average.push(3.0), 3.0);
        assert!(
            (average.push(5.0) - 4.1).abs() < 1e-6,
            "the newer value weighs more"
        );
        let mut none = Average::new(1);
        assert_eq!([none.push(1.0), none.push(7.0)], [1.0, 7.0]);
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(&[4.0, 1.0, 2.0, 3.0], 0.5), 2.5);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
