//! Alarms and anomalies as events, which is how an operator counts them.

use crate::point::ratio;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use synod_core::Truth;

/// What an alarm event turned out to be.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// One of its alarm windows is anomalous.
    True,
    /// None is, and one is healthy.
    False,
    /// Nothing is known of any of them; it counts neither way.
    Unknown,
}

/// One alarm as a person sees it: a run of alarm windows, or several with short pauses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// From its first alarm window to after its last.
    pub span: Range<usize>,
    /// What it turned out to be.
    pub kind: EventKind,
}

/// Alarm events held against true segments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Events {
    /// All alarm events, in time order.
    pub alarms: Vec<Event>,
    /// The number of true segments.
    pub segments: usize,
    /// For each segment with an alarm window in it: windows from its start to the first.
    pub delays: Vec<usize>,
    /// For each segment before which an alarm started within the horizon: windows from that start to the segment.
    pub leads: Vec<usize>,
}

impl Events {
    /// The number of alarm events of a kind.
    pub fn count(&self, kind: EventKind) -> usize {
        self.alarms.iter().filter(|event| event.kind == kind).count()
    }

    /// Share of judged alarm events that are true; undefined without one.
    pub fn precision(&self) -> Option<f64> {
        let (good, bad) = (self.count(EventKind::True), self.count(EventKind::False));
        ratio(good, good + bad)
    }

    /// Share of segments found; undefined without segments.
    pub fn recall(&self) -> Option<f64> {
        ratio(self.delays.len(), self.segments)
    }

    /// Mean delay in windows over the segments found.
    pub fn mean_delay(&self) -> Option<f64> {
        ratio(self.delays.iter().sum(), self.delays.len())
    }

    /// Mean lead in windows over the segments announced.
    pub fn mean_lead(&self) -> Option<f64> {
        ratio(self.leads.iter().sum(), self.leads.len())
    }
}

fn runs(flags: impl Iterator<Item = bool>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (i, _) in flags.enumerate().filter(|(_, flag)| *flag) {
        match found.last_mut() {
            Some(last) if last.end == i => last.end = i + 1,
            _ => found.push(i..i + 1),
        }
    }
    found
}

/// The unbroken runs of anomalous windows. An unknown window ends a run, as a healthy one does.
pub fn true_segments(truth: &[Truth]) -> Vec<Range<usize>> {
    runs(truth.iter().map(|t| *t == Truth::Anomalous))
}

/// Joins alarm windows to events and holds them against the true segments. Runs with fewer than `merge` quiet windows
/// between them are one event; merging makes fewer events, but a segment is found only by an alarm window inside it.
///
/// A segment's lead is the distance from the last event that began at most `horizon` windows before it, and not before the
/// end of the previous segment. Where false alarms are many, some will lead by chance.
pub fn events(alarms: &[bool], truth: &[Truth], merge: usize, horizon: usize) -> Events {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for run in runs(alarms.iter().copied()) {
        match spans.last_mut() {
            Some(last) if run.start - last.end < merge => last.end = run.end,
            _ => spans.push(run),
        }
    }
    let segments = true_segments(truth);
    let mut found = Events {
        segments: segments.len(),
        ..Events::default()
    };
    let mut free_from = 0;
    for segment in &segments {
        let inside = alarms.get(segment.clone()).unwrap_or_default();
        found.delays.extend(inside.iter().position(|alarm| *alarm));
        let earliest = segment.start.saturating_sub(horizon).max(free_from);
        let before = spans.partition_point(|span| span.start < segment.start);
        let last = before.checked_sub(1).and_then(|i| spans.get(i));
        found.leads.extend(
            last.filter(|s| s.start >= earliest)
                .map(|s| segment.start - s.start),
        );
        free_from = segment.end;
    }
    found.alarms = spans
        .into_iter()
        .map(|span| Event {
            kind: judge(span.clone(), alarms, truth),
            span,
        })
        .collect();
    found
}

fn judge(span: Range<usize>, alarms: &[bool], truth: &[Truth]) -> EventKind {
    let mut kind = EventKind::Unknown;
    for (alarm, truth) in alarms.iter().zip(truth).take(span.end).skip(span.start) {
        match (alarm, truth) {
            (true, Truth::Anomalous) => return EventKind::True,
            (true, Truth::Healthy) => kind = EventKind::False,
            _ => {}
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::windows;
    use Truth::{Anomalous as A, Healthy as H, Unknown as U};
    use proptest::prelude::*;

    fn marks(text: &str) -> Vec<bool> {
        text.chars().map(|c| c == 'x').collect()
    }

    fn labels(text: &str) -> Vec<Truth> {
        let truth = |c| match c {
            'A' => A,
            '?' => U,
            _ => H,
        };
        text.chars().map(truth).collect()
    }

    #[test]
    fn alarms_are_judged_by_the_windows_they_cover() {
        let found = events(&marks(".xx..x....xx."), &labels("....AAA..???."), 0, 0);
        let kinds: Vec<_> = found.alarms.iter().map(|e| (e.span.clone(), e.kind)).collect();
        let expected = [
            (1..3, EventKind::False),
            (5..6, EventKind::True),
            (10..12, EventKind::Unknown),
        ];
        assert_eq!(kinds, expected);
        assert_eq!((found.precision(), found.recall()), (Some(0.5), Some(1.0)));
        assert_eq!(found.delays, [1]);
    }

    #[test]
    fn short_pauses_join_alarms_but_find_no_segment() {
        let (alarms, truth) = (marks("xx..xx.x"), labels("..AA...."));
        assert_eq!(events(&alarms, &truth, 2, 0).alarms.len(), 2);
        let joined = events(&alarms, &truth, 3, 0);
        assert_eq!(joined.alarms.len(), 1);
        assert_eq!(joined.count(EventKind::False), 1);
        assert_eq!(joined.recall(), Some(0.0));
    }

    #[test]
    fn lead_counts_from_the_last_alarm_that_began_within_the_horizon() {
        let (alarms, truth) = (marks("x..x.xxxx.x."), labels("......AA..AA"));
        let found = events(&alarms, &truth, 0, 4);
        assert_eq!(
            found.leads,
            [1],
            "the second segment's alarm began inside the first or in itself"
        );
        assert_eq!(found.delays, [0, 0]);
        assert_eq!(events(&alarms, &truth, 0, 0).leads, [0usize; 0]);
    }

    #[test]
    fn nothing_is_said_where_nothing_happened() {
        let quiet = events(&[false; 3], &[H; 3], 2, 2);
        assert_eq!((quiet.precision(), quiet.recall()), (None, None));
        assert_eq!((quiet.mean_delay(), quiet.mean_lead()), (None, None));
    }

    /// Which event each alarm window belongs to, by looking back window by window.
    fn event_numbers(alarms: &[bool], merge: usize) -> Vec<Option<usize>> {
        let mut numbers: Vec<Option<usize>> = Vec::new();
        for (i, alarm) in alarms.iter().enumerate() {
            let previous = (0..i).rev().find(|j| alarms[*j]);
            numbers.push(match previous {
                _ if !alarm => None,
                Some(j) if j + 1 == i || i - j - 1 < merge => numbers[j],
                _ => Some(numbers.iter().flatten().max().map_or(0, |m| m + 1)),
            });
        }
        numbers
    }

    proptest! {
        #[test]
        fn events_equal_a_count_by_hand((_, alarms, truth) in windows(60), merge in 0usize..6, horizon in 0usize..9) {
            let found = events(&alarms, &truth, merge, horizon);
            let numbers = event_numbers(&alarms, merge);
            let count = numbers.iter().flatten().max().map_or(0, |m| m + 1);
            prop_assert_eq!(found.alarms.len(), count);
            let (mut good, mut bad) = (0, 0);
            for event in 0..count {
                let covers = |kind| (0..alarms.len()).any(|i| numbers[i] == Some(event) && truth[i] == kind);
                good += usize::from(covers(A));
                bad += usize::from(!covers(A) && covers(H));
            }
            prop_assert_eq!((found.count(EventKind::True), found.count(EventKind::False)), (good, bad));

            let starts: Vec<usize> = (0..truth.len()).filter(|i| truth[*i] == A && (*i == 0 || truth[i - 1] != A)).collect();
            prop_assert_eq!(found.segments, starts.len());
            let (mut delays, mut leads) = (Vec::new(), Vec::new());
            for start in starts {
                delays.extend((start..truth.len()).take_while(|i| truth[*i] == A).find(|i| alarms[*i]).map(|i| i - start));
                let begins = |i: &usize| numbers[*i].is_some() && !numbers[..*i].contains(&numbers[*i]);
                let quiet = (0..start).rev().take_while(|i| truth[*i] != A && start - i <= horizon);
                leads.extend(quiet.into_iter().find(begins).map(|i| start - i));
            }
            prop_assert_eq!(found.delays, delays);
            prop_assert_eq!(found.leads, leads);
        }
    }
}
