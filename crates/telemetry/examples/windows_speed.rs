//! Prints how many samples per second one core makes windows of: a node's 461 metrics every 20 s, a fifth of them counters.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::time::Instant;

use synod_telemetry::{
    Result,
    metric::MetricKind,
    windows::{MetricId, WindowSettings, Windows},
};

const METRICS: u32 = 461;
const PERIOD: i64 = 20_000;
const SAMPLES: u64 = 40_000_000;

fn main() -> Result<()> {
    let mut windows = Windows::new(WindowSettings::default())?;
    for metric in 0..METRICS {
        windows.metric(if metric % 5 == 0 {
            MetricKind::Counter
        } else {
            MetricKind::Gauge
        });
    }
    let (mut rows, mut sum) = (0u64, 0.0f64);
    let begin = Instant::now();
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    for tick in 0..SAMPLES / u64::from(METRICS) {
        for metric in 0..METRICS {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            // One sample in 64 comes a period late.
            let time = tick as i64 * PERIOD - if noise.is_multiple_of(64) { PERIOD + 1 } else { 0 };
            let value = (noise >> 40) as f64 + tick as f64;
            windows.push(MetricId(metric), time, value, &mut |row| {
                rows += 1;
                // The first window holds only late samples, and not of every metric.
                sum += Some(row.stats[1]).filter(|s| s.count > 0).map_or(0.0, |s| s.mean);
            });
        }
    }
    windows.finish(&mut |_| rows += 1);
    let seconds = begin.elapsed().as_secs_f64();
    let counts = windows.counts();
    println!("{:.1} million samples/s", SAMPLES as f64 / seconds / 1e6);
    println!("{rows} windows of {METRICS} metrics, {counts:?}, checksum {sum:.3e}");
    Ok(())
}
