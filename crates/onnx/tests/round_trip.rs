//! What Synod writes as ONNX, Synod reads back as a model that gives the same results.

use std::path::Path;

use synod_engine::ops::Slide;
use synod_nn::layers::{
    Activation, AveragePool, BatchNorm, Conv2d, Gru, LastStep, Layer, LayerNorm, Sequential,
};
use synod_nn::{Data, Fit, Loss, Model, Optimizer, zoo};
use synod_onnx::{Export, Import};

fn rows(model: &Model, count: usize, classes: Option<usize>) -> Vec<f32> {
    let n = model.input_shape().elements() * count;
    let wave = |i: usize| ((i * 37 % 101) as f32 / 50.0 - 1.0) * 0.8;
    (0..n)
        .map(|i| classes.map_or(wave(i), |c| (i * 13 % c) as f32))
        .collect()
}

fn worst(x: &[f32], y: &[f32]) -> f32 {
    assert_eq!(x.len(), y.len());
    let difference = x.iter().zip(y).map(|(a, b)| (a - b).abs());
    difference.fold(0.0, |m, d| if d.is_nan() { f32::INFINITY } else { m.max(d) })
}

fn back(model: &Model) -> Model {
    let bytes = Export::default().bytes(model).expect("a file");
    Import::default()
        .bytes(&bytes, Path::new("m.onnx"))
        .expect("a model")
}

fn check(model: &Model, classes: Option<usize>) -> Model {
    let again = back(model);
    assert_eq!(again.input_shape(), model.input_shape());
    assert_eq!(again.output_shape(), model.output_shape());
    for count in [1, 4] {
        let x = rows(model, count, classes);
        let (ours, theirs) = (
            model.predict(&x).expect("ours"),
            again.predict(&x).expect("again"),
        );
        assert!(worst(&ours, &theirs) < 1e-4, "{}", worst(&ours, &theirs));
        assert!(ours.iter().any(|v| v.abs() > 1e-3), "all zeros show nothing");
    }
    again
}

#[test]
fn dense_networks_come_back_the_same() {
    check(&zoo::mlp(&[12, 9, 4], 1).expect("a model"), None);
    check(&zoo::autoencoder(&[10, 6, 3, 6, 10], 2).expect("a model"), None);
    // At inference the code is its mean.
    check(&zoo::vae(&[12, 8, 3], 1.0, 3).expect("a model"), None);
}

#[test]
fn convolutional_networks_come_back_the_same_without_a_weight_more() {
    let settings = zoo::Resnet {
        version: zoo::Version::V15,
        blocks: vec![1, 2],
        width: 4,
        image: [32, 32],
        classes: 5,
    };
    let mut model = zoo::resnet(&settings, 1).expect("a model");
    // Estimates as they begin would hide a mistake in their use.
    let moved = model
        .buffers()
        .iter()
        .enumerate()
        .map(|(i, b)| b + 0.1 * (i % 3) as f32);
    let moved: Vec<f32> = moved.collect();
    model.buffers_mut().copy_from_slice(&moved);
    check(&model, None);
}

#[test]
fn poolings_gated_units_and_normalisations_come_back_the_same() {
    let images = Model::build([6, 7, 2], 1, |setup| {
        let conv = setup.within("conv", |s| {
            Conv2d::new(s, 2, 4, [3, 2], Slide::by(2).same(), Activation::LeakyRelu(0.1))
        });
        let norm = setup.within("norm", |s| BatchNorm::new(s, 4).then(Activation::Gelu));
        let pool = AveragePool {
            count_padding: false,
            kernel: [2, 2],
            slide: Slide::by(1).padded(1),
        };
        let layers: Vec<Box<dyn Layer>> = vec![Box::new(conv), Box::new(norm), Box::new(pool)];
        Sequential(layers)
    });
    check(&images.expect("a model"), None);
    let sequences = Model::build([21, 3], 1, |setup| {
        let gru = setup.within("gru", |s| Gru::new(s, 3, 5));
        let norm = setup.within("norm", |s| LayerNorm::new(s, 5));
        let layers: Vec<Box<dyn Layer>> = vec![
            Box::new(gru),
            Box::new(LastStep),
            Box::new(norm),
            Box::new(Activation::Softmax),
        ];
        Sequential(layers)
    });
    check(&sequences.expect("a model"), None);
}

#[test]
fn recurrent_networks_come_back_the_same_with_their_loops_unrolled() {
    check(&zoo::lstm_autoencoder(35, 3, 6, 1).expect("a model"), None);
    check(&zoo::char_lstm(11, 18, 1).expect("a model"), Some(11));
}

#[test]
fn images_may_go_in_with_channels_first() {
    let model = Model::build([5, 6, 3], 1, |setup| {
        Conv2d::new(setup, 3, 2, [3, 3], Slide::by(1).same(), Activation::Relu)
    })
    .expect("a model");
    let bytes = Export { channels_first: true }.bytes(&model).expect("a file");
    let import = |channels_last| Import {
        channels_last,
        ..Import::default()
    };
    let name = Path::new("m.onnx");
    let as_written = import(false).bytes(&bytes, name).expect("a model");
    assert_eq!(as_written.input_shape().dims(), [3, 5, 6]);
    let as_ours = import(true).bytes(&bytes, name).expect("a model");
    assert_eq!(as_ours.input_shape().dims(), [5, 6, 3]);
    let x = rows(&model, 2, None);
    let given = as_ours.predict(&x).expect("rows");
    assert!(worst(&model.predict(&x).expect("rows"), &given) < 1e-5);
}

#[test]
fn an_imported_model_is_trained_and_stored_like_any_other() {
    let model = zoo::autoencoder(&[6, 4, 6], 1).expect("a model");
    let mut again = back(&model);
    assert_eq!(again.layout().len(), model.layout().len());
    let x = rows(&again, 40, None);
    let fit = Fit {
        epochs: 5,
        batch: 8,
        ..Fit::new(Loss::Mse, Optimizer::adam(1e-2))
    };
    let history = again.fit(&Data::itself(&x, 6), &fit, &mut []).expect("a fit");
    assert!(history.epochs[4].loss < history.epochs[0].loss);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trained.safetensors");
    again.save(&path).expect("a file");
    let loaded = Model::load(&path).expect("a model");
    assert_eq!(
        loaded.predict(&x).expect("rows"),
        again.predict(&x).expect("rows")
    );
}
