//! The workloads and how they are timed.

pub(crate) mod autoencoder;
pub(crate) mod products;
pub(crate) mod profile;
pub(crate) mod records;
pub(crate) mod resnet;
pub(crate) mod tasks;

use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};
use synod_kernels::Simd;

use crate::Common;

/// Uniform numbers that cost nothing to make; their values do not change what a step costs.
fn rows(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..n).map(|_| next()).collect()
}

/// Class indices below `classes`.
fn classes(n: usize, classes: usize, seed: u64) -> Vec<f32> {
    let scaled = |x: f32| (x * classes as f32).floor();
    rows(n, seed).into_iter().map(scaled).collect()
}

/// Times `run`, warmed up `warm` times.
fn timed(common: Common, warm: usize, mut run: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    for _ in 0..warm {
        run()?;
    }
    let once = |_| -> Result<f64> {
        let begin = Instant::now();
        run()?;
        Ok(begin.elapsed().as_secs_f64())
    };
    (0..common.reps.max(1)).map(once).collect()
}

/// The most memory this process ever had resident, in MB; none where the system does not say.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1e3)
}

fn print(mut line: Value, mut seconds: Vec<f64>, samples: f64, flops: f64, threads: usize) {
    let written = seconds.clone();
    seconds.sort_by(f64::total_cmp);
    let n = seconds.len();
    let median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2.0;
    line["seconds"] = json!(written);
    line["median"] = json!(median);
    line["samples_per_second"] = json!(samples / median);
    line["gflops"] = json!(flops / median / 1e9);
    line["threads"] = json!(threads);
    line["peak_memory_mb"] = json!(peak_memory());
    line["simd"] = json!(Simd::best().level().name());
    #[allow(clippy::print_stdout, reason = "the result of the program")]
    {
        println!("{line}");
    }
}
