//! From a node's jobs to its load, window by window.

use super::jobs::{Job, Run, TICKS};
use super::options::ClusterOptions;
use super::random::{Rng, Stream};
use super::room::Wander;

/// What a node's parts are asked to do at the end of a window.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    pub(super) busy: bool,
    pub(super) cpu: [f64; 2],
    pub(super) gpu: [f64; 4],
    pub(super) held: [bool; 4],
    pub(super) heat: f64,
    pub(super) bandwidth: f64,
    pub(super) memory: f64,
    pub(super) frame: f64,
    pub(super) user: f64,
    pub(super) system: f64,
    pub(super) threads: f64,
    pub(super) network: f64,
    /// Whether idle GPUs keep their clocks up.
    pub(super) awake: bool,
}

/// Walks through a node's runs.
pub(super) struct LoadCourse<'a> {
    options: &'a ClusterOptions,
    runs: Vec<Run>,
    at: usize,
    job: Option<(u64, Job)>,
    rng: Rng,
    cpu: Wander,
    gpu: Wander,
    skew: Wander,
    burst: f64,
    awake: bool,
}

impl<'a> LoadCourse<'a> {
    pub(super) fn new(options: &'a ClusterOptions, node: usize, runs: Vec<Run>) -> LoadCourse<'a> {
        let mut rng = Rng::new(options.seed, Stream::Load, node as u64);
        let (cpu, gpu, skew) = (
            Wander::new(0.95, &mut rng),
            Wander::new(0.95, &mut rng),
            Wander::new(0.95, &mut rng),
        );
        LoadCourse {
            options,
            runs,
            at: 0,
            job: None,
            rng,
            cpu,
            gpu,
            skew,
            burst: 0.0,
            awake: false,
        }
    }

    /// The load at the end of a window, and the reading in it at which the last job began or ended, if any did.
    pub(super) fn step(&mut self, window: usize) -> (Load, Option<usize>) {
        let (begin, end) = (window as i64 * TICKS, (window as i64 + 1) * TICKS);
        let mut change = None;
        while let Some(run) = self.runs.get(self.at).filter(|run| run.to < end) {
            if run.to >= begin {
                change = Some((run.to - begin) as usize);
            }
            self.at += 1;
            self.awake = self.rng.chance(0.2);
        }
        let current = self.runs.get(self.at).filter(|run| run.from < end);
        if let Some(run) = current {
            if run.from >= begin {
                change = Some((run.from - begin) as usize);
            }
            if self.job.as_ref().map(|(id, _)| *id) != Some(run.job) {
                self.job = Some((run.job, Job::of(run, self.options)));
            }
        }
        let busy = current.is_some();
        (self.load(busy), change)
    }

    fn load(&mut self, busy: bool) -> Load {
        let rng = &mut self.rng;
        let (slow, wide, skew) = (self.cpu.step(rng), self.gpu.step(rng), self.skew.step(rng));
        let (white, other, spike) = (rng.normal(), rng.normal(), rng.lognormal(1.0, 1.9));
        // Traffic comes in bursts that fade within an hour.
        self.burst *= 0.4;
        if rng.chance(if busy { 0.005 } else { 0.0021 }) {
            self.burst = (self.burst + 2.7e5 * spike).min(6.0e6);
        }
        let background = Load {
            cpu: [
                (0.012 * slow).max(-0.02) + 0.01,
                (0.012 * slow).max(-0.02) + 0.015,
            ],
            memory: 1.65e7,
            user: 0.12,
            system: 0.03,
            threads: 0.25 + 0.05 * (1.0 + white).max(0.0),
            network: 9.0e3 + 1.5e3 * wide + 0.35 * self.burst,
            heat: 1.0,
            awake: self.awake,
            ..Load::default()
        };
        let Some((_, job)) = self.job.as_ref().filter(|_| busy) else {
            return background;
        };
        let swing = 1.0 + job.rough * (0.05 * slow + 0.04 * white);
        let gpu_swing = 1.0 + job.rough * (0.06 * wide + 0.07 * other);
        let cpu = job.cpu * swing;
        let user = (job.user * swing).clamp(0.3, 99.0);
        Load {
            busy: true,
            cpu: [1.0, -1.0].map(|side| (cpu * (1.0 + 0.06 * side * skew)).clamp(0.0, 1.1)),
            gpu: job.gpu.map(|u| (u * gpu_swing).clamp(0.0, 1.0)),
            held: job.held,
            heat: job.heat,
            bandwidth: (job.bandwidth * (1.0 + 0.1 * white)).clamp(0.0, 1.0),
            memory: background.memory + job.memory * (1.0 + 0.02 * slow),
            frame: job.frame,
            user,
            system: (job.system * (1.0 + 0.15 * job.rough * other)).max(0.05),
            threads: (0.5 + 1.28 * user * job.crowd).min(900.0),
            network: background.network + job.network * (1.0 + 0.5 * wide).max(0.1) + self.burst,
            awake: true,
        }
    }
}
