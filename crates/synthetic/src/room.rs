//! What all nodes share: the air, the mains and the days on which everything stops.

use std::ops::Range;

use super::options::{ClusterOptions, DAY, RACK};
use super::random::{Rng, Stream, wave};

/// The shared course of the machine room.
#[derive(Clone, Debug)]
pub(super) struct Room {
    ambient: Vec<f64>,
    mains: Vec<f64>,
    /// Windows of announced maintenance.
    pub(super) maintenance: Vec<Range<usize>>,
}

/// A first-order autoregression of deviation 1.
pub(super) struct Wander {
    keep: f64,
    fresh: f64,
    pub(super) value: f64,
}

impl Wander {
    pub(super) fn new(keep: f64, rng: &mut Rng) -> Wander {
        Wander {
            keep,
            fresh: (1.0 - keep * keep).sqrt(),
            value: rng.normal(),
        }
    }

    pub(super) fn step(&mut self, rng: &mut Rng) -> f64 {
        self.value = self.keep * self.value + self.fresh * rng.normal();
        self.value
    }
}

impl Room {
    pub(super) fn new(options: &ClusterOptions) -> Room {
        let mut rng = Rng::new(options.seed, Stream::Room, 0);
        let (season, slope) = (rng.uniform(), 0.3 * rng.normal());
        let mut days = Wander::new(0.995, &mut rng);
        let mut weeks = Wander::new(0.9993, &mut rng);
        let mut volts = Wander::new(0.79, &mut rng);
        let (mut ambient, mut mains) = (Vec::new(), Vec::new());
        for w in 0..options.windows() {
            let day = w as f64 / DAY as f64;
            let daily = 0.35 * wave(day - 0.4);
            let slow = 1.0 * wave(day / 365.0 + season) + slope * day / 30.0 + 0.6 * weeks.step(&mut rng);
            ambient.push(23.3 + daily + 0.5 * days.step(&mut rng) + options.drift * slow);
            mains.push(227.6 + 0.25 * wave(day + 0.1) + 0.9 * volts.step(&mut rng));
        }
        Room {
            ambient,
            mains,
            maintenance: maintenance(options),
        }
    }

    /// The air that a rack draws in, window by window: the room's, and now and then days of strong cooling nearby.
    pub(super) fn rack_air(&self, options: &ClusterOptions, rack: usize) -> Vec<f64> {
        let mut rng = Rng::new(options.seed, Stream::Rack, rack as u64);
        let offset = 0.6 * options.heterogeneity * rng.normal();
        let mut local = Wander::new(0.99, &mut rng);
        let mut chill = Wander::new(0.97, &mut rng);
        let (mut left, mut depth) = (0usize, 0.0);
        let air = self.ambient.iter().map(|room| {
            if left == 0 && rng.chance(1.0 / (28 * DAY) as f64) {
                left = rng.lognormal(2.5 * DAY as f64, 0.6) as usize;
                depth = rng.between(1.5, 4.0) * options.drift.min(2.0);
            }
            let cold = match left {
                0 => 0.0,
                _ => (depth + 0.6 * chill.step(&mut rng)).max(0.0),
            };
            left = left.saturating_sub(1);
            room + offset + 0.8 * local.step(&mut rng) - cold
        });
        air.collect()
    }

    pub(super) fn mains(&self, window: usize) -> f64 {
        self.mains.get(window).copied().unwrap_or(227.6)
    }
}

/// Half a working day about every six weeks.
fn maintenance(options: &ClusterOptions) -> Vec<Range<usize>> {
    let mut rng = Rng::new(options.seed, Stream::Room, 1);
    let mut all = Vec::new();
    let mut day = 20 + rng.below(20);
    while day < options.days {
        let first = day * DAY + 4 * (7 + rng.below(3));
        let end = (first + 16 + rng.below(20)).min(options.windows());
        all.push(first..end);
        day += 35 + rng.below(14);
    }
    all
}

/// The rack of a node.
pub(super) fn rack_of(node: usize) -> usize {
    node / RACK
}
