//! A model file from outside may be anything: loading it gives a model or an error, never a panic.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use synod_engine::ops::Slide;
use synod_nn::layers::{Activation, BatchNorm, Conv2d, GlobalAveragePool, Layer, MaxPool, Sequential};
use synod_nn::{Data, Fit, Loss, Model, Optimizer, zoo};

fn stored(mut model: Model) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.safetensors");
    let width = model.input_shape().elements();
    let x: Vec<f32> = (0..10 * width).map(|i| i as f32 / (10 * width) as f32).collect();
    let fit = Fit {
        epochs: 1,
        batch: 5,
        ..Fit::new(Loss::Rmse, Optimizer::adam(1e-3))
    };
    let data = Data::new(
        &x,
        width,
        &x[..10 * model.output_shape().elements()],
        model.output_shape().elements(),
    );
    model.fit(&data, &fit, &mut []).expect("a fit");
    model.save(&path).expect("a file");
    std::fs::read(&path).expect("bytes")
}

fn dense() -> Model {
    zoo::autoencoder(&[4, 2, 4], 1).expect("a model")
}

/// With windows and buffers.
fn images() -> Model {
    let made = Model::build([4, 5, 1], 1, |setup| {
        let conv = setup.within("conv", |s| {
            Conv2d::new(s, 1, 2, [3, 3], Slide::by(1).same(), Activation::Relu)
        });
        let norm = setup.within("norm", |s| BatchNorm::new(s, 2));
        let layers: Vec<Box<dyn Layer>> = vec![
            Box::new(conv),
            Box::new(norm),
            Box::new(MaxPool::by(2)),
            Box::new(GlobalAveragePool),
        ];
        Sequential(layers)
    });
    made.expect("a model")
}

/// Loads bytes, and uses whatever model comes out of them.
fn try_bytes(bytes: &[u8]) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let path = folder.path().join("m.safetensors");
    std::fs::write(&path, bytes).map_err(|e| e.to_string())?;
    let model = Model::load(&path).map_err(|e| e.to_string())?;
    let width = model.input_shape().elements();
    if width <= 1 << 16 {
        let _ = model.predict(&vec![0.1; width * 2]);
    }
    Ok(())
}

#[test]
fn a_whole_file_loads_and_every_cut_one_says_that_it_is_damaged() {
    let bytes = stored(dense());
    assert_eq!(try_bytes(&bytes), Ok(()));
    for cut in (0..bytes.len()).step_by(7) {
        let error = try_bytes(&bytes[..cut]).expect_err("a cut file");
        assert!(
            error.contains("m.safetensors") && error.contains("damaged"),
            "{error}"
        );
    }
}

#[test]
fn foreign_files_say_what_they_are_not() {
    assert!(
        try_bytes(b"hello")
            .expect_err("not a model")
            .contains("not a safetensors file")
    );
    let plain = [&2u64.to_le_bytes()[..], b"{}"].concat();
    assert!(
        try_bytes(&plain)
            .expect_err("not ours")
            .contains("not one of Synod's")
    );
    let missing = Model::load(std::path::Path::new("/no/such/model"))
        .expect_err("no file")
        .to_string();
    assert!(
        missing.contains("/no/such/model") && missing.contains("cannot be read"),
        "{missing}"
    );
}

/// Changes a few bytes, and keeps the header's length honest so that the damage reaches the layers below.
fn damage(bytes: &mut [u8], edits: &[(prop::sample::Index, u8)]) {
    for (at, value) in edits {
        let i = at.index(bytes.len());
        if i >= 8 {
            bytes[i] = *value;
        }
    }
}

/// Replaces one whole number of the header by another, which keeps it well-formed JSON.
fn renumber(bytes: &[u8], which: prop::sample::Index, value: u32) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let header = String::from_utf8_lossy(&bytes[8..8 + length]).into_owned();
    let digits: Vec<(usize, usize)> = {
        let mut found = vec![];
        let mut start = None;
        for (i, c) in header.char_indices() {
            match (c.is_ascii_digit(), start) {
                (true, None) => start = Some(i),
                (false, Some(s)) => {
                    found.push((s, i));
                    start = None;
                }
                _ => {}
            }
        }
        found
    };
    let (from, to) = digits[which.index(digits.len())];
    let changed = format!("{}{value}{}", &header[..from], &header[to..]);
    [
        &(changed.len() as u64).to_le_bytes()[..],
        changed.as_bytes(),
        &bytes[8 + length..],
    ]
    .concat()
}

/// Rounds that always run; `SYNOD_FUZZ_SECONDS` asks for more.
const ROUNDS: u8 = 4;
const CASES: u32 = 200;

#[test]
fn damaged_files_never_panic() {
    never_panics(&stored(dense()));
}

#[test]
fn damaged_files_of_models_of_images_never_panic() {
    never_panics(&stored(images()));
}

fn never_panics(original: &[u8]) {
    let seconds: u64 = std::env::var("SYNOD_FUZZ_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0);
    let until = Instant::now() + Duration::from_secs(seconds);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    let number = (any::<prop::sample::Index>(), prop_oneof![0u32..20, any::<u32>()]);
    let mut rounds: u64 = 0;
    while rounds < u64::from(ROUNDS) || Instant::now() < until {
        rounds += 1;
        // Every round has a seed of its own, so that a failure comes back.
        let mut seed = [7; 32];
        seed[..8].copy_from_slice(&rounds.to_le_bytes());
        let config = ProptestConfig {
            cases: CASES,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let checked =
            TestRunner::new_with_rng(config, rng).run(&(&edits, &number), |(edits, (which, value))| {
                let mut bytes = original.to_vec();
                damage(&mut bytes, &edits);
                let _ = try_bytes(&bytes);
                let _ = try_bytes(&renumber(original, which, value));
                Ok(())
            });
        checked.expect("no panic");
    }
    eprintln!("{} damaged files", 2 * u64::from(CASES) * rounds);
}
