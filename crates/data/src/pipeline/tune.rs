//! How many workers and how much prefetch: decided from how full the queue is when the consumer comes.

use std::ops::RangeInclusive;

/// Batches between two decisions.
pub(super) const PERIOD: u32 = 16;

/// Something that the pipeline decided while it ran.
#[derive(Clone, Debug, PartialEq)]
pub enum TuningEvent {
    /// The number of working threads changed.
    Workers {
        /// Before.
        from: usize,
        /// Now.
        to: usize,
        /// What was seen, in words.
        because: &'static str,
    },
    /// The number of batches that may be prepared ahead changed.
    Depth {
        /// Before.
        from: usize,
        /// Now.
        to: usize,
        /// What was seen, in words.
        because: &'static str,
    },
}

/// What the consumer met since the last decision.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) batches: u32,
    /// How often the next batch was not ready.
    pub(super) waits: u32,
    /// Sum of the batches that were ready.
    pub(super) ready: u64,
}

/// The numbers that are tuned.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Effort {
    pub(super) workers: usize,
    pub(super) depth: usize,
}

/// What the numbers may become.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) workers: RangeInclusive<usize>,
    pub(super) depth: RangeInclusive<usize>,
}

/// The next effort: more workers if the consumer waits, more depth once all work, fewer workers if the queue stays full.
pub(super) fn decide(seen: Seen, effort: Effort, limits: &Limits) -> Option<(Effort, TuningEvent)> {
    let Effort { workers, depth } = effort;
    let starving = seen.waits * 4 >= seen.batches;
    let brimming = seen.waits == 0 && seen.ready >= u64::from(seen.batches) * (depth as u64 - 1).max(1);
    let because = if starving {
        "the consumer waited"
    } else {
        "the queue stayed full"
    };
    if starving && workers < *limits.workers.end() {
        let to = workers + 1;
        let event = TuningEvent::Workers {
            from: workers,
            to,
            because,
        };
        return Some((Effort { workers: to, depth }, event));
    }
    if starving && depth < *limits.depth.end() {
        let to = (depth * 2).min(*limits.depth.end());
        let event = TuningEvent::Depth {
            from: depth,
            to,
            because,
        };
        return Some((Effort { workers, depth: to }, event));
    }
    if brimming && workers > *limits.workers.start() {
        let to = workers - 1;
        let event = TuningEvent::Workers {
            from: workers,
            to,
            because,
        };
        return Some((Effort { workers: to, depth }, event));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Effort = Effort { workers: 2, depth: 4 };

    fn limits() -> Limits {
        Limits {
            workers: 1..=3,
            depth: 2..=8,
        }
    }

    fn after(waits: u32, ready: u64) -> Seen {
        Seen {
            batches: 16,
            waits,
            ready,
        }
    }

    #[test]
    fn a_waiting_consumer_gets_workers_first_and_depth_then() {
        let (more, event) = decide(after(8, 10), START, &limits()).expect("a decision");
        assert_eq!(more, Effort { workers: 3, depth: 4 });
        assert!(matches!(event, TuningEvent::Workers { from: 2, to: 3, .. }));
        let (deeper, _) = decide(after(8, 10), more, &limits()).expect("a decision");
        assert_eq!(deeper, Effort { workers: 3, depth: 8 });
        assert!(
            decide(after(8, 10), deeper, &limits()).is_none(),
            "both are at their limits"
        );
    }

    #[test]
    fn a_full_queue_frees_a_worker_and_a_middling_one_changes_nothing() {
        let (fewer, _) = decide(after(0, 16 * 4), START, &limits()).expect("a decision");
        assert_eq!(fewer, Effort { workers: 1, depth: 4 });
        assert!(decide(after(0, 16 * 4), fewer, &limits()).is_none());
        assert!(decide(after(1, 16 * 2), START, &limits()).is_none());
    }
}
