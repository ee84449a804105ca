//! Whom a node listens to: its own detector, until that of the others has proven better on it.

use synod_telemetry::Truth;

use crate::evaluate::{Confusion, confusion};

/// By how much of F1 others must lead to be heard, and below what lead they no longer are.
pub(crate) const EARNED: f64 = 0.03;
const KEPT: f64 = 0.01;

/// Known anomalies before anything is proven.
pub(crate) const FEWEST: usize = 3;

/// Seconds after which it is known what a window was, and between two decisions.
const DAY: i64 = 86_400;

/// What two detectors made of a node's windows whose truth has become known, and which of them is heard.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
struct Trust {
    own: Confusion,
    others: Confusion,
    anomalies: usize,
    /// Whether the last window was anomalous.
    anomalous: bool,
    others_heard: bool,
}

impl Trust {
    /// Takes in what a window was.
    fn learn(&mut self, own: bool, others: bool, truth: Truth) {
        self.own += confusion(&[own], &[truth]);
        self.others += confusion(&[others], &[truth]);
        let anomalous = truth == Truth::Anomalous;
        self.anomalies += usize::from(anomalous && !self.anomalous);
        self.anomalous = anomalous;
    }

    /// Looks at the record. Between the two bounds, who is heard goes on being heard.
    fn decide(&mut self) {
        let lead = self.others.f1().zip(self.own.f1()).map(|(o, own)| o - own);
        if let Some(lead) = lead.filter(|_| self.anomalies >= FEWEST) {
            self.others_heard = lead > if self.others_heard { KEPT } else { EARNED };
        }
    }
}

/// For each window whether the others' detector is heard, from the alarms of both. Decisions are made once a day while both
/// are quiet, and know of no window of the last day.
pub(super) fn others_heard(
    own: &[bool],
    others: &[bool],
    truth: &[Truth],
    step: i64,
    at_first: bool,
) -> Vec<bool> {
    let day = (DAY / step.max(1)).max(1) as usize;
    let mut trust = Trust {
        others_heard: at_first,
        ..Trust::default()
    };
    let mut past = own.iter().zip(others).zip(truth);
    let mut decided = 0;
    let one = |i: usize| {
        // A day ago.
        if i >= day
            && let Some(((own, others), truth)) = past.next()
        {
            trust.learn(*own, *others, *truth);
        }
        if i - decided >= day && !own[i] && !others[i] {
            trust.decide();
            decided = i;
        }
        trust.others_heard
    };
    (0..truth.len()).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOURLY: i64 = 3600;
    const DAYS: usize = 40;

    /// An anomaly of seven hours on every fourth day.
    fn truth() -> Vec<Truth> {
        let kind = |i: usize| match (i / 24) % 4 == 1 && (8..15).contains(&(i % 24)) {
            true => Truth::Anomalous,
            false => Truth::Healthy,
        };
        (0..24 * DAYS).map(kind).collect()
    }

    /// Alarms in the anomalies of some days.
    fn alarms(found: impl Fn(usize) -> bool) -> Vec<bool> {
        let alarm = |(i, t): (usize, &Truth)| *t == Truth::Anomalous && found(i / 24);
        truth().iter().enumerate().map(alarm).collect()
    }

    fn days_heard(own: &[bool], others: &[bool], truth: &[Truth], at_first: bool) -> Vec<bool> {
        let heard = others_heard(own, others, truth, HOURLY, at_first);
        heard.chunks(24).map(|day| day[23]).collect()
    }

    #[test]
    fn others_are_heard_once_they_have_found_what_a_node_misses_and_not_before() {
        let (none, all) = (alarms(|_| false), alarms(|_| true));
        let heard = days_heard(&none, &all, &truth(), false);
        // The third anomaly is over on day 9, and known on day 10.
        let first = heard.iter().position(|h| *h);
        assert_eq!(first, Some(11), "{heard:?}");
        assert!(heard[11..].iter().all(|h| *h));
    }

    #[test]
    fn a_node_is_never_worse_off_with_others_that_find_nothing() {
        let (none, all) = (alarms(|_| false), alarms(|_| true));
        assert!(days_heard(&all, &none, &truth(), false).iter().all(|h| !h));
        let heard = days_heard(&all, &none, &truth(), true);
        assert!(heard[..10].iter().all(|h| *h), "nothing is proven yet");
        assert!(heard[11..].iter().all(|h| !h), "{heard:?}");
    }

    #[test]
    fn who_leads_by_little_goes_on_if_it_was_heard_and_is_not_heard_if_it_was_not() {
        let truth = truth();
        let all = alarms(|_| true);
        let mut false_alarm = all.clone();
        // A false alarm of one window among three and more anomalies of seven: less than 0.03 of F1, and more than 0.01.
        false_alarm[24 * 2] = true;
        for at_first in [false, true] {
            let heard = days_heard(&false_alarm, &all, &truth, at_first);
            assert_eq!(heard[20], at_first, "{heard:?}");
        }
    }

    #[test]
    fn without_labels_nothing_is_proven() {
        let (none, all) = (alarms(|_| false), alarms(|_| true));
        let unknown = vec![Truth::Unknown; all.len()];
        for at_first in [false, true] {
            let heard = others_heard(&none, &all, &unknown, HOURLY, at_first);
            assert_eq!(heard, vec![at_first; all.len()]);
        }
    }

    #[test]
    fn what_is_known_only_later_changes_nothing_earlier() {
        let (none, all) = (alarms(|_| false), alarms(|_| true));
        // All of the third anomaly lies within the day before.
        let now = 24 * 10 + 5;
        let (mut other, mut later) = (truth(), all.clone());
        other[now - 24..].fill(Truth::Unknown);
        later[now..].fill(false);
        let before = others_heard(&none, &all, &truth(), HOURLY, false);
        let after = others_heard(&none, &later, &other, HOURLY, false);
        assert_eq!(before[..now], after[..now]);
        assert_ne!(before, after);
    }

    #[test]
    fn nobody_is_exchanged_while_an_alarm_stands() {
        let (none, all) = (alarms(|_| false), alarms(|_| true));
        let mut standing = none.clone();
        standing[24 * 10..24 * 15].fill(true);
        let heard = others_heard(&standing, &all, &truth(), HOURLY, false);
        assert!(heard[24 * 10..24 * 15].iter().all(|h| !h));
    }
}
