//! PyTorch's tensors find their places in models of the zoo.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use synod_nn::{Model, zoo};
use synod_onnx::state_dict;

fn stored(tensors: &BTreeMap<String, (Vec<usize>, Vec<f32>)>) -> Vec<u8> {
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(n, (d, v))| {
            (
                n.clone(),
                d.clone(),
                v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            )
        })
        .collect();
    let views = bytes.iter().map(|(n, d, b)| {
        (
            n.clone(),
            TensorView::new(Dtype::F32, d.clone(), b).expect("a view"),
        )
    });
    safetensors::serialize(views.collect::<Vec<_>>(), None).expect("a file")
}

fn counted(dims: &[usize]) -> (Vec<usize>, Vec<f32>) {
    let n: usize = dims.iter().product();
    (dims.to_vec(), (0..n).map(|i| i as f32).collect())
}

fn sequential() -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let pairs = [
        ("0.weight", &[4, 3][..]),
        ("0.bias", &[4]),
        ("2.weight", &[2, 4]),
        ("2.bias", &[2]),
    ];
    pairs.iter().map(|(n, d)| ((*n).to_owned(), counted(d))).collect()
}

#[test]
fn a_sequential_fills_a_perceptron_transposed() {
    let mut model = zoo::mlp(&[3, 4, 2], 1).expect("a model");
    state_dict::load_bytes(&mut model, &stored(&sequential()), Path::new("w")).expect("it fits");
    // Row i, column o of Synod's weight is row o, column i of PyTorch's.
    assert_eq!(
        model.parameter("layer0.weight").expect("it")[..5],
        [0.0, 3.0, 6.0, 9.0, 1.0]
    );
    assert_eq!(model.parameter("layer1.bias").expect("it"), [0.0, 1.0]);
}

#[test]
fn all_misfits_are_listed_and_nothing_is_changed() {
    let mut model = zoo::mlp(&[3, 4, 2], 1).expect("a model");
    let before = model.parameters().to_vec();
    let mut tensors = sequential();
    tensors.insert("2.weight".into(), counted(&[2, 5]));
    tensors.insert("0.bias".into(), counted(&[7]));
    tensors.insert("extra.thing".into(), counted(&[1]));
    let error = state_dict::load_bytes(&mut model, &stored(&tensors), Path::new("w")).expect_err("misfits");
    let text = error.to_string();
    for part in [
        "3 tensors",
        "`layer0.bias`",
        "[7]",
        "`layer1.weight`",
        "[2, 5]",
        "`extra.thing`",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(model.parameters(), before);
}

#[test]
fn biases_of_an_lstm_are_summed_and_estimates_become_buffers() {
    let mut model = zoo::lstm_autoencoder(3, 2, 1, 1).expect("a model");
    let mut tensors = BTreeMap::new();
    for (name, inputs) in [("reader", 2), ("writer", 1)] {
        for (leaf, dims) in [
            ("weight_ih_l0", vec![4, inputs]),
            ("weight_hh_l0", vec![4, 1]),
            ("bias_ih_l0", vec![4]),
            ("bias_hh_l0", vec![4]),
        ] {
            tensors.insert(format!("{name}.{leaf}"), counted(&dims));
        }
    }
    tensors.insert("output.weight".into(), counted(&[2, 1]));
    tensors.insert("output.bias".into(), counted(&[2]));
    state_dict::load_bytes(&mut model, &stored(&tensors), Path::new("w")).expect("it fits");
    assert_eq!(model.parameter("reader.bias").expect("it"), [0.0, 2.0, 4.0, 6.0]);
    assert_eq!(
        model.parameter("reader.from_input").expect("it")[..4],
        [0.0, 2.0, 4.0, 6.0]
    );
}

fn small_resnet() -> Model {
    let settings = zoo::Resnet {
        version: zoo::Version::V15,
        blocks: vec![1],
        width: 2,
        image: [16, 16],
        classes: 3,
    };
    zoo::resnet(&settings, 1).expect("a model")
}

#[test]
fn torchvisions_names_fill_a_residual_network() {
    let mut model = small_resnet();
    let mut tensors = BTreeMap::from([
        ("conv1.weight".to_owned(), counted(&[2, 3, 7, 7])),
        ("fc.weight".to_owned(), counted(&[3, 8])),
        ("fc.bias".to_owned(), counted(&[3])),
    ]);
    for (conv, norm, dims) in [
        ("conv1", "bn1", [2, 2, 1, 1]),
        ("conv2", "bn2", [2, 2, 3, 3]),
        ("conv3", "bn3", [8, 2, 1, 1]),
        ("downsample.0", "downsample.1", [8, 2, 1, 1]),
    ] {
        tensors.insert(format!("layer1.0.{conv}.weight"), counted(&dims));
        for leaf in ["weight", "bias", "running_mean", "running_var"] {
            tensors.insert(format!("layer1.0.{norm}.{leaf}"), counted(&dims[..1]));
            tensors.insert(format!("bn1.{leaf}"), counted(&[2]));
        }
    }
    state_dict::load_bytes(&mut model, &stored(&tensors), Path::new("w")).expect("it fits");
    // [o, i, h, w] at (1, 0, 2, 1) is [h, w, i, o] at (2, 1, 0, 1).
    let spread = model.parameter("stage0.block0.spread.weight").expect("it");
    assert_eq!(spread[(2 * 3 + 1) * 4 + 1], 18.0 + 7.0);
    let estimate = model
        .buffer("stage0.block0.shortcut.norm.running_variance")
        .expect("it");
    assert_eq!(estimate[7], 7.0);
}
