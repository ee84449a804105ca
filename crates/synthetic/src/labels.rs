//! What the operators wrote down, beside what really was.

use synod_core::Truth;

use super::fault::Plan;
use super::options::{ClusterOptions, DAY};
use super::random::{Rng, Stream};
use super::room::Room;

/// Labels as monitoring would have them: faults from their detection until the node's return, false positives, and
/// nothing known during maintenance or while monitoring itself was away.
pub(super) fn written(options: &ClusterOptions, node: usize, plans: &[Plan], room: &Room) -> Vec<Truth> {
    let mut rng = Rng::new(options.seed, Stream::Labels, node as u64);
    let windows = options.windows();
    let mut truth = vec![Truth::Healthy; windows];
    let mut mark = |from: usize, to: usize, what: Truth| {
        let to = to.min(windows);
        truth[from.min(to)..to].fill(what);
    };
    for plan in plans {
        mark(plan.detected, plan.returned, Truth::Anomalous);
    }
    let false_labels = options.false_labels / (30 * DAY) as f64;
    for window in 0..windows {
        let (wrong, away) = (rng.chance(false_labels), rng.chance(0.003));
        let (long, gone) = (1 + rng.below(4), 1 + rng.below(4));
        if wrong {
            mark(window, window + long, Truth::Anomalous);
        }
        if away {
            mark(window, window + gone, Truth::Unknown);
        }
    }
    for range in &room.maintenance {
        mark(range.start, range.end, Truth::Unknown);
    }
    truth
}

/// Whether a fault was at work in each window.
pub(super) fn exact(windows: usize, plans: &[Plan]) -> Vec<Truth> {
    let mut truth = vec![Truth::Healthy; windows];
    for plan in plans {
        truth[plan.span.clone()].fill(Truth::Anomalous);
    }
    truth
}
