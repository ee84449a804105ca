//! Times as people read them, in UTC.

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

struct Civil {
    year: i64,
    month: usize,
    day: i64,
    hour: i64,
    minute: i64,
}

/// Proleptic Gregorian date from seconds since 1970; years start in March inside, so that leap days come last.
fn civil(seconds: i64) -> Civil {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days.saturating_add(719_468);
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = (march_month + 2) % 12;
    Civil {
        year: year_of_era + era * 400 + i64::from(month < 2),
        month: month as usize,
        day: day_of_year - (153 * march_month + 2) / 5 + 1,
        hour: second / 3600,
        minute: second % 3600 / 60,
    }
}

/// `14 Sep 2022 03:15`.
pub(super) fn moment(seconds: i64) -> String {
    let c = civil(seconds);
    format!("{} {} {} {:02}:{:02}", c.day, month(&c), c.year, c.hour, c.minute)
}

fn month(c: &Civil) -> &'static str {
    MONTHS.get(c.month).copied().unwrap_or("?")
}

/// A time span with its two largest units: `2 d 3 h`, `45 min`.
pub(super) fn duration(seconds: i64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let mut rest = seconds.max(0);
    let mut parts = Vec::new();
    for (size, name) in units {
        if rest >= size && parts.len() < 2 {
            parts.push(format!("{} {name}", rest / size));
            rest %= size;
        } else if !parts.is_empty() {
            break;
        }
    }
    if parts.is_empty() {
        "0 s".to_owned()
    } else {
        parts.join(" ")
    }
}

/// Round times inside a range, at most `most`, with a label each.
pub(super) fn ticks(start: i64, end: i64, most: usize) -> Vec<(i64, String)> {
    const STEPS: [i64; 17] = [
        1, 5, 15, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600,
        2_592_000, 31_536_000,
    ];
    let span = end.saturating_sub(start).max(1);
    let most = most.max(1) as i64;
    let fits = |step: &i64| span / step < most;
    let step = STEPS.into_iter().find(fits).unwrap_or(span / most + 1);
    let first = start.div_euclid(step).saturating_mul(step);
    (0..=most + 1)
        .filter_map(|i| first.checked_add(i.checked_mul(step)?))
        .filter(|t| (start..=end).contains(t))
        .enumerate()
        .map(|(i, t)| (t, tick(t, step, i == 0)))
        .collect()
}

/// The day is told once, and again at midnight.
fn tick(time: i64, step: i64, first: bool) -> String {
    let c = civil(time);
    match step {
        s if s >= 31_536_000 => format!("{} {}", month(&c), c.year),
        s if s >= 86_400 || (s >= 60 && (first || (c.hour, c.minute) == (0, 0))) => {
            match (s, c.hour, c.minute) {
                (86_400.., ..) | (_, 0, 0) => format!("{} {}", c.day, month(&c)),
                (_, hour, minute) => format!("{} {} {hour:02}:{minute:02}", c.day, month(&c)),
            }
        }
        s if s >= 60 => format!("{:02}:{:02}", c.hour, c.minute),
        _ => format!("{:02}:{:02}:{:02}", c.hour, c.minute, time.rem_euclid(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_that_calendars_agree_on() {
        assert_eq!(moment(0), "1 Jan 1970 00:00");
        assert_eq!(moment(951_827_696), "29 Feb 2000 12:34");
        assert_eq!(moment(1_664_582_399), "30 Sep 2022 23:59");
        assert_eq!(moment(-1), "31 Dec 1969 23:59");
        assert!(!moment(i64::MAX).is_empty() && !moment(i64::MIN).is_empty());
    }

    #[test]
    fn durations_keep_two_units() {
        assert_eq!(duration(2700), "45 min");
        assert_eq!(duration(2 * 86_400 + 3 * 3600 + 59), "2 d 3 h");
        assert_eq!(duration(86_400 + 59), "1 d");
        assert_eq!(duration(0), "0 s");
    }

    #[test]
    fn ticks_are_round_few_and_inside() {
        let (start, end) = (1_662_000_123, 1_664_592_000);
        let found = ticks(start, end, 6);
        assert!((2..=6).contains(&found.len()), "{found:?}");
        assert!(
            found
                .iter()
                .all(|(t, _)| t % 86_400 == 0 && (start..=end).contains(t))
        );
        assert!(ticks(i64::MIN, i64::MAX, 6).len() <= 8);
        let labels = |from: i64, to: i64| -> Vec<String> {
            ticks(from, to, 7).into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(
            labels(1_647_216_000 - 7200, 1_647_216_000 + 3600 * 9),
            ["14 Mar", "03:00", "06:00", "09:00"]
        );
        assert_eq!(labels(1_647_226_800, 1_647_226_800 + 10_800)[0], "14 Mar 03:00");
    }
}
