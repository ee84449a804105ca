//! From load and air to every sensor of a node.
//!
//! Power follows load at once; temperatures follow power through a lag; fans follow the hottest chip and cool all of them;
//! the supplies share what the node draws. Constants were chosen so that means and deviations of busy and idle windows are
//! those measured on Marconi100 (M100 ExaData, CC BY 4.0).

use super::catalogue::channel::{self, *};
use super::fault::FaultKind;
use super::hardware::Hardware;
use super::load::Load;
use super::random::Rng;
use super::room::Wander;

/// The value of every channel at one moment.
pub(super) type Values = [f64; channel::COUNT];

/// The fault that is at work.
#[derive(Copy, Clone, Debug)]
pub(super) struct Trouble {
    pub(super) kind: FaultKind,
    pub(super) part: usize,
    pub(super) severity: f64,
    /// Windows since it began.
    pub(super) age: usize,
}

/// What one window of physics needs from outside.
pub(super) struct Outside<'a> {
    pub(super) load: &'a Load,
    pub(super) air: f64,
    pub(super) mains: f64,
    pub(super) trouble: Option<Trouble>,
}

/// A node's slow quantities.
pub(super) struct Body {
    hot: f64,
    fan: f64,
    dimm: [f64; 16],
    load_fifteen: f64,
    cached: f64,
    processes: Wander,
    packets: Wander,
}

const TOP_FAN: f64 = 8400.0;
const MEMORY_TOTAL: f64 = 3.232e8;

impl Body {
    pub(super) fn new(rng: &mut Rng) -> Body {
        Body {
            hot: 45.0,
            fan: 4300.0,
            dimm: [31.0; 16],
            load_fifteen: 1.0,
            cached: 3.0e6,
            processes: Wander::new(0.993, rng),
            packets: Wander::new(0.8, rng),
        }
    }

    /// The sensors at the end of a window.
    pub(super) fn step(&mut self, hw: &Hardware, outside: &Outside<'_>, rng: &mut Rng) -> Values {
        let mut v = [0.0; channel::COUNT];
        let trouble = outside.trouble;
        v[AMBIENT] = outside.air;
        self.power(hw, outside, &mut v);
        let cooling = self.fans(hw, trouble, &mut v, rng);
        self.heat(hw, outside, cooling, &mut v);
        supplies(hw, outside, &mut v);
        self.system(hw, outside, &mut v, rng);
        silence(trouble, &mut v);
        v
    }

    fn power(&self, hw: &Hardware, outside: &Outside<'_>, v: &mut Values) {
        let load = outside.load;
        let throttle = strength(outside.trouble, FaultKind::Throttling);
        for s in 0..2 {
            let range = hw.cpu_gain[s];
            let free = range * load.cpu[s].max(-0.1) * (1.0 - 0.35 * throttle);
            // A governor stuck low halves what load can draw; stuck high it draws at idle too.
            let governed = match outside.trouble {
                Some(Trouble {
                    kind: FaultKind::Governor,
                    part: 0,
                    ..
                }) => 0.3 * free - 6.0,
                Some(Trouble {
                    kind: FaultKind::Governor,
                    ..
                }) => free.max(0.5 * range) + 0.1 * range,
                Some(Trouble {
                    kind: FaultKind::Reboot,
                    ..
                }) => 0.15 * range,
                _ => free,
            };
            v[POWER + s] = hw.cpu_idle[s] + governed;
            let traffic = load.bandwidth * load.bandwidth;
            v[MEM_POWER + s] = 18.05 + hw.memory[s] + hw.bandwidth * (17.0 * traffic + 1.6 * load.bandwidth);
            v[IO_POWER + s] = 53.4 + hw.io[s] + 0.06 * v[POWER + s] + 0.3 * (v[MEM_POWER + s] - 18.0);
        }
        for g in 0..4 {
            let awake = if load.held[g] || load.awake { 9.0 } else { 0.0 };
            let drawn = hw.gpu_gain[g] * load.gpu[g] * load.heat * (1.0 - 0.4 * throttle);
            v[GPU_POWER + g] = (hw.gpu_idle[g] + awake + drawn).min(300.0);
            v[GPU_UTILIZATION + g] = 100.0 * load.gpu[g];
            v[GPU_FB_USED + g] = if load.held[g] { load.frame } else { 0.0 };
            let top = match load.gpu[g] * load.heat {
                x if x > 0.85 => 1530.0 - 260.0 * (x - 0.85),
                _ => 1530.0,
            };
            let asleep = if load.awake && !load.busy { 1312.0 } else { 135.0 };
            let clock = if load.held[g] { top } else { asleep };
            v[GPU_CLOCK + g] = clock * (1.0 - 0.5 * throttle);
        }
        if let Some(g) = lost_gpu(outside.trouble) {
            v[GPU_POWER + g] = 0.0;
        }
    }

    /// Fan speeds, and how well chips are cooled: 1 at the fans' lowest speed, less is better.
    fn fans(&mut self, hw: &Hardware, trouble: Option<Trouble>, v: &mut Values, rng: &mut Rng) -> f64 {
        let throttle = strength(trouble, FaultKind::Throttling);
        let broken = strength(trouble, FaultKind::Fan);
        let lift = hw.fan_gain * (self.hot - 56.0).max(0.0);
        let hunting = 1.0 + 0.38 * rng.normal();
        let wanted = hw.fan_floor + (lift * hunting).max(0.0) + 3000.0 * throttle;
        let target = (wanted * (1.0 + 0.22 * broken)).min(TOP_FAN);
        self.fan = target + 0.08 * (self.fan - target);
        for rotor in 0..8 {
            let lift = (self.fan - hw.fan_floor) / hw.fan_floor;
            let speed = self.fan + hw.rotor[rotor] * (1.0 - 0.5 * lift.clamp(0.0, 1.0));
            let dying = match trouble {
                Some(t) if t.kind == FaultKind::Fan && t.part == rotor / 2 => t.severity,
                _ => 0.0,
            };
            v[FAN + rotor] = speed * (1.0 - dying);
        }
        let floor = hw.fan_floor / 4300.0;
        v[FAN_DISK_POWER] = 31.5 * floor * floor + 0.0165 * (self.fan - hw.fan_floor);
        let blown = 1.0 + 0.3 * (self.fan - hw.fan_floor) / 4300.0;
        (1.0 + 0.22 * broken + 0.75 * throttle) / blown
    }

    fn heat(&mut self, hw: &Hardware, outside: &Outside<'_>, cooling: f64, v: &mut Values) {
        let air = outside.air;
        self.hot = 0.0;
        for g in 0..4 {
            let rise = v[GPU_POWER + g] * cooling;
            v[GPU_CORE + g] = air + 5.3 + hw.gpu_warm[g] + [0.172, 0.20, 0.155, 0.195][g] * rise;
            v[GPU_MEM + g] = air + 4.2 + hw.gpu_warm[g] + hw.gpu_memory[g] + 0.19 * rise;
            self.hot = self.hot.max(v[GPU_CORE + g]);
        }
        for s in 0..2 {
            let power = v[POWER + s];
            for c in 24 * s..24 * (s + 1) {
                v[CORE + c] = air + 10.0 + hw.core[c] + 0.215 * hw.core_gain[c] * power * cooling;
            }
            v[VDD_TEMP + s] = 0.85 * air + 10.6 + hw.vdd[s] + 0.095 * power * cooling;
        }
        for (d, dimm) in self.dimm.iter_mut().enumerate() {
            let s = d / 8;
            let (share, base) = [(0.8, 11.0), (0.55, 17.9)][s];
            let steady = share * air
                + base
                + hw.dimm[d]
                + 0.02 * v[POWER + s] * cooling
                + 0.12 * (v[MEM_POWER + s] - 18.0);
            *dimm = steady + 0.45 * (*dimm - steady);
            v[DIMM + d] = *dimm;
        }
        let chips: f64 = (0..4).map(|g| v[GPU_POWER + g]).sum::<f64>() + v[POWER] + v[POWER + 1];
        v[PCIE] = 0.5 * air + 23.3 + hw.pcie + 0.0155 * chips * cooling;
        let drawn = hw.board + chips + v[MEM_POWER] + v[MEM_POWER + 1] + v[FAN_DISK_POWER];
        v[TOTAL_POWER] = hw.meter * drawn;
    }

    fn system(&mut self, hw: &Hardware, outside: &Outside<'_>, v: &mut Values, rng: &mut Rng) {
        let load = outside.load;
        let leak = strength(outside.trouble, FaultKind::MemoryLeak);
        let slow = strength(outside.trouble, FaultKind::Throttling);
        v[CPU_USER] = load.user;
        v[CPU_SYSTEM] = load.system + 4.0 * leak * leak;
        v[CPU_WIO] = if rng.chance(2e-4) {
            4.0
        } else {
            (30.0 * (leak - 0.8)).max(0.0)
        };
        v[CPU_IDLE] = (100.0 - v[CPU_USER] - v[CPU_SYSTEM] - v[CPU_WIO]).max(0.0);
        v[LOAD_ONE] = load.threads * (1.0 + 0.3 * slow) + 20.0 * (leak - 0.8).max(0.0);
        self.load_fifteen += 0.62 * (v[LOAD_ONE] - self.load_fifteen);
        v[LOAD_FIVE] = 0.92 * v[LOAD_ONE] + 0.08 * self.load_fifteen;
        v[LOAD_FIFTEEN] = self.load_fifteen;
        v[PROC_RUN] = v[LOAD_ONE] * (1.0 + 0.22 * rng.normal()).max(0.0);
        let wanted = if load.busy {
            3.2e6 + 0.1 * (load.memory - 1.65e7)
        } else {
            3.1e6
        };
        self.cached += 0.4 * (wanted * hw.cache - self.cached);
        let used = load.memory + (0.97 * MEMORY_TOTAL - load.memory).max(0.0) * leak * 0.95;
        v[MEM_CACHED] = self.cached * (1.0 - 0.9 * leak);
        v[MEM_FREE] = (MEMORY_TOTAL - used - v[MEM_CACHED] + 2.5e6).max(4.0e5);
        let ratio = self.packets.step(rng);
        v[BYTES_IN] = load.network * hw.traffic;
        v[BYTES_OUT] = (1.4 * v[BYTES_IN] + 1.0e4) * (1.0 + 0.3 * ratio).max(0.2);
        v[PKTS_IN] = 52.0 * hw.traffic + v[BYTES_IN] / 600.0;
        v[PKTS_OUT] = 95.0 * hw.traffic + v[BYTES_OUT] / 900.0;
        let crowd = (0.6 * load.threads).min(400.0);
        v[PROC_TOTAL] =
            1990.0 + hw.processes + 190.0 * self.processes.step(rng) + 110.0 * f64::from(load.busy) + crowd;
    }

    /// After a restart nothing is cached and no process is left over.
    pub(super) fn restart(&mut self) {
        self.cached = 8.0e5;
        self.load_fifteen = 0.3;
        self.processes.value = -1.2;
    }
}

/// What the two supplies draw and give. Both readings lie above the node's own meter, as they do on the real boards.
fn supplies(hw: &Hardware, outside: &Outside<'_>, v: &mut Values) {
    let drawn = 1.06 * v[TOTAL_POWER] + 84.0;
    let dead = outside
        .trouble
        .filter(|t| t.kind == FaultKind::PowerSupply)
        .map(|t| t.part);
    for s in 0..2 {
        let share = if s == 0 { hw.share } else { 1.0 - hw.share };
        let carried = match dead {
            Some(d) if d == s => 0.0,
            Some(_) => 1.0,
            None => share,
        };
        v[PS_INPUT_VOLTAGE + s] = outside.mains + hw.mains[s];
        if carried == 0.0 {
            v[PS_INPUT_POWER + s] = 10.0;
            continue;
        }
        let power = drawn * carried;
        let current = ((power - 55.0) / 12.25).max(0.0);
        v[PS_INPUT_POWER + s] = power;
        v[PS_OUTPUT_CURRENT + s] = current;
        v[PS_OUTPUT_VOLTAGE + s] = 12.53 + hw.output[s] - 0.009 * current;
    }
}

/// Sensors that a fault makes silent.
fn silence(trouble: Option<Trouble>, v: &mut Values) {
    let Some(trouble) = trouble else { return };
    match trouble.kind {
        FaultKind::NetworkDown => v[GANGLIA..].fill(f64::NAN),
        FaultKind::Reboot if trouble.age < 1 => v[GANGLIA..].fill(f64::NAN),
        FaultKind::GpuLoss => {
            let g = trouble.part;
            for first in [GPU_CORE, GPU_MEM, GPU_UTILIZATION, GPU_POWER, GPU_FB_USED] {
                v[first + g] = f64::NAN;
            }
            v[GPU_CLOCK + g] = 135.0;
        }
        _ => {}
    }
}

fn strength(trouble: Option<Trouble>, kind: FaultKind) -> f64 {
    trouble.filter(|t| t.kind == kind).map_or(0.0, |t| t.severity)
}

fn lost_gpu(trouble: Option<Trouble>) -> Option<usize> {
    trouble.filter(|t| t.kind == FaultKind::GpuLoss).map(|t| t.part)
}
