//! Prometheus' text format, version 0.0.4.
//!
//! A series is called by its name and labels, labels in the order of their names: `name{a="1",b="2"}`.

use std::{collections::BTreeMap, path::Path};

use super::{Sample, Sink, source};
use crate::{
    error::Result,
    metric::{self, MetricKind},
};

const ADVICE: &str = "it is not Prometheus' text format, version 0.0.4";

/// Reads one scrape of one node. Samples without a time of their own get `time`, in milliseconds. Returns how many samples
/// there were; an error names the line, and samples before it have been given out.
pub fn read(text: &[u8], path: &Path, node: &str, time: i64, sink: &mut Sink<'_>) -> Result<usize> {
    let text = std::str::from_utf8(text)
        .map_err(|e| source(path, format!("byte {} is not UTF-8", e.valid_up_to()), ADVICE))?;
    let mut kinds: BTreeMap<&str, MetricKind> = BTreeMap::new();
    let mut samples = 0;
    for (number, line) in text.split('\n').enumerate() {
        let wrong = |problem: &str| {
            let shown: String = line.chars().take(60).collect();
            source(
                path,
                format!("line {}: {problem} in {shown:?}", number + 1),
                ADVICE,
            )
        };
        let line = line.trim_matches([' ', '\t', '\r']);
        if let Some(comment) = line.strip_prefix('#') {
            declare(comment, &mut kinds).map_err(wrong)?;
        } else if !line.is_empty() {
            let series = Series::parse(line).map_err(wrong)?;
            let name = series.name();
            sink(Sample {
                node,
                metric: &name,
                kind: metric::metric(series.metric, kinds.get(series.metric).copied()).kind,
                time: series.time.unwrap_or(time),
                value: series.value,
            })?;
            samples += 1;
        }
    }
    Ok(samples)
}

/// Notes the kind of a `# TYPE` line. Other comments mean nothing.
fn declare<'a>(comment: &'a str, kinds: &mut BTreeMap<&'a str, MetricKind>) -> Result<(), &'static str> {
    let mut words = comment.split([' ', '\t']).filter(|word| !word.is_empty());
    if words.next() != Some("TYPE") {
        return Ok(());
    }
    let name = words
        .next()
        .filter(|name| is_name(name))
        .ok_or("there is no metric name")?;
    let kind = match words.next() {
        Some("counter") => Some(MetricKind::Counter),
        // Of a histogram or summary only the quantiles have the bare name, and they are gauges.
        Some("gauge" | "histogram" | "summary") => Some(MetricKind::Gauge),
        Some("untyped") => None,
        _ => return Err("there is no known type"),
    };
    if words.next().is_some() {
        return Err("something follows the type");
    }
    kinds.extend(kind.map(|kind| (name, kind)));
    Ok(())
}

struct Series<'a> {
    metric: &'a str,
    labels: BTreeMap<&'a str, String>,
    value: f64,
    time: Option<i64>,
}

impl<'a> Series<'a> {
    fn parse(line: &'a str) -> Result<Series<'a>, &'static str> {
        let end = line.find(|c: char| !is_name_char(c)).unwrap_or(line.len());
        let (metric, rest) = line.split_at(end);
        if !is_name(metric) {
            return Err("there is no metric name");
        }
        let rest = blank(rest);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (BTreeMap::new(), rest),
        };
        let mut words = rest.split([' ', '\t']).filter(|word| !word.is_empty());
        let value = words.next().and_then(number).ok_or("there is no value")?;
        let time = match words.next() {
            Some(word) => Some(word.parse().map_err(|_| "the time is not whole milliseconds")?),
            None => None,
        };
        match words.next() {
            Some(_) => Err("something follows the time"),
            None => Ok(Series {
                metric,
                labels,
                value,
                time,
            }),
        }
    }

    fn name(&self) -> String {
        series_name(
            self.metric,
            self.labels.iter().map(|(name, value)| (*name, value.as_str())),
        )
    }
}

/// A series' name: the metric, and its labels in the order given.
pub(crate) fn series_name<'a>(metric: &str, labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = metric.to_owned();
    for (i, (name, value)) in labels.enumerate() {
        out.push(if i == 0 { '{' } else { ',' });
        out.push_str(name);
        out.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        out.push('"');
    }
    if out.len() > metric.len() {
        out.push('}');
    }
    out
}

/// The labels up to the closing brace, and what follows it.
fn labels(mut rest: &str) -> Result<(BTreeMap<&str, String>, &str), &'static str> {
    let mut labels = BTreeMap::new();
    loop {
        rest = blank(rest);
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((labels, after));
        }
        let end = rest
            .find(|c: char| !is_name_char(c) || c == ':')
            .ok_or("the labels break off")?;
        let (name, after) = rest.split_at(end);
        if !is_name(name) {
            return Err("there is no label name");
        }
        let after = blank(after)
            .strip_prefix('=')
            .ok_or("there is no = behind a label name")?;
        let after = blank(after)
            .strip_prefix('"')
            .ok_or("a label's value is not in quotes")?;
        let (value, after) = quoted(after)?;
        if labels.insert(name, value).is_some() {
            return Err("a label occurs twice");
        }
        rest = blank(after);
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.starts_with('}') => {}
            None => return Err("there is no , or } behind a label"),
        }
    }
}

/// A label's value up to its closing quote, and what follows it.
fn quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &text[i + 1..])),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, c @ ('\\' | '"'))) => value.push(c),
                _ => return Err("a label's value has an unknown escape"),
            },
            c => value.push(c),
        }
    }
    Err("a label's value is never closed")
}

/// A number as Go's `ParseFloat` reads it: also `+Inf`, `-Inf`, `NaN`, hexadecimal not.
fn number(word: &str) -> Option<f64> {
    word.parse().ok()
}

fn blank(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_name_char) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Row = (String, MetricKind, i64, f64);

    fn parse(text: &str) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        read(text.as_bytes(), Path::new("scrape"), "n1", 5, &mut |s| {
            rows.push((s.metric.to_owned(), s.kind, s.time, s.value));
            Ok(())
        })?;
        Ok(rows)
    }

    const SCRAPE: &str = r#"# HELP http_requests_total Requests so far, with a \\ and a \n in it.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total { code = "400" , method = "post" , } 3
# just a comment

msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find \"FILE\"\n"} 1.458255915e9
something_weird{problem="division by zero"} +Inf -3982045
# TYPE rpc summary
rpc{quantile="0.5"} NaN
rpc_sum 1.7560473e+07
rpc_count 2693
# TYPE job_total gauge
job_total 7
# TYPE h histogram
h_bucket{le="+Inf"} 144320
"#;

    #[test]
    fn every_form_of_the_grammar_is_read() -> Result<()> {
        let rows = parse(SCRAPE)?;
        let named = |name: &str| rows.iter().find(|r| r.0 == name).expect(name);
        let post = named("http_requests_total{code=\"200\",method=\"post\"}");
        assert_eq!(
            (post.1, post.2, post.3),
            (MetricKind::Counter, 1_395_066_363_000, 1027.0)
        );
        assert_eq!(
            named("http_requests_total{code=\"400\",method=\"post\"}").2,
            5,
            "the scrape's time"
        );
        named(
            "msdos_file_access_time_seconds{error=\"Cannot find \\\"FILE\\\"\\n\",path=\"C:\\\\DIR\\\\FILE.TXT\"}",
        );
        assert_eq!(
            named("something_weird{problem=\"division by zero\"}").3,
            f64::INFINITY
        );
        assert!(named("rpc{quantile=\"0.5\"}").3.is_nan());
        assert_eq!(named("rpc{quantile=\"0.5\"}").1, MetricKind::Gauge);
        assert_eq!(named("rpc_sum").1, MetricKind::Counter);
        assert_eq!(named("h_bucket{le=\"+Inf\"}").1, MetricKind::Counter);
        assert_eq!(
            named("job_total").1,
            MetricKind::Gauge,
            "the source outweighs the name"
        );
        assert_eq!(rows.len(), 9);
        Ok(())
    }

    #[test]
    fn what_is_not_the_format_is_refused_with_its_line() {
        for wrong in [
            "1abc 2",
            "a{b=\"c} 1",
            "a{b=c} 1",
            "a{b=\"c\" d=\"e\"} 1",
            "a{b=\"1\",b=\"2\"} 1",
            "a{b=\"\\x\"} 1",
            "a",
            "a one",
            "a 1 2.5",
            "a 1 2 3",
            "# TYPE a",
            "# TYPE a thing",
        ] {
            let error = parse(&format!("ok 1\n{wrong}\n")).expect_err(wrong).to_string();
            assert!(error.contains("line 2"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes, Path::new("f"), "n", 0, &mut |_| Ok(()));
        }

        #[test]
        fn mutations_never_panic(at in 0usize..SCRAPE.len(), with in "[{}\",=\\\\# \n0aN]{0,3}") {
            let mut text = SCRAPE.to_owned();
            text.replace_range(at..at + 1, &with);
            let _ = parse(&text);
        }

        #[test]
        fn a_series_reads_back_as_it_is_named(value in "\\PC{0,12}", extra in "[\\\\\"\n]{0,3}") {
            let name = series_name("m", [("l", format!("{value}{extra}").as_str())].into_iter());
            prop_assume!(!value.contains('\r'));
            let rows = parse(&format!("{name} 1\n")).expect("it reads back");
            prop_assert_eq!(&rows[0].0, &name);
        }
    }
}
