//! Imports raw metrics of M100 and prints samples per second and the most memory used: `m100_import ROOT OUT`.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::time::Instant;

use synod_telemetry::{Error, Result, sources::m100::Raw};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, out] = arguments.as_slice() else {
        return Err(Error::Setting("usage: m100_import ROOT OUT".to_owned()));
    };
    let begin = Instant::now();
    let report = Raw::default().import(root, out)?;
    let seconds = begin.elapsed().as_secs_f64();
    let samples = report.samples.taken + report.samples.duplicate + report.samples.late;
    println!(
        "{} metrics of {} nodes, {} dropped, {:?}",
        report.metrics.len(),
        report.files.len(),
        report.dropped.len(),
        report.samples
    );
    println!(
        "{seconds:.1} s, {:.1} million samples/s",
        samples as f64 / seconds / 1e6
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .filter(|line| line.starts_with("VmHWM"))
        .for_each(|line| println!("{line}"));
    Ok(())
}
