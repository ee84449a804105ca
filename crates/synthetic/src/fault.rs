//! What breaks, when, and for how long.

use std::ops::Range;

use super::catalogue::{GPU_IDS, Metric, channel};
use super::jobs::{Run, TICKS};
use super::options::{ClusterOptions, DAY};
use super::random::{Rng, Stream};
use super::room::Room;

/// A way to fail.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A fan loses speed until it stands; the others speed up.
    Fan,
    /// A power supply gives nothing; the other one carries all.
    PowerSupply,
    /// A GPU falls off the bus: its sensors are silent, its clock stands at 135 MHz.
    GpuLoss,
    /// The cores' frequency no longer follows the load.
    Governor,
    /// Memory is taken and never given back.
    MemoryLeak,
    /// Heat is not carried away, so clocks and power fall.
    Throttling,
    /// The operating system cannot be reached; the board's sensors go on.
    NetworkDown,
    /// One sensor of the board repeats a value.
    StuckSensor,
    /// The node starts anew by itself.
    Reboot,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 9] = [
        FaultKind::Fan,
        FaultKind::PowerSupply,
        FaultKind::GpuLoss,
        FaultKind::Governor,
        FaultKind::MemoryLeak,
        FaultKind::Throttling,
        FaultKind::NetworkDown,
        FaultKind::StuckSensor,
        FaultKind::Reboot,
    ];

    /// The kind's name in files.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Fan => "fan",
            FaultKind::PowerSupply => "power-supply",
            FaultKind::GpuLoss => "gpu-loss",
            FaultKind::Governor => "governor",
            FaultKind::MemoryLeak => "memory-leak",
            FaultKind::Throttling => "throttling",
            FaultKind::NetworkDown => "network-down",
            FaultKind::StuckSensor => "stuck-sensor",
            FaultKind::Reboot => "reboot",
        }
    }

    /// Median, spread, least and greatest length in windows.
    fn lengths(self) -> (f64, f64, f64, f64) {
        match self {
            FaultKind::Fan | FaultKind::GpuLoss | FaultKind::Governor => (40.0, 0.8, 8.0, 384.0),
            FaultKind::PowerSupply => (30.0, 0.8, 6.0, 384.0),
            FaultKind::MemoryLeak => (24.0, 0.6, 8.0, 96.0),
            FaultKind::Throttling => (20.0, 0.7, 4.0, 192.0),
            FaultKind::NetworkDown => (16.0, 1.2, 2.0, 480.0),
            FaultKind::StuckSensor => (48.0, 0.8, 8.0, 384.0),
            FaultKind::Reboot => (3.0, 0.4, 2.0, 8.0),
        }
    }

    fn ramp(self, length: usize) -> usize {
        match self {
            FaultKind::Fan => 4,
            FaultKind::Throttling => 6,
            FaultKind::MemoryLeak => length,
            _ => 0,
        }
    }

    /// Whether no process survives it.
    pub(super) fn kills_jobs(self) -> bool {
        matches!(self, FaultKind::NetworkDown | FaultKind::Reboot)
    }
}

/// A fault as it happened. Times are seconds since 1970; ends are exclusive.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What failed.
    pub kind: FaultKind,
    /// The first window that it touches.
    pub from: i64,
    /// When it was repaired.
    pub to: i64,
    /// Seconds until it had its full effect.
    pub ramp: i64,
    /// When the operators noticed and drained the node.
    pub detected: i64,
    /// When they gave it back to users: until then it was labelled.
    pub returned: i64,
    /// The metrics of this node that show it.
    pub metrics: Vec<String>,
}

/// A fault in windows, with what exactly fails.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) kind: FaultKind,
    pub(super) span: Range<usize>,
    pub(super) ramp: usize,
    pub(super) detected: usize,
    pub(super) returned: usize,
    /// Which fan, supply, GPU or sensor.
    pub(super) part: usize,
}

impl Plan {
    /// How much of its effect a fault has in a window, 0 to 1.
    pub(super) fn severity(&self, window: usize) -> f64 {
        match self.ramp {
            0 => 1.0,
            ramp => ((window - self.span.start + 1) as f64 / ramp as f64).min(1.0),
        }
    }

    pub(super) fn fault(&self, metrics: &[Metric], start: i64) -> Fault {
        let time = |window: usize| start + window as i64 * super::STEP;
        let shown = metrics.iter().filter(|m| self.shows_in(m.channel));
        Fault {
            kind: self.kind,
            from: time(self.span.start),
            to: time(self.span.end),
            ramp: self.ramp as i64 * super::STEP,
            detected: time(self.detected),
            returned: time(self.returned),
            metrics: shown.map(|m| m.name.clone()).collect(),
        }
    }

    /// Whether a channel shows the fault at first hand.
    fn shows_in(&self, at: usize) -> bool {
        use channel::*;
        let one = |first: usize| at == first + self.part;
        let many = |first: usize, count: usize| (first..first + count).contains(&at);
        match self.kind {
            FaultKind::Fan => many(FAN, 8) || at == FAN_DISK_POWER,
            FaultKind::PowerSupply => {
                many(PS_INPUT_POWER, 2) || many(PS_OUTPUT_CURRENT, 2) || one(PS_OUTPUT_VOLTAGE)
            }
            FaultKind::GpuLoss => [
                GPU_CORE,
                GPU_MEM,
                GPU_UTILIZATION,
                GPU_POWER,
                GPU_CLOCK,
                GPU_FB_USED,
            ]
            .into_iter()
            .any(one),
            FaultKind::Governor => many(POWER, 2) || many(CORE, 48),
            FaultKind::MemoryLeak => [MEM_FREE, MEM_CACHED, CPU_SYSTEM].contains(&at),
            FaultKind::Throttling => {
                many(CORE, 48) || many(GPU_CORE, 4) || many(GPU_MEM, 4) || many(GPU_CLOCK, 4) || many(FAN, 8)
            }
            FaultKind::NetworkDown => at >= GANGLIA,
            FaultKind::StuckSensor => at == self.part,
            FaultKind::Reboot => at >= GANGLIA || at == TOTAL_POWER || many(POWER, 2),
        }
    }
}

/// Draws a node's faults: together they fill the wanted share of windows, on average exactly, and none overlap.
pub(super) fn plan(options: &ClusterOptions, node: usize, metrics: &[Metric], room: &Room) -> Vec<Plan> {
    let mut rng = Rng::new(options.seed, Stream::Faults, node as u64);
    let windows = options.windows();
    let mut left = options.anomalies * windows as f64;
    let mut drawn: Vec<(FaultKind, usize)> = Vec::new();
    while left > 0.0 {
        let kind = FaultKind::ALL[rng.below(FaultKind::ALL.len())];
        let (median, sigma, least, greatest) = kind.lengths();
        let length = rng
            .lognormal(median, sigma)
            .clamp(least, greatest)
            .round()
            .min(windows as f64 / 2.0);
        if length > left && !rng.chance(left / length) {
            break;
        }
        left -= length;
        drawn.push((kind, length.max(1.0) as usize));
    }
    let taken: usize = drawn.iter().map(|(_, length)| length + REST).sum();
    let free = windows.saturating_sub(taken);
    let mut starts: Vec<usize> = drawn.iter().map(|_| rng.below(free + 1)).collect();
    starts.sort_unstable();
    let mut before = 0;
    let mut plans = Vec::new();
    for ((kind, length), start) in drawn.into_iter().zip(starts) {
        let first = start + before;
        before += length + REST;
        if first + length <= windows {
            plans.push(one(&mut rng, kind, first..first + length, metrics));
        }
    }
    plans.retain(|p| {
        !room
            .maintenance
            .iter()
            .any(|m| p.span.start < m.end && m.start < p.span.end)
    });
    plans
}

/// Least distance between two faults of a node, in windows: labels of one do not reach the next.
const REST: usize = DAY / 4;

fn one(rng: &mut Rng, kind: FaultKind, span: Range<usize>, metrics: &[Metric]) -> Plan {
    let lag = (1 + rng.below(6)).min(span.len().saturating_sub(1).max(1));
    let readmission = 1 + rng.below(6);
    let (detected, returned) = (span.start + lag, span.end.max(span.start + lag) + readmission);
    let sensors: Vec<usize> = metrics
        .iter()
        .map(|m| m.channel)
        .filter(|c| *c < channel::GANGLIA)
        .collect();
    let part = match kind {
        FaultKind::Fan | FaultKind::GpuLoss => rng.below(GPU_IDS.len()),
        FaultKind::StuckSensor if !sensors.is_empty() => sensors[rng.below(sensors.len())],
        _ => rng.below(2),
    };
    Plan {
        kind,
        ramp: kind.ramp(span.len()),
        detected,
        returned,
        part,
        span,
    }
}

/// The runs that are left when faults kill jobs and drained nodes take none.
pub(super) fn surviving(runs: &[Run], plans: &[Plan], room: &Room) -> Vec<Run> {
    let tick = |window: usize| window as i64 * TICKS;
    let closed: Vec<(i64, i64)> = plans
        .iter()
        .map(|p| {
            (
                tick(if p.kind.kills_jobs() {
                    p.span.start
                } else {
                    p.detected
                }),
                tick(p.returned),
            )
        })
        .chain(room.maintenance.iter().map(|m| (tick(m.start), tick(m.end))))
        .collect();
    let deaths: Vec<i64> = plans
        .iter()
        .filter(|p| p.kind.kills_jobs())
        .map(|p| tick(p.span.start) + TICKS / 3)
        .chain(room.maintenance.iter().map(|m| tick(m.start)))
        .collect();
    let open = runs
        .iter()
        .filter(|run| !closed.iter().any(|(from, to)| (*from..*to).contains(&run.from)));
    open.map(|run| {
        let killed = deaths
            .iter()
            .filter(|death| (run.from..run.to).contains(death))
            .min();
        Run {
            to: killed.copied().unwrap_or(run.to),
            ..*run
        }
    })
    .filter(|run| run.from < run.to)
    .collect()
}
