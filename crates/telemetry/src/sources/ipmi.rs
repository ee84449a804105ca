//! The text that `ipmitool sdr` prints, once or again and again with `Timestamp:` lines between.

use std::{collections::BTreeSet, path::Path};

use super::{Sample, Sink, source};
use crate::{
    error::Result,
    metric::{canonical, metric},
    parse_time,
};

/// What a file of sensor readings held besides samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpmiReport {
    /// Samples given out, readings that were missing among them.
    pub samples: usize,
    /// Discrete sensors, whose readings are bits and not quantities; they are left out.
    pub discrete: BTreeSet<String>,
    /// Lines that are neither readings nor times.
    pub strange: usize,
}

/// Reads the sensors of one node. Readings before the first `Timestamp:` line are of `time`, in milliseconds. A sensor
/// without a reading gives NaN, but only once it has had one: most of them are discrete.
pub fn read(text: &[u8], path: &Path, node: &str, time: i64, sink: &mut Sink<'_>) -> Result<IpmiReport> {
    let text = String::from_utf8_lossy(text);
    let (mut report, mut known, mut time) = (IpmiReport::default(), BTreeSet::new(), time);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(stamp) = line.strip_prefix("Timestamp:") {
            time = parse_time(stamp).ok_or_else(|| {
                let problem = format!("line {}: {:?} is no time", number + 1, stamp.trim());
                source(path, problem, "write times as 2025-06-03 00:00:01 UTC")
            })?;
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let Some((name, reading)) = sensor(line) else {
            report.strange += 1;
            continue;
        };
        let name = canonical(name);
        let value = match reading {
            Reading::Value(value) => {
                known.insert(name.clone());
                value
            }
            Reading::Missing if known.contains(&name) => f64::NAN,
            Reading::Missing => continue,
            Reading::Discrete => {
                report.discrete.insert(name);
                continue;
            }
        };
        report.samples += 1;
        let kind = metric(&name, None).kind;
        sink(Sample {
            node,
            metric: &name,
            kind,
            time,
            value,
        })?;
    }
    Ok(report)
}

#[derive(Copy, Clone, Debug, PartialEq)]
enum Reading {
    Value(f64),
    Missing,
    Discrete,
}

/// A sensor's name and reading: `name | reading | state`, or with `elist`, `name | id | state | entity | reading`.
fn sensor(line: &str) -> Option<(&str, Reading)> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    let (name, reading, state) = match fields.as_slice() {
        [name, reading, state] => (*name, *reading, *state),
        [name, _id, state, _entity, reading] => (*name, *reading, *state),
        _ => return None,
    };
    if name.is_empty() || name.len() > 256 {
        return None;
    }
    let first = reading.split_ascii_whitespace().next().unwrap_or_default();
    if first.starts_with("0x") {
        return Some((name, Reading::Discrete));
    }
    // `ns` says that nothing was read, whatever stands in the reading.
    let value = if state == "ns" {
        None
    } else {
        first.parse::<f64>().ok()
    };
    Some((name, value.map_or(Reading::Missing, Reading::Value)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "Timestamp: 2025-06-03 00:00:01 UTC
Host Power               | 0x00              | ok
SysBrd 12V               | no reading        | ns
Fan1A_Tach               | 3456 RPM          | ok
CMOS Battery             | 3.03 Volts        | ok
Timestamp: 2025-06-03 00:01:01 UTC
Fan1A_Tach               | no reading        | ns
Ambient Temp             | 61h | cr  |  7.1 | -2 degrees C
";

    #[test]
    fn readings_are_samples_and_bits_are_listed() -> Result<()> {
        let mut rows = Vec::new();
        let report = read(TEXT.as_bytes(), Path::new("sdr"), "h1", 0, &mut |s| {
            rows.push((s.metric.to_owned(), s.time, s.value.to_string()));
            Ok(())
        })?;
        let row = |name: &str, time, value: &str| (name.to_owned(), time, value.to_owned());
        assert_eq!(
            rows,
            [
                row("Fan1A_Tach", 1_748_908_801_000, "3456"),
                row("CMOS_Battery", 1_748_908_801_000, "3.03"),
                row("Fan1A_Tach", 1_748_908_861_000, "NaN"),
                row("Ambient_Temp", 1_748_908_861_000, "-2"),
            ]
        );
        assert_eq!(report.discrete, BTreeSet::from(["Host_Power".to_owned()]));
        assert_eq!((report.samples, report.strange), (4, 0));
        Ok(())
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        let error =
            read(b"Timestamp: soon\n", Path::new("sdr"), "h", 0, &mut |_| Ok(())).expect_err("no time");
        assert!(error.to_string().contains("line 1"), "{error}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes, Path::new("f"), "n", 0, &mut |_| Ok(()));
        }

        #[test]
        fn mutations_never_panic(at in 0usize..TEXT.len(), with in "[| \n0xa:é]{0,3}") {
            let mut text = TEXT.to_owned();
            text.replace_range(at..at + 1, &with);
            let _ = read(text.as_bytes(), Path::new("f"), "n", 0, &mut |_| Ok(()));
        }
    }
}
