//! Decisions counted window by window.

use serde::{Deserialize, Serialize};
use synod_core::Truth;

/// Windows by decision and truth; those of unknown truth are in none of the counts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    /// Anomalous windows with an alarm.
    pub true_positive: usize,
    /// Healthy windows with an alarm.
    pub false_positive: usize,
    /// Healthy windows without one.
    pub true_negative: usize,
    /// Anomalous windows without one.
    pub false_negative: usize,
}

/// Counts decisions against truth; the longer slice's tail is not read.
pub fn confusion(alarms: &[bool], truth: &[Truth]) -> Confusion {
    let mut counts = Confusion::default();
    for (&alarm, &truth) in alarms.iter().zip(truth) {
        match (alarm, truth) {
            (_, Truth::Unknown) => {}
            (true, Truth::Anomalous) => counts.true_positive += 1,
            (true, Truth::Healthy) => counts.false_positive += 1,
            (false, Truth::Healthy) => counts.true_negative += 1,
            (false, Truth::Anomalous) => counts.false_negative += 1,
        }
    }
    counts
}

pub(super) fn ratio(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl std::ops::AddAssign for Confusion {
    fn add_assign(&mut self, more: Confusion) {
        self.true_positive += more.true_positive;
        self.false_positive += more.false_positive;
        self.true_negative += more.true_negative;
        self.false_negative += more.false_negative;
    }
}

impl Confusion {
    /// Known anomalous windows.
    pub fn anomalous(&self) -> usize {
        self.true_positive + self.false_negative
    }

    /// Known healthy windows.
    pub fn healthy(&self) -> usize {
        self.true_negative + self.false_positive
    }

    /// Known windows with an alarm.
    pub fn alarms(&self) -> usize {
        self.true_positive + self.false_positive
    }

    /// All known windows.
    pub fn windows(&self) -> usize {
        self.anomalous() + self.healthy()
    }

    /// Share of alarms that are right; undefined without alarms.
    pub fn precision(&self) -> Option<f64> {
        ratio(self.true_positive, self.alarms())
    }

    /// True positive rate, also called recall; undefined without anomalies.
    pub fn tpr(&self) -> Option<f64> {
        ratio(self.true_positive, self.anomalous())
    }

    /// False negative rate; undefined without anomalies.
    pub fn fnr(&self) -> Option<f64> {
        ratio(self.false_negative, self.anomalous())
    }

    /// True negative rate; undefined without healthy windows.
    pub fn tnr(&self) -> Option<f64> {
        ratio(self.true_negative, self.healthy())
    }

    /// False positive rate; undefined without healthy windows.
    pub fn fpr(&self) -> Option<f64> {
        ratio(self.false_positive, self.healthy())
    }

    /// Harmonic mean of precision and recall: zero without a true positive, undefined without anomalies.
    pub fn f1(&self) -> Option<f64> {
        (self.anomalous() > 0)
            .then(|| 2.0 * self.true_positive as f64 / (self.alarms() + self.anomalous()) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Truth::{Anomalous as A, Healthy as H, Unknown as U};

    #[test]
    fn counts_and_rates_of_a_case_done_by_hand() {
        let counts = confusion(
            &[true, true, true, false, false, false, true],
            &[A, A, H, A, H, H, U],
        );
        let expected = Confusion {
            true_positive: 2,
            false_positive: 1,
            true_negative: 2,
            false_negative: 1,
        };
        assert_eq!(counts, expected);
        assert_eq!(counts.precision(), Some(2.0 / 3.0));
        assert_eq!(counts.tpr(), Some(2.0 / 3.0));
        assert_eq!(counts.fpr(), Some(1.0 / 3.0));
        assert_eq!(counts.f1(), Some(4.0 / 6.0));
    }

    #[test]
    fn rates_without_a_denominator_are_undefined_and_missed_anomalies_are_not() {
        let quiet = confusion(&[false, false], &[H, H]);
        assert_eq!((quiet.tpr(), quiet.fnr(), quiet.f1()), (None, None, None));
        assert_eq!((quiet.precision(), quiet.tnr()), (None, Some(1.0)));
        let missed = confusion(&[false, false], &[A, A]);
        assert_eq!((missed.f1(), missed.tpr()), (Some(0.0), Some(0.0)));
        assert_eq!((missed.fpr(), missed.precision()), (None, None));
    }
}
