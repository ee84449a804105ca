//! One node through time.

use super::catalogue::{self, Metric, channel};
use super::fault::{self, FaultKind, Plan};
use super::hardware::Hardware;
use super::jobs::{self, Run, TICKS};
use super::load::LoadCourse;
use super::options::{ClusterOptions, RACK, Statistics};
use super::physics::{Body, Outside, Trouble, Values};
use super::random::{Rng, Stream};
use super::room::{Room, Wander, rack_of};
use super::sampling::Sampler;

/// All that is fixed about a node before its time begins.
pub(super) struct Node {
    pub(super) index: usize,
    pub(super) hardware: Hardware,
    pub(super) metrics: Vec<Metric>,
    pub(super) plans: Vec<Plan>,
    pub(super) runs: Vec<Run>,
}

impl Node {
    pub(super) fn new(options: &ClusterOptions, room: &Room, index: usize) -> Node {
        let hardware = Hardware::new(options.seed, index, options.heterogeneity);
        let metrics = catalogue::metrics(&hardware.slots, options.metrics);
        let plans = fault::plan(options, index, &metrics, room);
        let mut rack = jobs::schedule(options.seed, rack_of(index), options.windows());
        let runs = fault::surviving(&rack.swap_remove(index % RACK), &plans, room);
        Node {
            index,
            hardware,
            metrics,
            plans,
            runs,
        }
    }

    /// Whether a job held the node for more than half of each window.
    pub(super) fn busy(&self, windows: usize) -> Vec<bool> {
        let mut ticks = vec![0i64; windows];
        for run in &self.runs {
            let first = (run.from / TICKS) as usize;
            let last = ((run.to - 1) / TICKS) as usize;
            for (window, ticks) in ticks.iter_mut().enumerate().take(last + 1).skip(first) {
                let begin = window as i64 * TICKS;
                *ticks += run.to.min(begin + TICKS) - run.from.max(begin);
            }
        }
        ticks.into_iter().map(|t| 2 * t > TICKS).collect()
    }
}

/// What monitoring lost of a window.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    Nothing,
    /// The whole window.
    All,
    /// What the operating system reports.
    System,
    /// One metric.
    One(usize),
}

/// One window: the sensors before and after it, and what happened in it.
pub(super) struct Moment {
    pub(super) window: usize,
    before: Values,
    after: Values,
    change: Option<usize>,
    stuck: Option<usize>,
    gap: Gap,
    bits: Rng,
}

/// A node's windows, one after another.
pub(super) struct NodeCourse<'a> {
    options: &'a ClusterOptions,
    room: &'a Room,
    pub(super) node: Node,
    load: LoadCourse<'a>,
    air: Vec<f64>,
    breeze: Wander,
    body: Body,
    rng: Rng,
    gaps: Rng,
    lost: (usize, usize),
    values: Option<Values>,
    held: Option<(usize, f64)>,
    window: usize,
}

impl<'a> NodeCourse<'a> {
    pub(super) fn new(options: &'a ClusterOptions, room: &'a Room, node: Node) -> NodeCourse<'a> {
        let mut rng = Rng::new(options.seed, Stream::Fault, node.index as u64);
        let breeze = Wander::new(0.93, &mut rng);
        NodeCourse {
            options,
            room,
            load: LoadCourse::new(options, node.index, node.runs.clone()),
            air: room.rack_air(options, rack_of(node.index)),
            breeze,
            body: Body::new(&mut rng),
            rng,
            gaps: Rng::new(options.seed, Stream::Gaps, node.index as u64),
            lost: (0, 0),
            values: None,
            held: None,
            window: 0,
            node,
        }
    }

    fn plan(&self) -> Option<Plan> {
        self.node
            .plans
            .iter()
            .find(|p| p.span.contains(&self.window))
            .cloned()
    }

    fn trouble(&self, plan: &Plan) -> Trouble {
        Trouble {
            kind: plan.kind,
            part: plan.part,
            severity: plan.severity(self.window),
            age: self.window - plan.span.start,
        }
    }

    /// The next window, none after the last.
    pub(super) fn advance(&mut self) -> Option<Moment> {
        let window = self.window;
        let air = *self.air.get(window)? + self.node.hardware.ambient + 0.8 * self.breeze.step(&mut self.rng);
        let plan = self.plan();
        let (load, change) = self.load.step(window);
        let outside = Outside {
            load: &load,
            air,
            mains: self.room.mains(window),
            trouble: plan.as_ref().map(|p| self.trouble(p)),
        };
        let mut after = self.body.step(&self.node.hardware, &outside, &mut self.rng);
        self.restarts(window, &mut after);
        let before = self.before(&after);
        let stuck = self.hold(plan.as_ref(), &before);
        self.values = Some(after);
        self.window += 1;
        Some(Moment {
            window,
            before,
            after,
            change,
            stuck,
            gap: self.gap(),
            bits: Rng::new(
                self.options.seed,
                Stream::Sensors,
                ((self.node.index as u64) << 32) | window as u64,
            ),
        })
    }

    /// Where the window begins: where the last one ended, or here for a sensor that was silent then.
    fn before(&self, after: &Values) -> Values {
        let last = self.values.as_ref().unwrap_or(after);
        std::array::from_fn(|c| if last[c].is_nan() { after[c] } else { last[c] })
    }

    /// Systems come up anew at the end of an outage, and maintenance keeps them down for its first half.
    fn restarts(&mut self, window: usize, after: &mut Values) {
        let down = |range: &std::ops::Range<usize>| (range.start + range.end) / 2;
        let ended = |p: &Plan| p.kind.kills_jobs() && p.span.end == window + 1;
        let maintained = self.room.maintenance.iter().any(|m| down(m) == window);
        if maintained || self.node.plans.iter().any(ended) {
            self.body.restart();
        }
        if self
            .room
            .maintenance
            .iter()
            .any(|m| (m.start..down(m)).contains(&window))
        {
            after[channel::GANGLIA..].fill(f64::NAN);
        }
    }

    /// The channel that repeats its value, if one does; it holds what it read when it stuck.
    fn hold(&mut self, plan: Option<&Plan>, before: &Values) -> Option<usize> {
        self.held = match plan {
            Some(p) if p.kind == FaultKind::StuckSensor => self
                .held
                .or_else(|| before.get(p.part).map(|value| (p.part, *value))),
            _ => None,
        };
        self.held.map(|(channel, _)| channel)
    }

    /// Losses come in runs of a few windows.
    fn gap(&mut self) -> Gap {
        let rng = &mut self.gaps;
        let (all, system, one) = (rng.chance(0.0018), rng.chance(0.002), rng.chance(0.02));
        let (length, metric) = (1 + rng.below(4), rng.below(self.node.metrics.len().max(1)));
        self.lost = (self.lost.0.saturating_sub(1), self.lost.1.saturating_sub(1));
        if all {
            self.lost.0 = length;
        }
        if system {
            self.lost.1 = length;
        }
        match self.lost {
            (1.., _) => Gap::All,
            (_, 1..) => Gap::System,
            _ if one => Gap::One(metric),
            _ => Gap::Nothing,
        }
    }

    /// The value at which a sensor is stuck.
    pub(super) fn held(&self) -> Option<f64> {
        self.held.map(|(_, value)| value)
    }
}

impl Moment {
    /// Whether monitoring has the window at all.
    pub(super) fn is_lost(&self) -> bool {
        self.gap == Gap::All
    }

    /// Appends the window's row.
    pub(super) fn row(
        &mut self,
        metrics: &[Metric],
        held: Option<f64>,
        keep: Statistics,
        sampler: &mut Sampler,
        out: &mut Vec<f32>,
    ) {
        for (i, metric) in metrics.iter().enumerate() {
            let bits = self.bits.bits();
            let summary = match self.ends(i, metric, held) {
                Some(Ends::Fixed(value)) => [value, 0.0, value, value],
                Some(Ends::Course(from, to)) => sampler.window(metric, (from, to), self.change, bits),
                None => [f32::NAN; 4],
            };
            match keep {
                Statistics::All => out.extend(summary),
                Statistics::Average => out.push(summary[0]),
            }
        }
    }

    /// The readings of every metric of the window, metric by metric.
    pub(super) fn readings(
        &mut self,
        metrics: &[Metric],
        held: Option<f64>,
        sampler: &mut Sampler,
        mut each: impl FnMut(usize, &mut dyn Iterator<Item = f64>),
    ) {
        for (i, metric) in metrics.iter().enumerate() {
            let bits = self.bits.bits();
            match self.ends(i, metric, held) {
                Some(Ends::Fixed(value)) => {
                    let mut same = std::iter::repeat_n(f64::from(value), metric.samples());
                    each(i, &mut same);
                }
                Some(Ends::Course(from, to)) => {
                    each(i, &mut sampler.readings(metric, (from, to), self.change, bits));
                }
                None => {}
            }
        }
    }

    fn ends(&self, index: usize, metric: &Metric, held: Option<f64>) -> Option<Ends> {
        let silent = match self.gap {
            Gap::All => true,
            Gap::System => metric.is_ganglia(),
            Gap::One(lost) => lost == index,
            Gap::Nothing => false,
        };
        match (self.stuck, held) {
            _ if silent => None,
            (Some(channel), Some(value)) if channel == metric.channel => Some(Ends::Fixed(
                ((value / metric.quantum).round() * metric.quantum) as f32,
            )),
            _ => Some(Ends::Course(
                self.before[metric.channel],
                self.after[metric.channel],
            )),
        }
    }
}

/// A metric's course through a window.
enum Ends {
    Fixed(f32),
    Course(f64, f64),
}
