//! Detectors of metrics whose slow drift is taken away, on nodes that are made here.

use synod_core::Frame;
use synod_detect::{NodeModel, Recipe};

const STEP: i64 = 900;

/// Load, and a temperature that follows it; `change` alters a window before it is kept.
fn node(rows: usize, change: impl Fn(usize, &mut [f32; 2])) -> Frame {
    let mut state = 5u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let (mut load, mut values) = (0.5, vec![]);
    for row in 0..rows {
        load = 0.9 * load + 0.05 + 0.2 * noise();
        let mut window = [load, 30.0 + 20.0 * load + noise()];
        change(row, &mut window);
        values.extend(window);
    }
    let times = (0..rows as i64).map(|t| t * STEP).collect();
    let metrics = vec!["load".to_owned(), "temperature".to_owned()];
    Frame::new("n0", STEP, times, metrics, values).expect("a frame")
}

fn recipe(detrend: Option<i64>) -> Recipe {
    let mut recipe = Recipe::named("covariance", 1).expect("a recipe");
    recipe.features.detrend = detrend;
    recipe
}

/// The room warms by 20 degrees in 2,000 windows.
fn warming(row: usize, window: &mut [f32; 2]) {
    window[1] += row as f32 / 100.0;
}

#[test]
fn a_room_that_warms_slowly_is_unusual_only_without_detrending() {
    let frame = node(2000, warming);
    let (train, test) = (frame.slice(0..1000), frame.slice(1000..2000));
    let late = |detrend: Option<i64>| {
        let model = NodeModel::fit(&train, &recipe(detrend)).expect("a model");
        let scores = model.score(&test).total;
        scores[500..].iter().sum::<f32>() / 500.0
    };
    let (with, without) = (late(Some(86_400)), late(None));
    assert!(with < 0.5, "a usual score is about 0: {with}");
    assert!(without > with + 1.0, "{without} without, {with} with");
}

#[test]
fn a_fault_stands_out_and_is_told_in_the_units_of_the_metric() {
    let frame = node(2000, |row, window| {
        warming(row, window);
        if (1700..1710).contains(&row) {
            window[1] += 25.0;
        }
    });
    let (train, test) = (frame.slice(0..1000), frame.slice(1000..2000));
    let model = NodeModel::fit(&train, &recipe(Some(86_400))).expect("a model");
    let scores = model.score(&test).total;
    let usual = scores[600..700].iter().copied().fold(f32::MIN, f32::max);
    assert!(scores[705] > usual + 1.0, "{} against {usual}", scores[705]);
    let mut causes = vec![];
    model.watch(&test.slice(0..706), &mut |scored| causes = scored.explain(0));
    let hot = causes
        .iter()
        .find(|c| c.metric == "temperature")
        .expect("it is used");
    let measured = frame.row(1705)[1];
    assert_eq!(hot.observed, Some(measured));
    assert!(
        (measured - hot.expected - 25.0).abs() < 15.0 && hot.expected > 40.0,
        "{measured} where {} was expected",
        hot.expected
    );
}

#[test]
fn the_future_changes_no_score() {
    let frame = node(1500, warming);
    let other = node(1500, |row, window| {
        warming(row, window);
        if row >= 1300 {
            window.fill(500.0);
        }
    });
    let model = NodeModel::fit(&frame.slice(0..1000), &recipe(Some(86_400))).expect("a model");
    let (one, two) = (model.score(&frame).total, model.score(&other).total);
    assert_eq!(one[..1300], two[..1300]);
    assert_ne!(one[1300..], two[1300..]);
}

#[test]
fn a_stored_detector_detrends_as_the_fitted_one_does() {
    let frame = node(1200, warming);
    let model = NodeModel::fit(&frame.slice(0..1000), &recipe(Some(43_200))).expect("a model");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("n0.safetensors");
    model.save(&path).expect("saved");
    let again = NodeModel::load(&path).expect("loaded");
    assert_eq!(again, model);
    assert_eq!(model.score(&frame).total, again.score(&frame).total);
}
