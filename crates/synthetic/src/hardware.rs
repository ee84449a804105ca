//! In what a node differs from its neighbours: offsets, gains and which core slots are populated.

use super::random::{Rng, Stream};

/// A node's own constants.
#[derive(Clone, Debug)]
pub(super) struct Hardware {
    /// The populated core slots of each socket, 16 of 24, in pairs.
    pub(super) slots: [Vec<usize>; 2],
    pub(super) ambient: f64,
    pub(super) pcie: f64,
    pub(super) fan_floor: f64,
    pub(super) fan_gain: f64,
    pub(super) rotor: [f64; 8],
    pub(super) cpu_idle: [f64; 2],
    pub(super) cpu_gain: [f64; 2],
    pub(super) gpu_idle: [f64; 4],
    pub(super) gpu_gain: [f64; 4],
    pub(super) gpu_warm: [f64; 4],
    pub(super) gpu_memory: [f64; 4],
    pub(super) core: [f64; 48],
    pub(super) core_gain: [f64; 48],
    pub(super) dimm: [f64; 16],
    pub(super) io: [f64; 2],
    pub(super) memory: [f64; 2],
    pub(super) bandwidth: f64,
    pub(super) cache: f64,
    pub(super) vdd: [f64; 2],
    pub(super) board: f64,
    /// Reading of the power meter over true power.
    pub(super) meter: f64,
    /// The first power supply's share.
    pub(super) share: f64,
    pub(super) output: [f64; 2],
    pub(super) mains: [f64; 2],
    pub(super) processes: f64,
    pub(super) traffic: f64,
}

/// Offsets of the module slots in °C, measured; the last four sit behind the sockets.
const DIMM_SLOT: [f64; 16] = [
    0.0, 0.3, 0.3, 0.2, 0.1, 0.3, 0.0, 0.0, 0.0, 0.5, 0.6, 0.2, 1.0, 2.0, 0.6, 1.7,
];

impl Hardware {
    pub(super) fn new(seed: u64, node: usize, heterogeneity: f64) -> Hardware {
        let mut rng = Rng::new(seed, Stream::Hardware, node as u64);
        let slots = [0, 1].map(|_| slots(&mut rng, heterogeneity));
        let mut off = |deviation: f64| heterogeneity * deviation * rng.normal();
        // A socket's cores share most of their offset: they sit under one cooler.
        let socket = [off(2.2), off(2.2)];
        let gpus = off(2.0);
        Hardware {
            slots,
            ambient: off(1.55),
            pcie: off(1.6),
            fan_floor: 4290.0 + off(330.0),
            fan_gain: 75.0 * gain(off(0.15)),
            rotor: std::array::from_fn(|i| 215.0 * (i % 2) as f64 + off(45.0)),
            cpu_idle: [25.5 + off(3.0), 29.0 + off(3.0)],
            cpu_gain: [114.0 * gain(off(0.24)), 106.0 * gain(off(0.18))],
            gpu_idle: std::array::from_fn(|_| 40.5 + off(2.0)),
            gpu_gain: std::array::from_fn(|_| 176.0 * gain(off(0.18))),
            gpu_warm: std::array::from_fn(|g| [0.0, 3.0, -1.5, 3.5][g] + gpus + off(2.2)),
            gpu_memory: std::array::from_fn(|g| [-2.0, -4.0, -1.5, -4.5][g] + off(0.8)),
            core: std::array::from_fn(|c| socket[c / 24] + off(0.35)),
            core_gain: std::array::from_fn(|_| gain(off(0.05))),
            dimm: std::array::from_fn(|i| DIMM_SLOT[i] + off(0.6)),
            io: [off(3.1), off(2.6)],
            memory: [off(0.2), off(0.2)],
            bandwidth: gain(off(0.35)),
            cache: gain(off(0.1)),
            vdd: [off(1.0), -1.8 + off(1.0)],
            board: 116.0 + off(18.0),
            meter: gain(off(0.06)),
            share: 0.481 + off(0.006),
            output: [off(0.05), off(0.05)],
            mains: [off(0.55), off(0.55)],
            processes: off(125.0),
            traffic: gain(off(0.35)),
        }
    }
}

/// A factor that cannot reach zero, however large the heterogeneity.
fn gain(offset: f64) -> f64 {
    (1.0 + offset).max(0.2)
}

/// Eight of twelve pairs of core slots.
fn slots(rng: &mut Rng, heterogeneity: f64) -> Vec<usize> {
    let mut pairs: Vec<usize> = (0..12).collect();
    for i in 0..4 {
        let other = i + rng.below(12 - i);
        if heterogeneity > 0.0 {
            pairs.swap(i, other);
        }
    }
    let mut chosen: Vec<usize> = pairs[4..].iter().flat_map(|p| [2 * p, 2 * p + 1]).collect();
    chosen.sort_unstable();
    chosen
}
