//! What is kept of the samples of one metric in one window.

/// What DCGM writes where it has no value; the nearest `f64`.
const BLANK: f64 = 9_223_372_036_854_775_794.0;

/// Whether a value stands for "no value": NaN, infinite, or DCGM's blank.
pub(crate) fn is_missing(value: f64) -> bool {
    !value.is_finite() || value == BLANK
}

/// The statistics of one metric in one window. All but the count are NaN if there were no samples.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Stats {
    /// Number of samples; of a counter, of differences between samples.
    pub count: u32,
    /// Mean.
    pub mean: f64,
    /// Population standard deviation.
    pub std: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

impl Stats {
    /// No samples.
    pub const NONE: Stats = Stats {
        count: 0,
        mean: f64::NAN,
        std: f64::NAN,
        min: f64::NAN,
        max: f64::NAN,
    };
}

/// Running count, mean and sum of squared differences from it, by Welford's recurrence: no cancellation, one pass.
#[derive(Copy, Clone, Debug)]
pub(super) struct Moments {
    count: u32,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Moments {
    pub(super) const EMPTY: Moments = Moments {
        count: 0,
        mean: 0.0,
        squares: 0.0,
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
    };

    #[inline]
    pub(super) fn add(&mut self, value: f64) {
        self.count = self.count.saturating_add(1);
        let before = value - self.mean;
        self.mean += before / f64::from(self.count);
        self.squares += before * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn stats(&self) -> Stats {
        if self.is_empty() {
            return Stats::NONE;
        }
        Stats {
            count: self.count,
            mean: self.mean,
            std: (self.squares / f64::from(self.count)).max(0.0).sqrt(),
            min: self.min,
            max: self.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_missing_and_numbers_are_not() {
        assert!(is_missing(9_223_372_036_854_775_794_i64 as f64));
        assert!(is_missing(f64::NAN) && is_missing(f64::NEG_INFINITY));
        assert!(!is_missing(0.0) && !is_missing(1e300));
    }

    #[test]
    fn the_deviation_survives_a_large_offset() {
        let mut moments = Moments::EMPTY;
        (1..=3).for_each(|v| moments.add(1e9 + f64::from(v)));
        let stats = moments.stats();
        assert!((stats.std - (2.0f64 / 3.0).sqrt()).abs() < 1e-6, "{stats:?}");
        assert_eq!((stats.count, stats.min, stats.max), (3, 1e9 + 1.0, 1e9 + 3.0));
    }
}
