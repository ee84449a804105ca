//! Who computes where: jobs that hold one or several nodes of a rack, one after another with short gaps.

use super::options::{ClusterOptions, RACK};
use super::random::{Rng, Stream, wave};

/// Board readings in a window; jobs begin and end at readings, not at windows.
pub(super) const TICKS: i64 = 45;

/// A job on one node, from one reading until before another.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) job: u64,
}

/// The runs of every node of a rack, in time order, until the rack is booked for `windows` windows.
///
/// A rack is always scheduled with all its nodes, so that a node's jobs do not depend on the size of the cluster.
pub(super) fn schedule(seed: u64, rack: usize, windows: usize) -> Vec<Vec<Run>> {
    let mut rng = Rng::new(seed, Stream::Schedule, rack as u64);
    let horizon = windows as i64 * TICKS;
    let mut runs = vec![Vec::new(); RACK];
    let mut free: Vec<i64> = (0..RACK).map(|_| rng.below(40 * TICKS as usize) as i64).collect();
    for number in 0u64.. {
        let mut order: Vec<usize> = (0..RACK).collect();
        order.sort_by_key(|&node| (free[node], node));
        if free[order[0]] >= horizon {
            break;
        }
        let width = match rng.uniform() {
            u if u < 0.60 => 1,
            u if u < 0.82 => 2,
            u if u < 0.95 => 4,
            _ => 8,
        };
        let gap = rng.lognormal(1.3, 1.0).min(60.0);
        let length = rng.lognormal(20.0, 1.15).clamp(0.4, 96.0);
        let ready = free[order[width - 1]].min(free[order[0]] + 24 * TICKS);
        let from = ready + (gap * TICKS as f64) as i64;
        let to = from + (length * TICKS as f64) as i64 + 1;
        let job = ((rack as u64) << 32) | number;
        for &node in &order[..width] {
            if free[node] <= ready {
                runs[node].push(Run { from, to, job });
                free[node] = to;
            }
        }
    }
    runs
}

/// What a job asks of each of its nodes.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Share of the sockets' power range, 0 to 1.
    pub(super) cpu: f64,
    /// Utilisation of each GPU, 0 to 1.
    pub(super) gpu: [f64; 4],
    /// Which GPUs it holds.
    pub(super) held: [bool; 4],
    /// Power per utilisation, around 1.
    pub(super) heat: f64,
    /// Share of the memory bandwidth.
    pub(super) bandwidth: f64,
    /// Memory in kB.
    pub(super) memory: f64,
    /// Memory of each held GPU in MB.
    pub(super) frame: f64,
    /// Percent of the cores' time.
    pub(super) user: f64,
    pub(super) system: f64,
    /// Runnable threads per busy hardware thread.
    pub(super) crowd: f64,
    /// Bytes per second.
    pub(super) network: f64,
    /// How restless its load is.
    pub(super) rough: f64,
}

impl Job {
    /// The job of a run. The mix of CPU and GPU work drifts over months.
    pub(super) fn of(run: &Run, options: &ClusterOptions) -> Job {
        let mut rng = Rng::new(options.seed, Stream::Job, run.job);
        let days = run.from as f64 / (96 * TICKS) as f64;
        let phase = Rng::new(options.seed, Stream::Job, u64::MAX).uniform();
        let on_cpu = rng.chance(0.38 + 0.12 * options.drift.min(2.0) * wave(days / 70.0 + phase));
        let cpu = match on_cpu {
            true => rng.between(0.55, 1.0),
            false => rng.between(0.04, 0.32),
        };
        let gpus = match (on_cpu, rng.uniform()) {
            (true, u) if u < 0.25 => 0,
            (_, u) if u < 0.50 => 1 + rng.below(3),
            _ => 4,
        };
        let level = match on_cpu {
            true => rng.between(0.05, 0.65),
            false => 1.0 - 0.85 * rng.uniform() * rng.uniform().sqrt(),
        };
        let (mut gpu, mut held) = ([0.0; 4], [false; 4]);
        for g in 0..gpus {
            held[g] = true;
            gpu[g] = (level * rng.between(0.88, 1.06)).min(0.99);
        }
        let user = 44.0 * cpu * cpu * rng.lognormal(1.0, 0.35);
        let crowded = rng.chance(0.05);
        Job {
            cpu,
            gpu,
            held,
            heat: rng.between(0.72, 1.25),
            bandwidth: (cpu * rng.between(0.0, 1.0)).max(0.03),
            memory: rng.lognormal(2.9e7, 0.9).min(2.3e8),
            frame: rng.lognormal(4200.0, 0.85).min(15_900.0),
            user: user.min(88.0),
            system: rng.lognormal(0.5, 1.3).min(20.0),
            crowd: if crowded {
                rng.lognormal(6.0, 0.7)
            } else {
                rng.between(0.95, 1.2)
            },
            network: rng.lognormal(5000.0, 1.6).min(1.5e6),
            rough: rng.lognormal(0.5, 0.8).min(2.5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_node_do_not_overlap_and_keep_it_mostly_busy() {
        let windows = 60 * 96;
        for runs in schedule(3, 1, windows) {
            assert!(
                runs.windows(2)
                    .all(|pair| pair[0].to <= pair[1].from && pair[0].from < pair[0].to)
            );
            let busy: i64 = runs
                .iter()
                .map(|run| run.to.min(windows as i64 * TICKS) - run.from)
                .sum();
            let share = busy as f64 / (windows as i64 * TICKS) as f64;
            assert!((0.72..0.95).contains(&share), "busy {share}");
        }
    }

    #[test]
    fn some_jobs_span_nodes_and_begin_together() {
        let rack = schedule(3, 0, 30 * 96);
        let all: Vec<Run> = rack.into_iter().flatten().collect();
        let shared = all
            .iter()
            .filter(|a| all.iter().any(|b| a.job == b.job && *a != b))
            .count();
        assert_eq!(shared, 0, "two runs of a job differ in time");
        let together = all
            .iter()
            .filter(|a| all.iter().filter(|b| a.job == b.job).count() > 1)
            .count();
        assert!(together * 5 > all.len(), "{together} of {}", all.len());
    }

    #[test]
    fn a_longer_schedule_begins_like_a_shorter_one() {
        let (short, long) = (schedule(5, 2, 500), schedule(5, 2, 1500));
        for (a, b) in short.iter().zip(&long) {
            assert!(b.starts_with(a) && b.len() > a.len());
        }
    }
}
