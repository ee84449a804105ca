//! Windows as they may come, for tests.

use proptest::prelude::*;
use synod_core::Truth;

/// Scores with ties and gaps, alarms, and truth in runs.
pub(crate) fn windows(longest: usize) -> impl Strategy<Value = (Vec<f32>, Vec<bool>, Vec<Truth>)> {
    let score = prop_oneof![6 => (-4i8..5).prop_map(f32::from), 1 => Just(f32::NAN), 3 => -4.0f32..4.0];
    let kind = prop_oneof![
        5 => Just(Truth::Healthy),
        3 => Just(Truth::Anomalous),
        1 => Just(Truth::Unknown)
    ];
    let run = (
        kind,
        1usize..8,
        proptest::collection::vec((score, any::<bool>()), 8),
    );
    proptest::collection::vec(run, 0..longest / 4).prop_map(move |runs| {
        let rows = runs
            .into_iter()
            .flat_map(|(truth, length, rows)| rows.into_iter().take(length).map(move |r| (r, truth)));
        let rows: Vec<_> = rows.take(longest).collect();
        let scores = rows.iter().map(|((s, _), _)| *s).collect();
        let alarms = rows.iter().map(|((_, a), _)| *a).collect();
        (scores, alarms, rows.iter().map(|(_, t)| *t).collect())
    })
}
