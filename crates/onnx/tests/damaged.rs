//! A file from outside may be anything: importing it gives a model or an error that says what is wrong, never a panic.

use std::path::Path;

use proptest::prelude::*;
use synod_engine::ops::Slide;
use synod_nn::layers::{Activation, AveragePool, Conv2d, Dense, Flatten, LastStep, Layer, Lstm, Sequential};
use synod_nn::{Model, zoo};
use synod_onnx::{Error, Export, Import, state_dict};

fn bytes(model: &Model) -> Vec<u8> {
    Export::default().bytes(model).expect("a file")
}

fn images() -> Vec<u8> {
    let model = Model::build([4, 5, 1], 1, |setup| {
        let conv = setup.within("conv", |s| {
            Conv2d::new(s, 1, 2, [3, 3], Slide::by(1).same(), Activation::Gelu)
        });
        let dense = setup.within("dense", |s| Dense::new(s, 8, 2, Activation::Softmax));
        let layers: Vec<Box<dyn Layer>> = vec![
            Box::new(conv),
            Box::new(AveragePool::by(2)),
            Box::new(Flatten),
            Box::new(dense),
        ];
        Sequential(layers)
    });
    bytes(&model.expect("a model"))
}

fn sequences() -> Vec<u8> {
    let model = Model::build([3, 2], 1, |setup| {
        let lstm = setup.within("lstm", |s| Lstm::new(s, 2, 2));
        let layers: Vec<Box<dyn Layer>> = vec![Box::new(lstm), Box::new(LastStep)];
        Sequential(layers)
    });
    bytes(&model.expect("a model"))
}

fn import(bytes: &[u8]) -> Result<Model, Error> {
    Import::default().bytes(bytes, Path::new("m.onnx"))
}

/// The file with a text replaced by another of the same length.
fn renamed(file: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut file = file.to_vec();
    let places: Vec<usize> = (0..file.len() - from.len())
        .filter(|&i| &file[i..i + from.len()] == from.as_bytes())
        .collect();
    places
        .iter()
        .for_each(|&i| file[i..i + to.len()].copy_from_slice(to.as_bytes()));
    file
}

#[test]
fn all_unknown_ops_are_named_at_once_with_counts() {
    let model = zoo::mlp(&[3, 4, 4, 2], 1).expect("a model");
    let file = renamed(&renamed(&bytes(&model), "Relu", "Rulu"), "MatMul", "MutMal");
    let error = import(&file).expect_err("unknown ops").to_string();
    for part in ["m.onnx", "Rulu x 2", "MutMal x 3", "`node.relu`", "`node.matmul`"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn errors_say_where_they_are() {
    let error = import(b"\x0a\xff\xff").expect_err("no file").to_string();
    assert!(
        error.contains("m.onnx") && error.contains("ModelProto"),
        "{error}"
    );
    let error = import(&[]).expect_err("no file").to_string();
    assert!(error.contains("`graph` is missing"), "{error}");
    let model = zoo::mlp(&[3, 2], 1).expect("a model");
    let file = renamed(
        &bytes(&model),
        "layer0.weight",
        "layer0.freight".get(..13).expect("13 letters"),
    );
    // Both the tensor and the node that reads it are renamed, so only one of them is broken here.
    assert!(import(&file).is_ok());
    let whole = bytes(&model);
    for cut in 0..whole.len() {
        if let Err(error) = import(&whole[..cut]) {
            assert!(error.to_string().starts_with("m.onnx: "), "{error}");
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = Import::default()
        .file(Path::new("nowhere.onnx"))
        .expect_err("no file");
    assert!(error.to_string().contains("nowhere.onnx: cannot be read"));
    let mut model = zoo::mlp(&[3, 2], 1).expect("a model");
    let error = state_dict::load_bytes(&mut model, b"garbage", Path::new("w.safetensors"));
    assert!(
        error
            .expect_err("no file")
            .to_string()
            .contains("w.safetensors: damaged")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_bytes_makes_a_panic(
        which in 0..2usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        thread_local! {
            static FILES: [Vec<u8>; 2] = [images(), sequences()];
        }
        let mut file = FILES.with(|f| f[which].clone());
        for (place, byte) in changes {
            let place = place.index(file.len());
            file[place] = byte;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        let _ = import(&file);
    }
}
