//! Whether a node does better or worse one way than another, or only had other luck.

use super::Evaluation;
use super::bootstrap::{Bootstrap, Draws, Interval, interval};
use super::point::{Confusion, confusion};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use synod_telemetry::Truth;

/// One node's alarms of two ways of detecting, on the same windows in time order.
#[derive(Copy, Clone, Debug)]
pub struct Paired<'a> {
    /// The alarms of the one.
    pub before: &'a [bool],
    /// The alarms of the other.
    pub after: &'a [bool],
    /// What is known of each window.
    pub truth: &'a [Truth],
    /// The distance between two windows, in seconds.
    pub step: i64,
}

/// How a node's F1 changed.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// F1 after less F1 before.
    pub f1: f64,
    /// Where it falls when stretches of the same windows are drawn anew.
    #[serde(flatten)]
    pub interval: Interval,
    /// Whether the node has events and alarms on enough days that a loss could be told from chance, had all of them been
    /// losses.
    #[serde(default)]
    pub telling: bool,
    /// How many more anomalies were found, however short: F1 counts windows, operators count these.
    #[serde(default)]
    pub found: i64,
    /// How many more false alarms were raised.
    #[serde(default)]
    pub false_alarms: i64,
}

impl Change {
    /// The same with what an operator sees of it.
    #[must_use]
    pub fn with_events(self, before: &Evaluation, after: &Evaluation) -> Change {
        let more = |after: usize, before: usize| after as i64 - before as i64;
        Change {
            found: more(after.segments_found, before.segments_found),
            false_alarms: more(after.false_alarms, before.false_alarms),
            ..self
        }
    }

    /// Whether F1 fell by more than the luck of a few events explains: the whole interval lies below zero.
    pub fn hurt(&self) -> bool {
        self.interval.high < 0.0
    }
}

/// How seldom chance alone may have any interval of a whole fleet miss what it is about, in name. Intervals from a handful of
/// events are too short: with a twentieth here, luck alone hurts a node in more than one of twenty fleets.
const SELDOM: f64 = 0.01;

/// Resamples: with a hundred nodes, two of them lie beyond each end of an interval.
const RESAMPLES: usize = 40_000;

/// How to draw where so many nodes are compared at once: each node gets its share of the error allowed to all.
pub fn for_each_of(nodes: usize) -> Bootstrap {
    Bootstrap {
        resamples: RESAMPLES,
        level: 1.0 - SELDOM / nodes.max(1) as f64,
        ..Bootstrap::default()
    }
}

/// The shortest stretch that is drawn, in seconds, unless the windows of a block are given.
const DAY: i64 = 86_400;

impl Paired<'_> {
    /// How F1 changed, with an interval from drawing the same stretches of time for both; none without an anomaly.
    ///
    /// F1 is a matter of sums, so a stretch is but its counts. A draw without any anomaly says nothing of F1 and counts as
    /// no change: a node with one or two events cannot show more than chance.
    pub fn change(&self, bootstrap: &Bootstrap) -> Option<Change> {
        let blocks = self.blocks(bootstrap.block.unwrap_or((DAY / self.step.max(1)) as usize));
        let f1 = change(blocks.iter())?;
        let told: Vec<_> = blocks.iter().filter(|pair| tells(pair)).collect();
        let mut draws = Draws::new(bootstrap.seed);
        let mut resample = || {
            let drawn = (0..blocks.len()).filter_map(|_| told.get(draws.below(blocks.len())).copied());
            change(drawn).unwrap_or(0.0)
        };
        let samples: Vec<f64> = match blocks.iter().all(|(before, after)| before == after) {
            true => vec![0.0],
            false => (0..bootstrap.resamples).map(|_| resample()).collect(),
        };
        // A draw that misses all of them shows no change; if such draws are not rare, no interval ends below zero.
        let missed = (1.0 - told.len() as f64 / blocks.len() as f64).powi(blocks.len() as i32);
        interval(samples, bootstrap.level).map(|interval| Change {
            f1,
            interval,
            telling: missed < (1.0 - bootstrap.level) / 2.0,
            ..Change::default()
        })
    }

    /// Counts of both in stretches of at least `least` windows. An anomaly or alarm is one piece of evidence however long it
    /// lasts, so none is cut in two: a stretch ends where all is quiet. A day, since what disturbs a node in the morning
    /// often does so again in the afternoon.
    fn blocks(&self, least: usize) -> Vec<(Confusion, Confusion)> {
        let windows = self.truth.len().min(self.before.len()).min(self.after.len());
        let busy = |i: usize| self.truth[i] == Truth::Anomalous || self.before[i] || self.after[i];
        let mut cuts = vec![0];
        let mut last = 0;
        for i in 1..windows {
            let whole = i - last >= least.max(1) && windows - i >= least.max(1);
            if whole && !(busy(i - 1) && busy(i)) {
                cuts.push(i);
                last = i;
            }
        }
        cuts.push(windows);
        let count = |alarms: &[bool], span: Range<usize>| confusion(&alarms[span.clone()], &self.truth[span]);
        let both = |span: Range<usize>| (count(self.before, span.clone()), count(self.after, span));
        cuts.windows(2).map(|pair| both(pair[0]..pair[1])).collect()
    }
}

/// Whether a stretch adds anything to F1.
fn tells((before, after): &(Confusion, Confusion)) -> bool {
    before.anomalous() + before.alarms() + after.alarms() > 0
}

/// F1 of all stretches after less before; undefined without an anomaly.
fn change<'a>(blocks: impl Iterator<Item = &'a (Confusion, Confusion)>) -> Option<f64> {
    let mut sums = (Confusion::default(), Confusion::default());
    for (before, after) in blocks {
        sums.0 += *before;
        sums.1 += *after;
    }
    Some(sums.1.f1()? - sums.0.f1()?)
}

#[cfg(test)]
mod tests {
    use super::super::tests::windows;
    use super::*;
    use proptest::prelude::*;

    const HOURLY: i64 = 3600;

    /// Days of hourly windows with an event of five hours on each of some of them.
    fn truth(days: usize, eventful: impl Fn(usize) -> bool) -> Vec<Truth> {
        let anomalous = |i: usize| eventful(i / 24) && (9..14).contains(&(i % 24));
        let kind = |i| match anomalous(i) {
            true => Truth::Anomalous,
            false => Truth::Healthy,
        };
        (0..24 * days).map(kind).collect()
    }

    /// Alarms at all events but those of some days.
    fn alarms(truth: &[Truth], missed: impl Fn(usize) -> bool) -> Vec<bool> {
        let found = |(i, t): (usize, &Truth)| *t == Truth::Anomalous && !missed(i / 24);
        truth.iter().enumerate().map(found).collect()
    }

    #[test]
    fn a_node_that_tells_nothing_is_never_hurt_and_one_that_tells_can_be() {
        for (eventful, nodes) in [
            (2, 1),
            (4, 1),
            (7, 1),
            (9, 1),
            (7, 70),
            (9, 70),
            (12, 70),
            (30, 70),
        ] {
            let truth = truth(60, |day| day % 2 == 0 && day < 2 * eventful);
            let (all, none) = (alarms(&truth, |_| false), vec![false; truth.len()]);
            // The worst that can happen: every event is lost.
            let change = changed(&all, &none, &truth, nodes);
            assert_eq!(
                change.hurt(),
                change.telling,
                "{eventful} events among {nodes} nodes: {change:?}"
            );
        }
        let quiet = truth(60, |day| day == 3);
        let same = alarms(&quiet, |_| false);
        assert!(!changed(&same, &same, &quiet, 1).telling);
    }

    fn changed(before: &[bool], after: &[bool], truth: &[Truth], nodes: usize) -> Change {
        let paired = Paired {
            before,
            after,
            truth,
            step: HOURLY,
        };
        paired.change(&for_each_of(nodes)).expect("an anomaly")
    }

    #[test]
    fn the_same_alarms_are_no_change() {
        let truth = truth(60, |day| day % 6 == 0);
        let alarms = alarms(&truth, |day| day == 12);
        let none = Change {
            telling: true,
            ..Change::default()
        };
        assert_eq!(changed(&alarms, &alarms, &truth, 70), none);
    }

    #[test]
    fn one_of_several_events_missed_may_be_chance_and_most_of_them_missed_are_not() {
        let truth = truth(66, |day| day % 4 == 0);
        let all = alarms(&truth, |_| false);
        let one = changed(&all, &alarms(&truth, |day| day == 20), &truth, 70);
        assert!(
            one.f1 < -0.02 && one.interval.low < one.f1 && one.interval.high == 0.0,
            "{one:?}"
        );
        assert!(!one.hurt());
        let most = changed(&all, &alarms(&truth, |day| day % 5 != 0), &truth, 70);
        assert!(most.hurt(), "{most:?}");
        let gained = changed(&alarms(&truth, |day| day % 5 != 0), &all, &truth, 70);
        assert!(gained.interval.low > 0.0 && !gained.hurt(), "{gained:?}");
    }

    #[test]
    fn two_events_are_too_few_however_long_they_last() {
        let mut truth = vec![Truth::Healthy; 24 * 66];
        truth[100..300].fill(Truth::Anomalous);
        truth[900..1100].fill(Truth::Anomalous);
        let (all, none) = (alarms(&truth, |_| false), vec![false; truth.len()]);
        let missed = changed(&all, &none, &truth, 1);
        assert_eq!((missed.f1, missed.interval.high), (-1.0, 0.0));
    }

    #[test]
    fn with_more_nodes_more_evidence_is_asked_for() {
        let truth = truth(66, |day| day % 11 == 0);
        let (all, none) = (alarms(&truth, |_| false), vec![false; truth.len()]);
        assert!(changed(&all, &none, &truth, 1).hurt());
        assert!(!changed(&all, &none, &truth, 70).hurt());
    }

    /// Fleets whose two arms differ by luck alone: each event and each false alarm is one arm's or the other's by a coin.
    #[test]
    fn of_many_fleets_where_only_luck_differs_few_have_a_finding() {
        const FLEETS: u64 = 100;
        const NODES: usize = 20;
        let settings = Bootstrap {
            resamples: 4000,
            ..for_each_of(NODES)
        };
        let found = (0..FLEETS).filter(|fleet| {
            let mut draws = Draws::new(*fleet);
            (0..NODES).any(|_| {
                let truth = truth(66, |day| day % 6 == 0);
                let arms = (0..66).map(|day| (day % 6 == 0 || day % 9 == 1, draws.below(2) == 0));
                let arms: Vec<(bool, bool)> = arms.collect();
                let at = |first: bool| -> Vec<bool> {
                    let alarm = |i: usize| (9..14).contains(&(i % 24)) && arms[i / 24] == (true, first);
                    (0..truth.len()).map(alarm).collect()
                };
                let paired = Paired {
                    before: &at(true),
                    after: &at(false),
                    truth: &truth,
                    step: HOURLY,
                };
                paired.change(&settings).expect("an anomaly").hurt()
            })
        });
        let found = found.count();
        assert!(found <= 5, "{found} of {FLEETS}");
    }

    proptest! {
        #[test]
        fn stretches_add_up_and_cut_nothing((_, alarms, truth) in windows(80), least in 1usize..20) {
            let after: Vec<bool> = alarms.iter().rev().copied().collect();
            let paired = Paired { before: &alarms, after: &after, truth: &truth, step: HOURLY };
            let blocks = paired.blocks(least);
            let mut sums = (Confusion::default(), Confusion::default());
            for (before, after) in &blocks {
                sums.0 += *before;
                sums.1 += *after;
            }
            prop_assert_eq!(sums, (confusion(&alarms, &truth), confusion(&after, &truth)));
            let anomalous = |pair: &&(Confusion, Confusion)| pair.0.anomalous() > 0;
            prop_assert!(blocks.iter().filter(anomalous).count() <= super::super::true_segments(&truth).len());
            let whole = confusion(&after, &truth).f1().zip(confusion(&alarms, &truth).f1()).map(|(a, b)| a - b);
            let settings = Bootstrap { block: Some(least), ..Bootstrap::default() };
            prop_assert_eq!(paired.change(&settings).map(|c| c.f1), whole);
        }
    }
}
