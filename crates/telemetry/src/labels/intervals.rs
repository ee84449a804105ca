//! Times in which something is known of a node.

use crate::{Frame, Truth};

/// What is known of a node for some time. A later one outweighs an earlier one.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Somebody looked and could not tell.
    Unknown,
    /// Said to be healthy.
    Healthy,
    /// Said to be anomalous.
    Anomalous,
    /// Being worked on: whatever it measures says nothing about its health.
    Maintenance,
}

impl State {
    /// What a window in this state is evidence of. Nothing, during maintenance.
    pub fn truth(self) -> Truth {
        match self {
            State::Healthy => Truth::Healthy,
            State::Anomalous => Truth::Anomalous,
            State::Unknown | State::Maintenance => Truth::Unknown,
        }
    }
}

/// A node's state from one time up to another, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelInterval {
    /// The node.
    pub node: String,
    /// The first second of it, since 1970.
    pub from: i64,
    /// The first second after it.
    pub to: i64,
    /// The state.
    pub state: State,
    /// Who says so, as `nagios sshd` or `slurm`.
    pub source: String,
    /// What they say.
    pub reason: String,
}

/// The truth of every window of a node, and the interval that decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// One truth per window.
    pub truth: Vec<Truth>,
    /// For every window the place of the deciding interval in the list given, if any touches it.
    pub decided_by: Vec<Option<usize>>,
}

impl Merged {
    /// How many windows each state decided, in the order maintenance, anomalous, healthy, unknown or nothing said.
    pub fn counts(&self, intervals: &[LabelInterval]) -> [usize; 4] {
        let mut counts = [0; 4];
        for decided in &self.decided_by {
            let state = decided
                .and_then(|i| intervals.get(i))
                .map_or(State::Unknown, |i| i.state);
            counts[3 - state as usize] += 1;
        }
        counts
    }
}

/// Decides every window of a frame: of the intervals of its node that touch the window, maintenance outweighs anomalous,
/// anomalous outweighs healthy, and healthy outweighs unknown; of equals the first in the list decides. A window that no
/// interval touches is unknown, and so is one under maintenance.
pub fn merge(frame: &Frame, intervals: &[LabelInterval]) -> Merged {
    let times = frame.times();
    let mut decided_by: Vec<Option<usize>> = vec![None; times.len()];
    let mut states = vec![None; times.len()];
    for (number, interval) in intervals.iter().enumerate() {
        if interval.node != frame.node() || interval.to <= interval.from {
            continue;
        }
        let first = times.partition_point(|&start| start.saturating_add(frame.step()) <= interval.from);
        let end = times.partition_point(|&start| start < interval.to);
        for window in first..end.max(first) {
            if states[window] < Some(interval.state) {
                states[window] = Some(interval.state);
                decided_by[window] = Some(number);
            }
        }
    }
    Merged {
        truth: states
            .iter()
            .map(|state| state.map_or(Truth::Unknown, State::truth))
            .collect(),
        decided_by,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STATES: [State; 4] = [
        State::Unknown,
        State::Healthy,
        State::Anomalous,
        State::Maintenance,
    ];

    fn interval(node: &str, from: i64, to: i64, state: State) -> LabelInterval {
        LabelInterval {
            node: node.to_owned(),
            from,
            to,
            state,
            source: "test".to_owned(),
            reason: String::new(),
        }
    }

    fn frame(times: Vec<i64>) -> Frame {
        let values = vec![0.0; times.len()];
        Frame::new("n1", 10, times, vec!["a".to_owned()], values).expect("a frame")
    }

    proptest! {
        #[test]
        fn merging_is_its_rule(
            given in proptest::collection::vec((0i64..90, 0i64..30, 0usize..4, any::<bool>()), 0..12),
            starts in proptest::collection::btree_set(0i64..8, 0..8),
        ) {
            let frame = frame(starts.into_iter().map(|s| s * 10).collect());
            let make = |&(from, length, state, own): &(i64, i64, usize, bool)| {
                interval(if own { "n1" } else { "n2" }, from, from + length, STATES[state])
            };
            let intervals: Vec<LabelInterval> = given.iter().map(make).collect();
            let merged = merge(&frame, &intervals);
            for (i, &start) in frame.times().iter().enumerate() {
                let touching = intervals.iter().enumerate().filter(|(_, x)| {
                    x.node == "n1" && (start..start + 10).any(|second| (x.from..x.to).contains(&second))
                });
                let best = touching.rev().max_by_key(|(_, x)| x.state);
                prop_assert_eq!(merged.decided_by[i], best.map(|(number, _)| number));
                prop_assert_eq!(merged.truth[i], best.map_or(Truth::Unknown, |(_, x)| x.state.truth()));
            }
        }
    }

    #[test]
    fn maintenance_hides_what_else_is_said() {
        let frame = frame(vec![0, 10, 20, 30]);
        let intervals = [
            interval("n1", 0, 30, State::Healthy),
            interval("n1", 5, 15, State::Anomalous),
            interval("n1", 12, 13, State::Maintenance),
        ];
        let merged = merge(&frame, &intervals);
        assert_eq!(
            merged.truth,
            [Truth::Anomalous, Truth::Unknown, Truth::Healthy, Truth::Unknown]
        );
        assert_eq!(merged.decided_by, [Some(1), Some(2), Some(0), None]);
        assert_eq!(merged.counts(&intervals), [1, 1, 1, 1]);
    }
}
