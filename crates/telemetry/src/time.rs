//! Times as people and programs write them.

/// Milliseconds since 1970 of a time in ISO form (`2025-06-03T00:00:01.5+02:00`, with a blank for `T`, `UTC` or nothing
/// for `Z`), or of a plain number of seconds. A time without a zone is taken as UTC.
pub fn parse_time(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        let milliseconds = (seconds * 1000.0).round();
        return (milliseconds.abs() < 9e15).then_some(milliseconds as i64);
    }
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2)?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    let (seconds, fraction, rest) = match rest.strip_prefix(['T', 't', ' ']) {
        Some(clock) if clock.starts_with(|c: char| c.is_ascii_digit()) => clock_time(clock)?,
        _ => (0, 0, rest),
    };
    let offset = zone(rest.trim())?;
    Some((days_from_epoch(year, month, day) * 86_400 + seconds - offset) * 1000 + fraction)
}

/// Seconds of the day, milliseconds, and what follows.
fn clock_time(text: &str) -> Option<(i64, i64, &str)> {
    let (hours, rest) = number(text, 2)?;
    let (minutes, rest) = number(rest.strip_prefix(':')?, 2)?;
    let (seconds, rest) = match rest.strip_prefix(':') {
        Some(rest) => number(rest, 2)?,
        None => (0, rest),
    };
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

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leaps = |y: i64| y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400);
    let years = (year - 1970) * 365 + leaps(before) - leaps(1969);
    years + (1..month).map(|m| days_in(year, m)).sum::<i64>() + day - 1
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
            assert_eq!(parse_time(form), Some(1_748_908_801_000), "{form}");
        }
        assert_eq!(parse_time("2000-02-29"), Some(951_782_400_000));
        assert_eq!(parse_time("1970-01-01T00:00:00.25"), Some(250));
    }

    #[test]
    fn impossible_dates_are_none() {
        for form in [
            "2023-02-29",
            "2025-13-01",
            "2025-06-03T25:00",
            "yesterday",
            "",
            "2025-6-3",
            "NaN",
            "1e300",
        ] {
            assert_eq!(parse_time(form), None, "{form}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _ = parse_time(&text);
        }

        #[test]
        fn days_follow_each_other(year in 1i64..3000, month in 1i64..=12) {
            let (y, m) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            prop_assert_eq!(days_from_epoch(y, m, 1) - days_from_epoch(year, month, 1), days_in(year, month));
        }
    }
}
