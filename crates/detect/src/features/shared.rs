//! Features whose columns were learnt with other nodes.

use synod_core::Dropped;

use super::column::Column;
use super::detrend::Detrend;
use super::{FeatureSettings, Features};

impl Features {
    /// Features of some columns, for windows `step` seconds apart; and which metrics are not used, and why.
    pub fn of_columns(
        step: i64,
        settings: &FeatureSettings,
        columns: Vec<Column>,
        dropped: Vec<Dropped>,
    ) -> Features {
        Features {
            step,
            compress: settings.compress,
            detrend: settings.detrend.map(|seconds| Detrend::over(seconds, step)),
            columns,
            dropped: dropped.into_iter().map(|d| (d.metric, d.reason)).collect(),
        }
    }
}
