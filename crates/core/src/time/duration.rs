//! A length of time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Error;

/// A length of time above zero, in whole milliseconds: `250ms`, `30s`, `15m`, `1h30m`, `2d`, `1w`. A number always has a
/// unit. [`Duration::ZERO`] and [`Duration::or_zero`] are for where none at all has a meaning.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

/// From the longest to the shortest, in milliseconds.
const UNITS: [(&str, i64); 6] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// So many milliseconds, which must be above zero.
    pub fn from_milliseconds(milliseconds: i64) -> Result<Duration, Error> {
        Duration::above_zero(milliseconds, || format!("{milliseconds}ms"))
    }

    /// So many seconds, which must be above zero.
    pub fn from_seconds(seconds: i64) -> Result<Duration, Error> {
        let text = || format!("{seconds}s");
        let milliseconds = seconds.checked_mul(1000);
        Duration::above_zero(milliseconds.ok_or_else(|| fault(text(), TOO_LONG))?, text)
    }

    /// From text as people write it, where `0s` is allowed too.
    pub fn or_zero(text: &str) -> Result<Duration, Error> {
        parse(text).map(Duration)
    }

    /// Milliseconds.
    pub const fn milliseconds(self) -> i64 {
        self.0
    }

    /// Whole seconds; what is left of the last is cut off.
    pub const fn whole_seconds(self) -> i64 {
        self.0 / 1000
    }

    fn above_zero(milliseconds: i64, text: impl FnOnce() -> String) -> Result<Duration, Error> {
        match milliseconds {
            1.. => Ok(Duration(milliseconds)),
            0 => Err(fault(text(), "it must be longer than nothing")),
            _ => Err(fault(text(), NEGATIVE)),
        }
    }
}

const TOO_LONG: &str = "it is too long";
const NEGATIVE: &str = "it cannot be negative";

fn fault(text: String, problem: &'static str) -> Error {
    Error::Duration { text, problem }
}

/// Numbers with units, each unit shorter than the one before.
fn parse(text: &str) -> Result<i64, Error> {
    let fault = |problem| fault(text.to_owned(), problem);
    let (mut rest, mut units, mut sum) = (text.trim(), &UNITS[..], 0i64);
    if rest.starts_with('-') {
        return Err(fault(NEGATIVE));
    }
    if rest.is_empty() {
        return Err(fault("it is empty"));
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        if number.is_empty() {
            return Err(fault("a number is missing"));
        }
        if unit.is_empty() {
            let whole = !after.starts_with(['.', ',']);
            return Err(fault(if whole {
                "a unit is missing"
            } else {
                "numbers must be whole"
            }));
        }
        let Some(place) = units.iter().position(|(name, _)| *name == unit) else {
            let known = UNITS.iter().any(|(name, _)| *name == unit);
            let problem = "units go from the longest to the shortest, each at most once";
            return Err(fault(if known { problem } else { "a unit is unknown" }));
        };
        let number: Option<i64> = number.parse().ok();
        let part = number.and_then(|number| number.checked_mul(units[place].1));
        let longer = part.and_then(|part| sum.checked_add(part));
        sum = longer.ok_or_else(|| fault(TOO_LONG))?;
        (rest, units) = (after.trim_start(), &units[place + 1..]);
    }
    Ok(sum)
}

impl FromStr for Duration {
    type Err = Error;

    fn from_str(text: &str) -> Result<Duration, Error> {
        Duration::above_zero(parse(text)?, || text.to_owned())
    }
}

/// In the longest units that fit, weeks only where nothing is left.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (week, mut rest) = (UNITS[0].1, self.0);
        if rest == 0 {
            return f.write_str("0s");
        }
        if rest % week == 0 {
            return write!(f, "{}w", rest / week);
        }
        for (name, size) in &UNITS[1..] {
            if rest >= *size {
                write!(f, "{}{name}", rest / size)?;
                rest %= size;
            }
        }
        Ok(())
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with a unit, such as \"30s\", \"15m\", \"1h30m\" or \"2d\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Duration, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl From<Duration> for std::time::Duration {
    fn from(duration: Duration) -> std::time::Duration {
        std::time::Duration::from_millis(duration.0.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, milliseconds) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("15m", 900_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            (" 1h 30m ", 5_400_000),
            ("90m", 5_400_000),
            ("2d", 172_800_000),
            ("1w", 604_800_000),
            ("1w2d3h4m5s6ms", 788_645_006),
        ] {
            assert_eq!(
                text.parse().map(Duration::milliseconds),
                Ok(milliseconds),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_duration_is_told_why_and_how_to_write_one() {
        for (text, problem) in [
            ("900", "unit is missing"),
            ("1h30", "unit is missing"),
            ("h", "number is missing"),
            ("1.5h", "whole"),
            ("5min", "unknown"),
            ("30m1h", "longest to the shortest"),
            ("1h1h", "longest to the shortest"),
            ("-1h", "negative"),
            ("0s", "longer than nothing"),
            ("", "empty"),
            ("99999999999999w", "too long"),
            ("99999999999999999999s", "too long"),
            ("1µs", "unit is missing"),
        ] {
            let said = text.parse::<Duration>().expect_err(text).to_string();
            assert!(said.contains(problem) && said.contains("1h30m"), "{text}: {said}");
        }
    }

    #[test]
    fn zero_is_only_for_those_who_ask_for_it() {
        assert!(Duration::from_seconds(0).is_err() && Duration::from_milliseconds(-1).is_err());
        assert_eq!(Duration::or_zero("0s"), Ok(Duration::ZERO));
        assert_eq!(Duration::ZERO.to_string(), "0s");
        assert!(Duration::or_zero("-1s").is_err());
        assert!(Duration::from_seconds(i64::MAX).is_err());
    }

    #[test]
    fn durations_are_written_in_the_longest_units() {
        for (milliseconds, text) in [
            (1, "1ms"),
            (1500, "1s500ms"),
            (5_400_000, "1h30m"),
            (172_800_000, "2d"),
            (691_200_000, "8d"),
            (1_209_600_000, "2w"),
        ] {
            assert_eq!(Duration(milliseconds).to_string(), text);
        }
        let read = serde_json::from_str::<Duration>("\"15m\"").map(Duration::whole_seconds);
        assert_eq!(read.ok(), Some(900));
        let said = serde_json::from_str::<Duration>("900")
            .expect_err("no unit")
            .to_string();
        assert!(said.contains("15m"), "{said}");
        assert_eq!(std::time::Duration::from(Duration(250)).as_millis(), 250);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(milliseconds in 1i64..) {
            let duration = Duration(milliseconds);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,20}") {
            let _ = text.parse::<Duration>();
        }
    }
}
