//! Times in text.

use jiff::civil::Date;

/// Milliseconds since 1970 of a time in ISO form (`2025-06-03T00:00:01.5+02:00`, with a blank for `T`, `UTC` or nothing
/// for `Z`), or of a plain number of seconds. A time without a zone is taken as UTC.
pub fn milliseconds(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        let milliseconds = (seconds * 1000.0).round();
        return (milliseconds.abs() < 9e15).then_some(milliseconds as i64);
    }
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2)?;
    let date = Date::new(year as i16, month as i8, day as i8).ok()?;
    let (seconds, fraction, rest) = match rest.strip_prefix(['T', 't', ' ']) {
        Some(clock) if clock.starts_with(|c: char| c.is_ascii_digit()) => clock_time(clock)?,
        _ => (0, 0, rest),
    };
    let offset = zone(rest.trim())?;
    Some((days_since_1970(date) * 86_400 + seconds - offset) * 1000 + fraction)
}

/// Days from 1970-01-01 to a date.
fn days_since_1970(date: Date) -> i64 {
    i64::from((date - Date::constant(1970, 1, 1)).get_days())
}

/// Seconds of the day, milliseconds, and what follows.
fn clock_time(text: &str) -> Option<(i64, i64, &str)> {
    let (hours, rest) = number(text, 2)?;
    let (minutes, rest) = number(rest.strip_prefix(':')?, 2)?;
    let (seconds, rest) = match rest.strip_prefix(':') {
        Some(rest) => number(rest, 2)?,
        None => (0, rest),
    };
    // A leap second is the first of the next minute.
    if hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let (fraction, rest) = match rest.strip_prefix(['.', ',']) {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let digits = format!("{:0<3.3}", &rest[..end]);
            (digits.parse().ok()?, &rest[end..])
        }
        None => (0, rest),
    };
    Some((hours * 3600 + minutes * 60 + seconds, fraction, rest))
}

/// Seconds that a zone is ahead of UTC.
fn zone(text: &str) -> Option<i64> {
    if matches!(text, "" | "Z" | "z" | "UTC" | "GMT") {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, rest) = number(&text[1..], 2)?;
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    let (minutes, rest) = if rest.is_empty() {
        (0, rest)
    } else {
        number(rest, 2)?
    };
    (rest.is_empty() && hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// A number of exactly so many digits, and what follows.
fn number(text: &str, digits: usize) -> Option<(i64, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let whole = number.bytes().all(|b| b.is_ascii_digit());
    Some((number.parse().ok().filter(|_| whole)?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_usual_forms_are_the_same_time() {
        let forms = [
            "2025-06-03 00:00:01 UTC",
            "2025-06-03T00:00:01Z",
            "2025-06-03T02:00:01+02:00",
            "2025-06-02T19:30:01.000-0430",
            "1748908801",
            "1748908801.0",
        ];
        for form in forms {
            assert_eq!(milliseconds(form), Some(1_748_908_801_000), "{form}");
        }
        assert_eq!(milliseconds("2000-02-29"), Some(951_782_400_000));
        assert_eq!(milliseconds("1970-01-01T00:00:00.25"), Some(250));
        assert_eq!(
            milliseconds("2016-12-31T23:59:60Z"),
            milliseconds("2017-01-01T00:00:00Z")
        );
    }

    #[test]
    fn impossible_dates_are_none() {
        for form in [
            "2023-02-29",
            "2025-13-01",
            "2025-00-01",
            "2025-04-00",
            "2025-06-03T25:00",
            "yesterday",
            "",
            "2025-6-3",
            "NaN",
            "1e300",
        ] {
            assert_eq!(milliseconds(form), None, "{form}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _ = milliseconds(&text);
        }

        /// Counted from the number of leap years, as the Gregorian calendar defines them.
        #[test]
        fn days_are_counted_by_the_rule_of_leap_years(year in 0i64..=9999, month in 1i64..=12, day in 1i64..=28) {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let lengths = [31, 28 + i64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            let leaps = |before: i64| (before - 1).div_euclid(4) - (before - 1).div_euclid(100) + (before - 1).div_euclid(400);
            let days = 365 * (year - 1970) + leaps(year) - leaps(1970)
                + lengths[..month as usize - 1].iter().sum::<i64>() + day - 1;
            let text = format!("{year:04}-{month:02}-{day:02}");
            prop_assert_eq!(milliseconds(&text), Some(days * 86_400_000));
        }
    }
}
