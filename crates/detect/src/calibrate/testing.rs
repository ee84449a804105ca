//! Scores for the tests of rules.

use super::{AlarmPolicy, Calibrator, Persistence, Rule, Verdict};

/// Numbers between -0.5 and 0.5.
pub(super) fn noise(count: usize, salt: u64) -> Vec<f32> {
    let mut state = salt;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

/// Verdicts on scores to which silence added nothing.
pub(super) fn verdicts(calibrator: &mut Calibrator, scores: &[f32]) -> Vec<Verdict> {
    scores.iter().map(|s| calibrator.push(*s, *s)).collect()
}

/// Every rule, by itself and asked to persist.
pub(super) fn policies() -> Vec<AlarmPolicy> {
    let alone = Rule::ALL.map(|rule| AlarmPolicy {
        rule,
        ..AlarmPolicy::default()
    });
    let persistence = Persistence::new(3, 4).ok();
    let lasting = alone.map(|policy| AlarmPolicy {
        persistence,
        ..policy
    });
    [alone, lasting].concat()
}
