//! Reads what monitoring writes and prints what came of it:
//! `inspect ldms|ipmi|scrape FILE …`, `inspect status|log FILE …`, `inspect prometheus URL QUERY SECONDS_BACK STEP`.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::{
    collections::BTreeMap,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use synod_telemetry::{
    Error, Result,
    labels::{Severity, nagios_log, nagios_status},
    sources::{exposition, ipmi, ldms, prometheus::PrometheusServer},
    windows::{KeptStatistics, Nodes, WindowSettings},
};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((kind, rest)) = arguments.split_first() else {
        return Err(Error::Setting(
            "usage: inspect ldms|ipmi|scrape|status|log|prometheus …".to_owned(),
        ));
    };
    let settings = WindowSettings {
        width: 60,
        ..WindowSettings::default()
    };
    let mut nodes = Nodes::new(settings, KeptStatistics::Mean)?;
    for (number, file) in rest.iter().enumerate() {
        let path = Path::new(file);
        let bytes = || std::fs::read(path).map_err(|e| Error::Setting(format!("{file}: {e}")));
        match kind.as_str() {
            "ldms" => println!("{file}: {:?}", ldms::load(path, &mut |s| nodes.take(s))?),
            "ipmi" => println!(
                "{file}: {:?}",
                ipmi::read(&bytes()?, path, "node", 0, &mut |s| nodes.take(s))?
            ),
            "scrape" => {
                let time = number as i64 * 15_000;
                let samples = exposition::read(&bytes()?, path, "node", time, &mut |s| nodes.take(s))?;
                println!("{file}: {samples} samples");
            }
            "status" => states(&nagios_status(&bytes()?, path, Severity::default())?),
            "log" => states(&nagios_log(&bytes()?, Severity::default())),
            "prometheus" => {
                range(rest, &mut nodes)?;
                break;
            }
            _ => return Err(Error::Setting(format!("there is no kind {kind:?}"))),
        }
    }
    println!("{:?}", nodes.counts());
    for frame in nodes.frames()? {
        println!(
            "{}: {} windows of {} s, {} metrics",
            frame.node(),
            frame.rows(),
            frame.step(),
            frame.width()
        );
        let shown = frame.metrics().iter().zip(frame.row(frame.rows() - 1)).take(6);
        shown.for_each(|(metric, value)| println!("  {metric} {value}"));
    }
    Ok(())
}

fn states(intervals: &[synod_telemetry::labels::LabelInterval]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for interval in intervals {
        *counts.entry(format!("{:?}", interval.state)).or_default() += 1;
    }
    println!("{} intervals: {counts:?}", intervals.len());
    let bad = intervals
        .iter()
        .filter(|i| i.state > synod_telemetry::labels::State::Healthy);
    bad.take(8).for_each(|i| {
        println!(
            "  {} {}..{} {:?} {}: {}",
            i.node, i.from, i.to, i.state, i.source, i.reason
        )
    });
}

fn range(rest: &[String], nodes: &mut Nodes) -> Result<()> {
    let [url, query, back, step] = rest else {
        return Err(Error::Setting(
            "usage: inspect prometheus URL QUERY SECONDS_BACK STEP".to_owned(),
        ));
    };
    let number = |text: &String| {
        text.parse::<i64>()
            .map_err(|e| Error::Setting(format!("{text:?}: {e}")))
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs() as i64);
    let server = PrometheusServer::new(url)?;
    let kinds = server.kinds()?;
    println!("{} metrics of known kind", kinds.len());
    let report = server.range(
        query,
        (now - number(back)?, now),
        number(step)?,
        &kinds,
        &mut |s| nodes.take(s),
    )?;
    println!("{report:?}");
    Ok(())
}
