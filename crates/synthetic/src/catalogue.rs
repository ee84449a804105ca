//! The metrics: their names on Marconi100, how often they are read, how finely, and how noisily.
//!
//! Steps of the readings were found in the window means of real nodes, which are multiples of a step over 45
//! (M100 ExaData, CC BY 4.0).

use super::options::ReportedMetrics;

/// How fast a metric follows a change of load.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// At once: power, utilisation.
    Fast,
    /// Within minutes: silicon temperatures, fans.
    Warm,
    /// Within half an hour: memory modules, the room.
    Slow,
}

/// Where a metric's value stands in the array that physics fills.
pub(super) mod channel {
    pub(crate) const AMBIENT: usize = 0;
    pub(crate) const PCIE: usize = 1;
    pub(crate) const DIMM: usize = 2;
    pub(crate) const FAN: usize = 18;
    pub(crate) const FAN_DISK_POWER: usize = 26;
    pub(crate) const GPU_CORE: usize = 27;
    pub(crate) const GPU_MEM: usize = 31;
    pub(crate) const CORE: usize = 35;
    pub(crate) const IO_POWER: usize = 83;
    pub(crate) const MEM_POWER: usize = 85;
    pub(crate) const POWER: usize = 87;
    pub(crate) const VDD_TEMP: usize = 89;
    pub(crate) const PS_INPUT_POWER: usize = 91;
    pub(crate) const PS_INPUT_VOLTAGE: usize = 93;
    pub(crate) const PS_OUTPUT_CURRENT: usize = 95;
    pub(crate) const PS_OUTPUT_VOLTAGE: usize = 97;
    pub(crate) const TOTAL_POWER: usize = 99;
    /// From here on the operating system reports, not the board.
    pub(crate) const GANGLIA: usize = 100;
    pub(crate) const CPU_USER: usize = 100;
    pub(crate) const CPU_SYSTEM: usize = 101;
    pub(crate) const CPU_IDLE: usize = 102;
    pub(crate) const CPU_WIO: usize = 103;
    pub(crate) const LOAD_ONE: usize = 104;
    pub(crate) const LOAD_FIVE: usize = 105;
    pub(crate) const LOAD_FIFTEEN: usize = 106;
    pub(crate) const MEM_FREE: usize = 107;
    pub(crate) const MEM_CACHED: usize = 108;
    pub(crate) const BYTES_IN: usize = 109;
    pub(crate) const BYTES_OUT: usize = 110;
    pub(crate) const PKTS_IN: usize = 111;
    pub(crate) const PKTS_OUT: usize = 112;
    pub(crate) const PROC_RUN: usize = 113;
    pub(crate) const PROC_TOTAL: usize = 114;
    pub(crate) const GPU_UTILIZATION: usize = 115;
    pub(crate) const GPU_POWER: usize = 119;
    pub(crate) const GPU_CLOCK: usize = 123;
    pub(crate) const GPU_FB_USED: usize = 127;
    pub(crate) const COUNT: usize = 131;
}

/// The numbers the board's firmware gives the four GPUs.
pub(super) const GPU_IDS: [usize; 4] = [0, 1, 3, 4];

/// One metric of one node.
#[derive(Clone, Debug)]
pub(super) struct Metric {
    pub(super) name: String,
    pub(super) channel: usize,
    /// The step of a reading.
    pub(super) quantum: f64,
    /// Deviation of a reading from the window's course.
    pub(super) noise: f64,
    /// Deviation of a window's course from what physics says.
    pub(super) jitter: f64,
    /// Noise as a share of the value, for what has no natural scale.
    pub(super) relative: f64,
    /// Seconds between two readings.
    pub(super) period: i64,
    pub(super) response: Response,
    pub(super) ceiling: f64,
}

impl Metric {
    pub(super) fn samples(&self) -> usize {
        (super::STEP / self.period) as usize
    }

    pub(super) fn is_ganglia(&self) -> bool {
        self.channel >= channel::GANGLIA
    }
}

struct Kind(f64, f64, f64, f64, i64, Response, f64);

impl Kind {
    fn of(&self, name: String, channel: usize) -> Metric {
        let Kind(quantum, noise, jitter, relative, period, response, ceiling) = *self;
        Metric {
            name,
            channel,
            quantum,
            noise,
            jitter,
            relative,
            period,
            response,
            ceiling,
        }
    }
}

use Response::{Fast, Slow, Warm};

const NONE: f64 = f64::INFINITY;
const AIR: Kind = Kind(0.2, 0.22, 0.03, 0.0, 20, Slow, NONE);
const SLOT: Kind = Kind(0.1, 0.12, 0.05, 0.0, 20, Warm, NONE);
const MODULE: Kind = Kind(1.0, 0.15, 0.03, 0.0, 20, Slow, NONE);
const ROTOR: Kind = Kind(100.0, 45.0, 5.0, 0.0, 20, Warm, NONE);
const FANS_POWER: Kind = Kind(2.0, 1.2, 0.2, 0.0, 20, Warm, NONE);
const SILICON: Kind = Kind(1.0, 0.45, 0.1, 0.0, 20, Warm, NONE);
const WATT: Kind = Kind(1.0, 0.7, 0.1, 0.0, 20, Fast, NONE);
const TWO_WATT: Kind = Kind(2.0, 1.2, 0.1, 0.02, 20, Fast, NONE);
const SUPPLY: Kind = Kind(10.0, 6.0, 0.8, 0.012, 20, Fast, NONE);
const MAINS: Kind = Kind(2.0, 0.3, 0.05, 0.0, 20, Slow, NONE);
const AMPERE: Kind = Kind(1.0, 0.4, 0.06, 0.012, 20, Fast, NONE);
const VOLT: Kind = Kind(0.1, 0.02, 0.003, 0.0, 20, Fast, NONE);
const NODE_WATT: Kind = Kind(20.0, 12.0, 1.5, 0.015, 20, Fast, NONE);
const PERCENT: Kind = Kind(0.1, 0.02, 0.0, 0.06, 90, Fast, 100.0);
const LOAD: Kind = Kind(0.01, 0.05, 0.0, 0.05, 90, Fast, NONE);
const MEMORY: Kind = Kind(1024.0, 3000.0, 8000.0, 0.0005, 40, Fast, NONE);
const TRAFFIC: Kind = Kind(1.0, 10.0, 0.0, 0.25, 40, Fast, NONE);
const PACKETS: Kind = Kind(0.1, 1.0, 0.0, 0.12, 40, Fast, NONE);
const PROCESSES: Kind = Kind(1.0, 2.0, 0.5, 0.0, 80, Fast, NONE);
const RUNNING: Kind = Kind(1.0, 0.3, 0.0, 0.2, 80, Fast, NONE);
const USE: Kind = Kind(1.0, 0.0, 0.0, 0.1, 20, Fast, 100.0);
const GPU_WATT: Kind = Kind(0.1, 0.3, 0.05, 0.05, 20, Fast, 310.0);
const CLOCK: Kind = Kind(7.5, 0.0, 0.0, 0.004, 20, Fast, 1530.0);
const FRAME_BUFFER: Kind = Kind(1.0, 0.0, 0.0, 0.003, 20, Fast, 16160.0);

/// The metrics of a node whose sockets have these slots populated, in the order of their names.
pub(super) fn metrics(slots: &[Vec<usize>; 2], wanted: ReportedMetrics) -> Vec<Metric> {
    let mut all = board(slots);
    if wanted != ReportedMetrics::Ipmi {
        all.extend(system());
    }
    if wanted == ReportedMetrics::Few {
        all.retain(|m| FEW.contains(&m.name.as_str()));
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

const FEW: [&str; 13] = [
    "ambient",
    "cpu_user",
    "dimm0_temp",
    "fan0_0",
    "Gpu0_gpu_utilization",
    "gpu0_core_temp",
    "load_one",
    "mem_free",
    "p0_power",
    "p0_vdd_temp",
    "ps0_input_power",
    "ps1_input_power",
    "total_power",
];

fn board(slots: &[Vec<usize>; 2]) -> Vec<Metric> {
    use channel::*;
    let mut all = vec![
        AIR.of("ambient".into(), AMBIENT),
        SLOT.of("pcie".into(), PCIE),
        FANS_POWER.of("fan_disk_power".into(), FAN_DISK_POWER),
        NODE_WATT.of("total_power".into(), TOTAL_POWER),
    ];
    all.extend((0..16).map(|i| MODULE.of(format!("dimm{i}_temp"), DIMM + i)));
    all.extend((0..8).map(|i| ROTOR.of(format!("fan{}_{}", i / 2, i % 2), FAN + i)));
    for (i, id) in GPU_IDS.iter().enumerate() {
        all.push(SILICON.of(format!("gpu{id}_core_temp"), GPU_CORE + i));
        all.push(SILICON.of(format!("gpu{id}_mem_temp"), GPU_MEM + i));
    }
    for (s, populated) in slots.iter().enumerate() {
        all.extend(
            populated
                .iter()
                .map(|c| SILICON.of(format!("p{s}_core{c}_temp"), CORE + 24 * s + c)),
        );
        all.push(WATT.of(format!("p{s}_io_power"), IO_POWER + s));
        all.push(TWO_WATT.of(format!("p{s}_mem_power"), MEM_POWER + s));
        all.push(TWO_WATT.of(format!("p{s}_power"), POWER + s));
        all.push(SILICON.of(format!("p{s}_vdd_temp"), VDD_TEMP + s));
        all.push(SUPPLY.of(format!("ps{s}_input_power"), PS_INPUT_POWER + s));
        all.push(MAINS.of(format!("ps{s}_input_voltag"), PS_INPUT_VOLTAGE + s));
        all.push(AMPERE.of(format!("ps{s}_output_curre"), PS_OUTPUT_CURRENT + s));
        all.push(VOLT.of(format!("ps{s}_output_volta"), PS_OUTPUT_VOLTAGE + s));
    }
    all
}

fn system() -> Vec<Metric> {
    use channel::*;
    let singles = [
        ("cpu_user", CPU_USER, PERCENT),
        ("cpu_system", CPU_SYSTEM, PERCENT),
        ("cpu_idle", CPU_IDLE, Kind(0.1, 0.02, 0.0, 0.004, 90, Fast, 100.0)),
        ("cpu_wio", CPU_WIO, Kind(0.1, 0.0, 0.0, 0.0, 90, Fast, 100.0)),
        ("load_one", LOAD_ONE, LOAD),
        ("load_five", LOAD_FIVE, LOAD),
        (
            "load_fifteen",
            LOAD_FIFTEEN,
            Kind(0.01, 0.02, 0.0, 0.01, 90, Slow, NONE),
        ),
        ("mem_free", MEM_FREE, MEMORY),
        ("mem_cached", MEM_CACHED, MEMORY),
        ("bytes_in", BYTES_IN, TRAFFIC),
        ("bytes_out", BYTES_OUT, TRAFFIC),
        ("pkts_in", PKTS_IN, PACKETS),
        ("pkts_out", PKTS_OUT, PACKETS),
        ("proc_run", PROC_RUN, RUNNING),
        ("proc_total", PROC_TOTAL, PROCESSES),
    ];
    let mut all: Vec<Metric> = singles
        .into_iter()
        .map(|(name, at, kind)| kind.of(name.into(), at))
        .collect();
    for g in 0..4 {
        all.push(USE.of(format!("Gpu{g}_gpu_utilization"), GPU_UTILIZATION + g));
        all.push(GPU_WATT.of(format!("Gpu{g}_power_usage"), GPU_POWER + g));
        all.push(CLOCK.of(format!("Gpu{g}_sm_clock"), GPU_CLOCK + g));
        all.push(FRAME_BUFFER.of(format!("Gpu{g}_fb_used"), GPU_FB_USED + g));
    }
    all
}
