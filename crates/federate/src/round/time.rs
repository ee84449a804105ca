//! Moments and stretches of time as the round engine knows them: numbers that come with events.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};
use synod_core::time::Duration;

/// A moment, in milliseconds since a midnight of the driver's choice: a simulation's first, or that of 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A stretch of time in milliseconds; in a configuration, a duration such as `10m`, or `0s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan(pub u64);

impl TimeSpan {
    /// A day.
    pub const DAY: TimeSpan = TimeSpan(86_400_000);

    /// So many seconds, to the nearest millisecond; nothing if negative or not a number.
    pub fn seconds(seconds: f64) -> TimeSpan {
        TimeSpan((seconds * 1000.0).round() as u64)
    }

    /// This stretch in seconds.
    pub(crate) fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// This stretch so many times, to the nearest millisecond.
    pub fn times(self, factor: f64) -> TimeSpan {
        TimeSpan((self.0 as f64 * factor).round() as u64)
    }
}

impl Time {
    /// The hour of the day, in `[0, 24)`.
    pub fn hour(self) -> f64 {
        (self.0 % TimeSpan::DAY.0) as f64 / 3_600_000.0
    }
}

/// Ends at the end of time rather than wrap around.
impl Add<TimeSpan> for Time {
    type Output = Time;

    fn add(self, span: TimeSpan) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

/// What has passed since an earlier moment; nothing if that is later.
impl Sub for Time {
    type Output = TimeSpan;

    fn sub(self, earlier: Time) -> TimeSpan {
        TimeSpan(self.0.saturating_sub(earlier.0))
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let milliseconds = i64::try_from(self.0).unwrap_or(i64::MAX);
        let duration = Duration::from_milliseconds(milliseconds).unwrap_or(Duration::ZERO);
        serializer.collect_str(&duration)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TimeSpan, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = TimeSpan;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with a unit, such as \"30s\", \"10m\" or \"1h30m\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<TimeSpan, E> {
                let duration = Duration::or_zero(text).map_err(E::custom)?;
                Ok(TimeSpan(duration.milliseconds().unsigned_abs()))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_span_comes_back_from_a_file_as_it_went(milliseconds in 0u64..2_000_000_000_000_000) {
            let text = serde_json::to_string(&TimeSpan(milliseconds)).unwrap();
            prop_assert_eq!(serde_json::from_str::<TimeSpan>(&text).unwrap(), TimeSpan(milliseconds));
        }
    }

    #[test]
    fn spans_are_written_with_their_units() {
        for (text, span) in [("90s", 90_000), ("250ms", 250), ("0s", 0), ("1h30m", 5_400_000)] {
            assert_eq!(
                serde_json::from_str::<TimeSpan>(&format!("{text:?}")).unwrap(),
                TimeSpan(span)
            );
        }
        for wrong in ["-1", "600.0", "\"1 min\"", "\"600\""] {
            let said = serde_json::from_str::<TimeSpan>(wrong).unwrap_err().to_string();
            assert!(said.contains("30s") || said.contains("1h30m"), "{wrong}: {said}");
        }
    }

    #[test]
    fn time_neither_wraps_nor_turns_negative() {
        assert_eq!(Time(5) + TimeSpan(u64::MAX), Time(u64::MAX));
        assert_eq!(Time(5) - Time(9), TimeSpan(0));
        assert_eq!(Time(TimeSpan::DAY.0 * 3 + 5_400_000).hour(), 1.5);
    }
}
