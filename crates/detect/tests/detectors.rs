//! What every kind of detector must do.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use synod_core::Frame;
use synod_detect::detector::{Detector, Kind, Sequences, Training};
use synod_detect::{Contribution, NodeModel, Recipe, Rows};

const WIDTH: usize = 6;

/// The row and the feature that are made unusual.
const ODD: (usize, usize) = (380, 3);

fn noise(i: usize) -> f32 {
    let z = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((z ^ (z >> 32)) >> 40) as f32 / (1u64 << 24) as f32 - 0.5
}

/// A load that rises and falls, and features that follow it.
fn rows(count: usize) -> Rows {
    let value = |i: usize| {
        let (t, f) = (i / WIDTH, i % WIDTH);
        let load = (t as f32 * 0.13).sin();
        load * (1.0 - 0.3 * f as f32) + 0.2 * noise(i)
    };
    Rows::new(WIDTH, (0..count * WIDTH).map(value).collect())
}

fn with_an_odd_row(rows: &Rows) -> Rows {
    let mut values = rows.values().to_vec();
    values[ODD.0 * WIDTH + ODD.1] += 8.0;
    Rows::new(WIDTH, values)
}

fn quick() -> Sequences {
    Sequences {
        epochs: 3,
        least_steps: 150,
        ..Sequences::default()
    }
}

/// Kinds that are trained, by seed.
fn networks() -> Vec<Kind> {
    let training = Training {
        least_steps: 1500,
        ..Training::default()
    };
    vec![Kind::Autoencoder(training), Kind::LstmAutoencoder(quick())]
}

fn largest(values: &[f32]) -> usize {
    (0..values.len())
        .max_by(|a, b| values[*a].total_cmp(&values[*b]))
        .expect("not empty")
}

#[test]
fn all_kinds_find_the_same_odd_row_among_those_they_have_not_seen() {
    let (train, test) = (rows(400), with_an_odd_row(&rows(400)));
    let known = Kind::Covariance { ridge: 3.0 };
    for kind in [vec![known], networks()].concat() {
        let trial = kind.fit(&train, &[true; 400], true, 3).expect("fits");
        assert_eq!(largest(&trial.fitted.sizes(&test)), ODD.0, "{kind:?}");
    }
}

#[test]
fn shares_add_up_to_the_size_and_the_changed_feature_has_the_largest() {
    let (train, test) = (rows(400), with_an_odd_row(&rows(400)));
    let until = test.slice(0..ODD.0 + 1);
    {
        let kind = Kind::LstmAutoencoder(quick());
        let fitted = kind.fit(&train, &[true; 400], true, 3).expect("fits").fitted;
        let parts = fitted.explain(&until);
        assert_eq!(largest(&parts.shares), ODD.1, "{kind:?} {parts:?}");
        let (whole, size): (f32, f32) = (parts.shares.iter().sum(), fitted.sizes(&test)[ODD.0]);
        assert!((whole - size).abs() < 1e-4 * size, "{kind:?}: {whole} of {size}");
        let odd = test.values()[ODD.0 * WIDTH + ODD.1];
        assert!(
            parts.expected[ODD.1] < odd - 4.0,
            "{kind:?} expects {}",
            parts.expected[ODD.1]
        );
    }
}

#[test]
fn the_seed_decides() {
    let train = rows(200);
    for kind in networks() {
        let fit = |seed: u64| kind.fit(&train, &[true; 200], true, seed).expect("fits").fitted;
        assert_eq!(fit(3), fit(3), "{kind:?}");
        assert_ne!(fit(3), fit(4), "{kind:?}");
    }
}

#[test]
fn rows_to_leave_out_and_the_last_fifth_do_not_matter() {
    let train = rows(200);
    let mut other = train.values().to_vec();
    let mut keep = vec![true; 200];
    for row in (100..120).chain(160..200) {
        other[row * WIDTH..(row + 1) * WIDTH].fill(50.0);
        keep[row] = row >= 160;
    }
    let other = Rows::new(WIDTH, other);
    for kind in networks() {
        let fit = |rows: &Rows| kind.fit(rows, &keep, true, 3).expect("fits");
        assert_eq!(fit(&train).fitted, fit(&other).fitted, "{kind:?}");
        assert_eq!(fit(&train).unseen_from, 160);
    }
}

#[test]
fn without_a_healthy_row_there_is_an_error_that_says_so() {
    for kind in networks() {
        let error = kind
            .fit(&rows(60), &[false; 60], true, 3)
            .expect_err("nothing to learn");
        assert!(error.to_string().contains("healthy"), "{error}");
    }
}

#[test]
fn what_came_before_a_row_matters_to_the_lstm_alone() {
    let train = rows(400);
    let one = train.slice(350..351);
    for kind in networks() {
        let fitted = kind.fit(&train, &[true; 400], true, 3).expect("fits").fitted;
        let (alone, after) = (fitted.sizes(&one)[0], fitted.sizes(&train)[350]);
        let before_matters = matches!(kind, Kind::LstmAutoencoder(_));
        assert_eq!(alone != after, before_matters, "{kind:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn sizes_and_shares_are_numbers_and_not_negative(
        width in 1usize..5,
        train in prop::collection::vec(-1e3f32..1e3, 40),
        test in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::ZERO, 40),
        constant in any::<bool>(),
    ) {
        let train = if constant { vec![train[0]; 40] } else { train };
        let (train, test) = (Rows::new(width, train), Rows::new(width, test));
        {
            let sequences = Sequences { least_steps: 1, epochs: 1, length: 3, ..quick() };
            let kind = Kind::LstmAutoencoder(sequences);
            let trial = kind.fit(&train, &vec![true; train.len()], true, 1).expect("fits");
            let fine = |x: &f32| x.is_finite() && *x >= 0.0;
            prop_assert_eq!(trial.sizes.len(), train.len());
            prop_assert!(trial.sizes.iter().all(fine), "{:?} {:?}", kind, trial.sizes);
            let sizes = trial.fitted.sizes(&test);
            prop_assert!(sizes.iter().all(fine), "{:?} {:?}", kind, sizes);
            let parts = trial.fitted.explain(&test);
            prop_assert_eq!(parts.shares.len(), width);
            prop_assert!(parts.shares.iter().all(fine), "{:?} {:?}", kind, parts);
            prop_assert!(parts.expected.iter().all(|x| x.is_finite()), "{:?} {:?}", kind, parts);
        }
    }
}

/// Enough metrics that lists of one number for each are stored as tensors, if they can be.
const METRICS: usize = 18;

fn frame() -> Frame {
    let rows = rows(900);
    let times = (0..300).map(|t| 1_600_000_000 + 900 * t).collect();
    let names = (0..METRICS).map(|m| format!("metric{m}")).collect();
    Frame::new("n1", 900, times, names, rows.values().to_vec()).expect("a frame")
}

fn stored(name: &str, path: &Path) -> NodeModel {
    let mut recipe = Recipe::named(name, 3).expect("a recipe");
    recipe.set_epochs(2);
    let model = NodeModel::fit(&frame(), &recipe).expect("fits");
    model.save(path).expect("saved");
    model
}

/// Why a window is unusual.
fn explained(model: &NodeModel) -> Vec<Contribution> {
    let mut found = vec![];
    model.watch(&frame().slice(0..251), &mut |scored| found = scored.explain(0));
    found
}

const NAMES: [&str; 4] = [
    "default",
    "autoencoder",
    "lstm-autoencoder",
    "default+autoencoder+lstm-autoencoder",
];

#[test]
fn a_detector_that_was_stored_scores_and_explains_as_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("n1.safetensors");
    for name in NAMES {
        let model = stored(name, &path);
        let loaded = NodeModel::load(&path).expect("loads");
        assert_eq!(loaded.score(&frame()), model.score(&frame()), "{name}");
        assert_eq!(explained(&loaded), explained(&model), "{name}");
    }
}

/// Changes what a stored detector says of its first member.
fn change(path: &Path, change: impl FnOnce(&mut Value)) {
    let bytes = fs::read(path).expect("the file");
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().expect("8 bytes")) as usize;
    let (header, tensors) = rest.split_at(length);
    let mut header: Value = serde_json::from_slice(header).expect("a header");
    let entry = &mut header["__metadata__"]["synod.detector"];
    let mut detector: Value = serde_json::from_str(entry.as_str().expect("text")).expect("a detector");
    let fitted = detector["members"][0]["fitted"]
        .as_object_mut()
        .expect("a detector");
    change(fitted.values_mut().next().expect("a detector"));
    *entry = detector.to_string().into();
    let header = serde_json::to_vec(&header).expect("written");
    let length = (header.len() as u64).to_le_bytes();
    fs::write(path, [&length[..], &header, tensors].concat()).expect("written");
}

#[test]
fn a_damaged_detector_is_refused_with_advice() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("n1.safetensors");
    let huge = json!(u64::MAX / 2);
    {
        let (name, fields) = ("lstm-autoencoder", ["width", "length", "hidden"]);
        stored(name, &path);
        let whole = fs::read(&path).expect("the file");
        let refused = |what: &str| {
            let error = NodeModel::load(&path).expect_err(what);
            assert!(
                error.to_string().contains("train it again"),
                "{name} {what}: {error}"
            );
        };
        for field in fields {
            for value in [
                json!(0),
                json!(3),
                huge.clone(),
                json!(-1),
                json!("many"),
                Value::Null,
            ] {
                fs::write(&path, &whole).expect("written");
                change(&path, |fitted| fitted[field] = value.clone());
                // Sequences of three are as good as any.
                if field != "length" || value != json!(3) {
                    refused(&format!("with {field} of {value}"));
                }
            }
        }
        for cut in [0, 1, 8, 100, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..cut]).expect("written");
            refused(&format!("cut at {cut}"));
        }
    }
}
