//! The latest values, in order of time and of size at once.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// A window of values that come and go in order of time, always sorted: a binary search and a move per value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rolling {
    arrived: VecDeque<f32>,
    sorted: Vec<f32>,
}

impl Rolling {
    /// Takes in a value; NaN is none.
    pub(crate) fn push(&mut self, value: f32) {
        if value.is_nan() {
            return;
        }
        let at = self.sorted.partition_point(|v| v.total_cmp(&value).is_lt());
        self.sorted.insert(at, value);
        self.arrived.push_back(value);
    }

    /// Lets the oldest value go.
    pub(crate) fn pop(&mut self) {
        let Some(oldest) = self.arrived.pop_front() else {
            return;
        };
        let at = self.sorted.partition_point(|v| v.total_cmp(&oldest).is_lt());
        if at < self.sorted.len() {
            self.sorted.remove(at);
        }
    }

    /// The middle value, or the mean of the two in the middle; none of nothing.
    pub(crate) fn median(&self) -> Option<f32> {
        let half = self.sorted.len() / 2;
        let upper = *self.sorted.get(half)?;
        match (self.sorted.len() % 2, half.checked_sub(1)) {
            (0, Some(below)) => self.sorted.get(below).map(|lower| lower + (upper - lower) / 2.0),
            _ => Some(upper),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f32]) -> Rolling {
        let mut rolling = Rolling::default();
        values.iter().for_each(|v| rolling.push(*v));
        rolling
    }

    fn naive(values: &[f32]) -> Option<f32> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f32::total_cmp);
        match sorted.len() {
            0 => None,
            n if n % 2 == 1 => Some(sorted[n / 2]),
            n => Some(sorted[n / 2 - 1] + (sorted[n / 2] - sorted[n / 2 - 1]) / 2.0),
        }
    }

    proptest! {
        #[test]
        fn its_median_is_that_of_the_latest_values(
            values in proptest::collection::vec(-9i8..9, 0..200),
            width in 1usize..20,
        ) {
            let values: Vec<f32> = values.into_iter().map(f32::from).collect();
            let mut rolling = Rolling::default();
            for (i, value) in values.iter().enumerate() {
                rolling.push(*value);
                if rolling.arrived.len() > width {
                    rolling.pop();
                }
                let from = (i + 1).saturating_sub(width);
                prop_assert_eq!(rolling.median(), naive(&values[from..=i]));
                prop_assert_eq!(&rolling, &of(&values[from..=i]));
            }
        }
    }

    #[test]
    fn nan_is_no_value_and_nothing_has_no_median() {
        let mut rolling = of(&[f32::NAN]);
        rolling.push(f32::NAN);
        rolling.pop();
        assert_eq!((rolling.arrived.len(), rolling.median()), (0, None));
    }
}
