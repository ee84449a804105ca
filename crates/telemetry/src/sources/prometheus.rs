//! What a Prometheus server has recorded, through its query API.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde_json::Value;

use super::{
    Sample, Sink,
    exposition::series_name,
    http::{self, Address},
    source,
};
use crate::{
    error::{Error, Result},
    metric::{self, MetricKind},
};

/// Points per series that one request asks for; the server refuses more than 11,000.
const POINTS: i64 = 10_000;
const MAX_ANSWER: u64 = 1 << 30;
const ADVICE: &str = "check that the address is that of a Prometheus server";

/// A Prometheus server, or anything that answers its query API over plain HTTP.
#[derive(Clone, Debug)]
pub struct PrometheusServer {
    url: String,
    address: Address,
    /// The label whose value, without a port, is the node's name.
    pub node_label: String,
    /// How long to wait for each step of an answer.
    pub timeout: Duration,
}

/// What an answer held.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PrometheusReport {
    /// Series read.
    pub series: usize,
    /// Samples given out.
    pub samples: usize,
    /// Series left out because they lack the node's label.
    pub nameless: usize,
}

impl PrometheusServer {
    /// A server at `http://host:port/prefix`. Nodes are told by the label `instance`.
    pub fn new(url: &str) -> Result<PrometheusServer> {
        Ok(PrometheusServer {
            url: url.to_owned(),
            address: Address::parse(url).map_err(|problem| Error::Setting(format!("{url:?}: {problem}")))?,
            node_label: "instance".to_owned(),
            timeout: Duration::from_secs(60),
        })
    }

    /// The kinds of all metrics, as their targets stated them.
    pub fn kinds(&self) -> Result<BTreeMap<String, MetricKind>> {
        let body = self.get("/api/v1/metadata")?;
        read_kinds(&body, Path::new(&self.url))
    }

    /// The values of a query from one time to another, both in seconds and included, `step` seconds apart. Long ranges are
    /// asked for in parts. The kind of a metric that is not in `kinds` is told by its name.
    pub fn range(
        &self,
        query: &str,
        (from, to): (i64, i64),
        step: i64,
        kinds: &BTreeMap<String, MetricKind>,
        sink: &mut Sink<'_>,
    ) -> Result<PrometheusReport> {
        if step <= 0 || to < from {
            return Err(Error::Setting(format!(
                "a range from {from} to {to} in steps of {step} s holds nothing; give a step above 0 and an end after the start"
            )));
        }
        let mut report = PrometheusReport::default();
        let mut start = from;
        while start <= to {
            let end = to.min(start.saturating_add(step.saturating_mul(POINTS - 1)));
            let query = http::encoded(query);
            let path = format!("/api/v1/query_range?query={query}&start={start}&end={end}&step={step}");
            let body = self.get(&path)?;
            let part = read_range(&body, Path::new(&self.url), &self.node_label, kinds, sink)?;
            report.series = report.series.max(part.series);
            report.nameless = report.nameless.max(part.nameless);
            report.samples += part.samples;
            match end.checked_add(step) {
                Some(next) => start = next,
                None => break,
            }
        }
        Ok(report)
    }

    fn get(&self, path: &str) -> Result<Vec<u8>> {
        let wrong = |problem: String| source(Path::new(&self.url), problem, ADVICE);
        let (code, body) = http::get(&self.address, path, self.timeout, MAX_ANSWER).map_err(wrong)?;
        // The server says what is wrong with a query in the body of a 400 or 422, which the reader turns into an error.
        match code {
            200 | 400 | 422 | 503 if !body.is_empty() => Ok(body),
            _ => Err(wrong(format!("it answers {code}"))),
        }
    }
}

/// Reads the answer to a range or instant query.
pub(crate) fn read_range(
    body: &[u8],
    path: &Path,
    node_label: &str,
    kinds: &BTreeMap<String, MetricKind>,
    sink: &mut Sink<'_>,
) -> Result<PrometheusReport> {
    let data = data(body, path)?;
    let wrong = |problem: &str| source(path, problem, ADVICE);
    let series = data
        .get("result")
        .and_then(Value::as_array)
        .ok_or_else(|| wrong("the answer has no result"))?;
    let mut report = PrometheusReport::default();
    for series in series {
        let labels = series.get("metric").and_then(Value::as_object);
        let labels = labels.ok_or_else(|| wrong("a series has no labels"))?;
        let label = |name: &str| labels.get(name).and_then(Value::as_str);
        let Some(node) = label(node_label) else {
            report.nameless += 1;
            continue;
        };
        let name = label("__name__").unwrap_or("value");
        let others = labels
            .iter()
            .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        let others = others.filter(|(key, _)| ![node_label, "__name__", "job", "instance"].contains(key));
        let full = series_name(name, others);
        let kind = metric::metric(name, kinds.get(name).copied()).kind;
        let values = series.get("values").and_then(Value::as_array);
        let points = values.into_iter().flatten().chain(series.get("value"));
        report.series += 1;
        for point in points {
            let (time, value) =
                self::point(point).ok_or_else(|| wrong("a value is not [time, \"number\"]"))?;
            sink(Sample {
                node: without_port(node),
                metric: &full,
                kind,
                time,
                value,
            })?;
            report.samples += 1;
        }
    }
    Ok(report)
}

/// Reads the answer of the metadata endpoint. A metric whose targets disagree has no kind.
fn read_kinds(body: &[u8], path: &Path) -> Result<BTreeMap<String, MetricKind>> {
    let data = data(body, path)?;
    let metrics = data
        .as_object()
        .ok_or_else(|| source(path, "the metadata are not an object", ADVICE))?;
    let kind = |entries: &Value| {
        let mut kinds = entries
            .as_array()?
            .iter()
            .map(|entry| match entry.get("type")?.as_str()? {
                "counter" => Some(MetricKind::Counter),
                "gauge" | "summary" | "histogram" => Some(MetricKind::Gauge),
                _ => None,
            });
        let first = kinds.next()??;
        kinds.all(|kind| kind == Some(first)).then_some(first)
    };
    Ok(metrics
        .iter()
        .filter_map(|(name, entries)| Some((name.clone(), kind(entries)?)))
        .collect())
}

/// The data of a successful answer.
fn data(body: &[u8], path: &Path) -> Result<Value> {
    let mut answer: Value = serde_json::from_slice(body)
        .map_err(|e| source(path, format!("the answer is not JSON: {e}"), ADVICE))?;
    if answer.get("status").and_then(Value::as_str) != Some("success") {
        let said = answer
            .get("error")
            .and_then(Value::as_str)
            .unwrap_or("no reason given");
        let said: String = said.chars().take(300).collect();
        return Err(source(
            path,
            format!("the query failed: {said}"),
            "correct the query",
        ));
    }
    let data = answer.get_mut("data").map(Value::take);
    data.ok_or_else(|| source(path, "the answer has no data", ADVICE))
}

/// `[seconds, "value"]` as milliseconds and a number.
fn point(point: &Value) -> Option<(i64, f64)> {
    let time = point.get(0)?.as_f64().map(|seconds| (seconds * 1000.0).round())?;
    let value = point.get(1)?.as_str()?.parse().ok()?;
    Some((time as i64, value))
}

fn without_port(instance: &str) -> &str {
    match instance.rsplit_once(':') {
        Some((host, port))
            if !host.is_empty() && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) =>
        {
            host
        }
        _ => instance,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANSWER: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"__name__":"node_load1","instance":"n1:9100","job":"node"},"values":[[1700000000,"0.5"],[1700000060.5,"NaN"]]},
        {"metric":{"__name__":"odd","instance":"n2:9100","z":"1","a":"x\"y"},"values":[[1700000000,"+Inf"]]},
        {"metric":{"__name__":"up"},"values":[[1700000000,"1"]]}]}}"#;

    type Row = (String, String, MetricKind, i64, f64);

    fn rows(body: &str) -> Result<(Vec<Row>, PrometheusReport)> {
        let mut rows = Vec::new();
        let kinds = BTreeMap::from([("odd".to_owned(), MetricKind::Counter)]);
        let report = read_range(body.as_bytes(), Path::new("p"), "instance", &kinds, &mut |s| {
            rows.push((s.node.to_owned(), s.metric.to_owned(), s.kind, s.time, s.value));
            Ok(())
        })?;
        Ok((rows, report))
    }

    #[test]
    fn a_matrix_becomes_samples_of_nodes() -> Result<()> {
        let (rows, report) = rows(ANSWER)?;
        assert_eq!(
            rows[0],
            (
                "n1".into(),
                "node_load1".into(),
                MetricKind::Gauge,
                1_700_000_000_000,
                0.5
            )
        );
        assert!(rows[1].3 == 1_700_000_060_500 && rows[1].4.is_nan());
        assert_eq!(
            (rows[2].1.as_str(), rows[2].2),
            ("odd{a=\"x\\\"y\",z=\"1\"}", MetricKind::Counter)
        );
        assert_eq!(
            report,
            PrometheusReport {
                series: 2,
                samples: 3,
                nameless: 1
            }
        );
        Ok(())
    }

    #[test]
    fn what_the_server_says_is_wrong_is_told() {
        let refused = r#"{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\""}"#;
        let error = rows(refused).expect_err("refused").to_string();
        assert!(error.contains("invalid parameter"), "{error}");
        assert!(rows("<html>").is_err());
        assert!(rows(r#"{"status":"success","data":{}}"#).is_err());
    }

    #[test]
    fn kinds_are_those_all_targets_agree_on() -> Result<()> {
        let body = r#"{"status":"success","data":{"a":[{"type":"counter","help":"","unit":""}],
            "b":[{"type":"gauge"},{"type":"counter"}],"c":[{"type":"unknown"}],"d":[]}}"#;
        let kinds = read_kinds(body.as_bytes(), Path::new("p"))?;
        assert_eq!(kinds, BTreeMap::from([("a".to_owned(), MetricKind::Counter)]));
        Ok(())
    }

    proptest! {
        #[test]
        fn mutations_never_panic(at in 0usize..ANSWER.len(), with in "[\\[\\]{}\":,0n-]{0,3}") {
            let mut text = ANSWER.to_owned();
            text.replace_range(at..at + 1, &with);
            let _ = rows(&text);
            let _ = read_kinds(text.as_bytes(), Path::new("p"));
        }
    }
}
