//! The figures of an evaluation, by name.

use serde::{Deserialize, Serialize};

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The figures of one evaluation, or their means; `None` is undefined.
        #[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Metrics {
            $($(#[$doc])* pub $name: Option<f64>,)*
        }

        impl Metrics {
            /// The names of the figures, in order.
            pub const NAMES: [&'static str; Metrics::COUNT] = [$(stringify!($name)),*];

            /// How many figures there are.
            pub const COUNT: usize = [$(stringify!($name)),*].len();

            /// The figures in the order of [`Metrics::NAMES`].
            pub fn values(&self) -> [Option<f64>; Metrics::COUNT] {
                [$(self.$name),*]
            }

            /// The inverse of [`Metrics::values`].
            pub fn from_values([$($name),*]: [Option<f64>; Metrics::COUNT]) -> Metrics {
                Metrics { $($name),* }
            }
        }
    };
}

metrics! {
    /// Chance that an anomalous window scores above a healthy one, ties counting half.
    auroc,
    /// Average precision: precision at each distinct score, weighted by the recall it adds.
    ap,
    /// Volume under the precision-recall surface.
    vus_pr,
    /// F1 at the best threshold, which nobody knows beforehand.
    best_f1,
    /// F1 of the alarms.
    f1,
    /// Share of alarm windows that are anomalous.
    precision,
    /// Share of anomalous windows with an alarm.
    recall,
    /// The same as recall.
    tpr,
    /// Share of healthy windows without an alarm.
    tnr,
    /// Share of healthy windows with an alarm.
    fpr,
    /// Share of anomalous windows without an alarm.
    fnr,
    /// False alarm events in 30 days of healthy time.
    false_alarms_per_node_month,
    /// Share of alarm events that touch an anomaly.
    event_precision,
    /// Share of anomalous segments with an alarm in them.
    event_recall,
    /// Mean time from the start of a segment to its first alarm, over the segments found.
    delay_minutes,
    /// Mean time from an alarm to the segment it announced, over the segments announced.
    lead_minutes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_keep_the_same_order() {
        let mut values = [None; Metrics::COUNT];
        for (i, value) in values.iter_mut().enumerate() {
            *value = Some(i as f64);
        }
        let metrics = Metrics::from_values(values);
        let at = |name: &str| Metrics::NAMES.iter().position(|n| *n == name);
        assert_eq!(metrics.vus_pr.map(|v| v as usize), at("vus_pr"));
        assert_eq!(metrics.lead_minutes.map(|v| v as usize), at("lead_minutes"));
        assert_eq!(metrics.values(), values);
    }
}
