//! A moment.

use std::fmt;
use std::str::FromStr;

use jiff::Span;
use jiff::civil::Date;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::milliseconds;
use crate::error::Error;

/// A moment, in whole seconds since 1970.
///
/// Text is ISO 8601, in UTC where it says no zone; fractions of a second are cut off. A plain number is read as seconds
/// since 1970, and moments before the year 0 or after 9999 are written as one.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// A moment on the calendar and the clock, in UTC.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// From 0 to 9999.
    pub year: i64,
    /// From 1 to 12.
    pub month: u8,
    /// From 1 to 31.
    pub day: u8,
    /// From 0 to 23.
    pub hour: u8,
    /// From 0 to 59.
    pub minute: u8,
    /// From 0 to 59.
    pub second: u8,
}

impl Timestamp {
    /// So many seconds after the beginning of 1970 in UTC, or before it if negative.
    pub const fn from_seconds(seconds: i64) -> Timestamp {
        Timestamp(seconds)
    }

    /// Seconds since 1970.
    pub const fn seconds(self) -> i64 {
        self.0
    }

    /// What calendar and clock show in UTC, from the year 0 to 9999.
    pub fn calendar(self) -> Option<Calendar> {
        let (days, second) = (self.0.div_euclid(86_400), self.0.rem_euclid(86_400));
        let span = Span::new().try_days(days).ok()?;
        let date = Date::constant(1970, 1, 1).checked_add(span).ok()?;
        (date.year() >= 0).then_some(Calendar {
            year: date.year().into(),
            month: date.month() as u8,
            day: date.day() as u8,
            hour: (second / 3600) as u8,
            minute: (second / 60 % 60) as u8,
            second: (second % 60) as u8,
        })
    }
}

/// As in `2025-06-03T00:00:01Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(c) = self.calendar() else {
            return write!(f, "{}", self.0);
        };
        let (year, month, day) = (c.year, c.month, c.day);
        let (hour, minute, second) = (c.hour, c.minute, c.second);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Timestamp, Error> {
        if let Ok(seconds) = text.trim().parse() {
            return Ok(Timestamp(seconds));
        }
        let milliseconds = milliseconds(text).ok_or_else(|| Error::Timestamp(text.to_owned()))?;
        Ok(Timestamp(milliseconds.div_euclid(1000)))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a time in ISO 8601, or whole seconds since 1970")]
        enum Given {
            Seconds(i64),
            Text(String),
        }
        match Given::deserialize(deserializer)? {
            Given::Seconds(seconds) => Ok(Timestamp(seconds)),
            Given::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn moments_read_like_a_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_662_000_307, "2022-09-01T02:45:07Z"),
            (-60, "1969-12-31T23:59:00Z"),
            (-62_167_219_200, "0000-01-01T00:00:00Z"),
            (-62_167_219_201, "-62167219201"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (253_402_300_800, "253402300800"),
        ] {
            assert_eq!(Timestamp::from_seconds(seconds).to_string(), text);
        }
    }

    #[test]
    fn zones_are_taken_off_and_fractions_cut() {
        let parsed = |text: &str| text.parse().map(Timestamp::seconds);
        assert_eq!(parsed("1970-01-01T02:00:00.9+02:00"), Ok(0));
        assert_eq!(parsed("1969-12-31T23:59:59.9"), Ok(-1));
        let said = parsed("tomorrow").expect_err("no time").to_string();
        assert!(
            said.contains("tomorrow") && said.contains("2025-06-03T14:30:00Z"),
            "{said}"
        );
    }

    #[test]
    fn numbers_and_texts_are_read_and_texts_written() {
        let read = |json: &str| serde_json::from_str::<Timestamp>(json).map(Timestamp::seconds);
        assert_eq!(read("86400").ok(), Some(86_400));
        assert_eq!(read("\"1970-01-02\"").ok(), Some(86_400));
        let said = read("\"soon\"").expect_err("no time").to_string();
        assert!(said.contains("soon"), "{said}");
        assert!(read("true").is_err());
        let written = serde_json::to_string(&Timestamp::from_seconds(86_400));
        assert_eq!(written.ok().as_deref(), Some("\"1970-01-02T00:00:00Z\""));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(seconds in prop_oneof![any::<i64>(), -100_000_000_000i64..300_000_000_000]) {
            let time = Timestamp::from_seconds(seconds);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
