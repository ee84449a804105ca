//! Point adjustment, for comparison with papers that use it and for nothing else.

use crate::events::true_segments;
use crate::point::confusion;
use serde::Serialize;
use synod_core::Truth;

/// Figures after point adjustment, which never travel without their warning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointAdjusted {
    /// Why not to trust the figures beside it.
    pub warning: &'static str,
    /// F1 after adjustment.
    pub f1_point_adjusted: Option<f64>,
    /// Precision after adjustment.
    pub precision_point_adjusted: Option<f64>,
    /// Recall after adjustment.
    pub recall_point_adjusted: Option<f64>,
}

/// Counts a whole anomalous segment as found when one window of it is. Random alarms score well this way: the result
/// says so, and is not part of an [`Evaluation`](crate::Evaluation).
pub fn point_adjusted(alarms: &[bool], truth: &[Truth]) -> PointAdjusted {
    let mut adjusted = alarms.to_vec();
    for segment in true_segments(truth) {
        if let Some(windows) = adjusted.get_mut(segment)
            && windows.contains(&true)
        {
            windows.fill(true);
        }
    }
    let counts = confusion(&adjusted, truth);
    PointAdjusted {
        warning: "Point adjustment credits a whole anomaly for one alarm in it, so random scores look good; \
                  do not use these figures to choose a detector.",
        f1_point_adjusted: counts.f1(),
        precision_point_adjusted: counts.precision(),
        recall_point_adjusted: counts.tpr(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Truth::{Anomalous as A, Healthy as H};

    #[test]
    fn one_alarm_in_a_long_anomaly_counts_as_all_of_it_and_carries_a_warning() {
        let adjusted = point_adjusted(&[false, true, false, false, true], &[A, A, A, A, H]);
        assert_eq!(adjusted.recall_point_adjusted, Some(1.0));
        assert_eq!(adjusted.precision_point_adjusted, Some(0.8));
        assert!(adjusted.warning.contains("random"), "{}", adjusted.warning);
    }
}
