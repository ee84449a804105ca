//! A member of a detector, and what its words are worth.

use serde::{Deserialize, Serialize};

use crate::detector::Fitted;
use crate::features::View;
use crate::recipe::Member;
use crate::smooth::{Average, quantile};

/// Sizes below this are all the same.
const NOTHING: f32 = 1e-6;

/// How much a score grows when all usual metrics are silent. Far above any threshold: a node that tells nothing of itself
/// is to be looked at.
pub(crate) const SILENCE: f32 = 20.0;

/// Windows that silence must last to count.
const LASTING: usize = 3;

/// How sharply the most alarmed member is heard above the others.
const SHARPNESS: f32 = 0.5;

/// Stretches of training time in which the unit of scores is measured, and the fewest windows of one. The median over them
/// is that of a typical stretch, whatever a few odd ones hold.
const STRETCHES: usize = 16;
const STRETCH: usize = 400;

/// A fitted member, with what its sizes usually are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Judge {
    pub(crate) fitted: Fitted,
    pub(crate) view: View,
    pub(super) smooth: usize,
    power: f32,
    weight: f32,
    pub(super) usual: Spread,
}

/// The middle of a distribution and the distance to its 98th percentile.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle.
    pub middle: f32,
    /// How far above it the 98th percentile lies.
    pub distance: f32,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread::new(0.0, 1.0)
    }
}

impl Spread {
    /// A distance below 0.05 is taken to be 0.05.
    pub fn new(middle: f32, distance: f32) -> Spread {
        let distance = distance.max(0.05);
        Spread { middle, distance }
    }

    pub(crate) fn of(values: &[f32]) -> Spread {
        let middle = quantile(values, 0.5);
        Spread::new(middle, quantile(values, 0.98) - middle)
    }

    /// The middle of scores, and how far the 98th percentile of a typical stretch lies above it.
    pub(super) fn typical(scores: &[f32]) -> Spread {
        let middle = quantile(scores, 0.5);
        let stretch = scores.len().div_ceil(STRETCHES).max(STRETCH);
        let highs: Vec<f32> = scores.chunks(stretch).map(|s| quantile(s, 0.98)).collect();
        Spread::new(middle, quantile(&highs, 0.5) - middle)
    }

    pub(crate) fn apply(&self, value: f32) -> f32 {
        (value - self.middle) / self.distance
    }

    /// Between this one and another, which at a weight of 0 is the other and at 1 this one.
    pub(crate) fn towards(&self, other: Spread, weight: f32) -> Spread {
        let distance = weight * self.distance.ln() + (1.0 - weight) * other.distance.ln();
        Spread::new(
            weight * self.middle + (1.0 - weight) * other.middle,
            distance.exp(),
        )
    }

    /// Neither its middle nor its distance below another's.
    pub(super) fn at_least(&self, other: Spread) -> Spread {
        Spread::new(self.middle.max(other.middle), self.distance.max(other.distance))
    }
}

impl Judge {
    pub(super) fn new(member: &Member, fitted: Fitted) -> Judge {
        Judge {
            fitted,
            view: member.view,
            smooth: member.smooth,
            power: member.power,
            weight: member.weight,
            usual: Spread::default(),
        }
    }

    /// The average that it is smoothed by, before the first window.
    pub(crate) fn begin(&self) -> Average {
        Average::new(self.smooth)
    }

    /// What it says of a window of some size, averaged with those before it, and of the window by itself.
    pub(crate) fn word(&self, average: &mut Average, size: f32) -> (f32, f32) {
        let raised = size.powf(self.power);
        let averaged = self.usual.apply(level(average.push(raised)));
        (averaged, self.usual.apply(level(raised)))
    }

    /// Smoothed sizes on a logarithmic scale.
    pub(super) fn levels(&self, sizes: &[f32]) -> Vec<f32> {
        let mut average = self.begin();
        sizes
            .iter()
            .map(|size| level(average.push(size.powf(self.power))))
            .collect()
    }
}

fn level(raised: f32) -> f32 {
    (raised + NOTHING).ln()
}

/// The weighted mean of the members' words on an exponential scale, so that the most alarmed is heard.
pub(crate) fn together(judges: &[Judge], words: impl Iterator<Item = f32> + Clone) -> f32 {
    let weights: f32 = judges.iter().map(|judge| judge.weight).sum();
    let most = words.clone().fold(f32::NEG_INFINITY, f32::max);
    let part = |(word, judge): (f32, &Judge)| judge.weight * (SHARPNESS * (word - most)).exp();
    let sum: f32 = words.zip(judges).map(part).sum();
    most + (sum / weights).ln() / SHARPNESS
}

/// How silent a node has been of late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quiet {
    average: Average,
    /// The shares of metrics that were missing in the windows before, the latest first; all at a beginning.
    before: [f32; LASTING - 1],
}

impl Quiet {
    /// As after talk without a gap, for members that are smoothed so.
    pub(crate) fn begin(judges: &[Judge]) -> Quiet {
        Quiet {
            average: Average::new(judges.iter().map(|judge| judge.smooth).max().unwrap_or(1)),
            before: [1.0; LASTING - 1],
        }
    }

    /// Whether it is that of members that are smoothed alike.
    pub(crate) fn is_like(&self, other: &Quiet) -> bool {
        self.average.is_like(&other.average)
    }

    /// What the share of usual metrics that is missing adds to the score.
    pub(crate) fn push(&mut self, silence: f32) -> f32 {
        // A single window that was not recorded says nothing of the node.
        let lasting = self.before.iter().copied().fold(silence.min(1.0), f32::min);
        self.before.rotate_right(1);
        self.before[0] = silence;
        SILENCE * self.average.push(lasting)
    }
}

/// What members said of windows in order, heard together, with what silence adds to it if there is one.
pub(super) fn hear(judges: &[Judge], members: &[Vec<f32>], silence: Option<&[f32]>) -> Vec<f32> {
    let mut quiet = Quiet::begin(judges);
    let one = |row: usize| {
        let heard = together(judges, members.iter().map(|words| words[row]));
        heard + silence.map_or(0.0, |silence| quiet.push(silence[row]))
    };
    (0..members.first().map_or(0, Vec::len)).map(one).collect()
}
