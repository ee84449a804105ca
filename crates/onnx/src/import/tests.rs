//! Files as other exporters write them, made by hand.

use std::path::Path;

use prost::Message;
use synod_engine::Tensor;
use synod_engine::ops::{Padding, Slide};
use synod_nn::{Data, Fit, Loss, Model, Optimizer};

use super::Import;
use crate::proto::{
    Attribute, Dimension, GraphProto, ModelProto, NodeProto, OperatorSet, TensorProto, TensorShape,
    TensorType, TypeProto, ValueInfo, element,
};

fn node(op: &str, inputs: &[&str], output: &str, attribute: Vec<Attribute>) -> NodeProto {
    NodeProto {
        op_type: op.into(),
        name: format!("the {op}"),
        input: inputs.iter().map(|&i| i.into()).collect(),
        output: vec![output.into()],
        attribute,
        domain: String::new(),
    }
}

fn ints(name: &str, ints: &[i64]) -> Attribute {
    Attribute {
        name: name.into(),
        ints: ints.to_vec(),
        ..Attribute::default()
    }
}

fn int(name: &str, i: i64) -> Attribute {
    Attribute {
        name: name.into(),
        i: Some(i),
        ..Attribute::default()
    }
}

fn text(name: &str, s: &str) -> Attribute {
    Attribute {
        name: name.into(),
        s: Some(s.into()),
        ..Attribute::default()
    }
}

fn tensor(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: Some(element::FLOAT),
        float_data: values.to_vec(),
        ..TensorProto::default()
    }
}

fn value(name: &str, dims: &[i64]) -> ValueInfo {
    let dimension = |&d: &i64| Dimension {
        dim_value: (d >= 0).then_some(d),
        dim_param: (d < 0).then(|| "n".into()),
    };
    let shape = TensorShape {
        dim: dims.iter().map(dimension).collect(),
    };
    ValueInfo {
        name: name.into(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorType {
                elem_type: Some(element::FLOAT),
                shape: Some(shape),
            }),
        }),
    }
}

/// A file of one output `y` for inputs of the given extents, -1 for any batch.
fn file(inputs: Vec<ValueInfo>, node: Vec<NodeProto>, initializer: Vec<TensorProto>) -> Vec<u8> {
    let graph = GraphProto {
        node,
        initializer,
        input: inputs,
        output: vec![value("y", &[])],
        name: "by hand".into(),
    };
    let opset = OperatorSet {
        domain: String::new(),
        version: Some(17),
    };
    let model = ModelProto {
        graph: Some(graph),
        opset_import: vec![opset],
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

fn import(bytes: &[u8]) -> crate::Result<Model> {
    Import::default().bytes(bytes, Path::new("m.onnx"))
}

fn wave(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 % 23) as f32 - 11.0) / 10.0).collect()
}

#[test]
fn running_estimates_are_buffers_that_training_moves() {
    let parts = ["scale", "shift", "mean", "variance"];
    let values: [[f32; 2]; 4] = [[2.0, 1.0], [0.5, -0.5], [1.0, -1.0], [4.0, 0.25]];
    let weights = parts
        .iter()
        .zip(&values)
        .map(|(n, v)| tensor(n, &[2], v))
        .collect();
    let norm = node(
        "BatchNormalization",
        &["x", "scale", "shift", "mean", "variance"],
        "y",
        vec![],
    );
    let mut model = import(&file(vec![value("x", &[-1, 2, 3])], vec![norm], weights)).expect("a model");
    assert_eq!((model.parameters().len(), model.buffers().len()), (4, 4));
    let x = wave(6);
    let y = model.predict(&x).expect("rows");
    for (i, (&x, &y)) in x.iter().zip(&y).enumerate() {
        let c = i / 3;
        let wanted = (x - values[2][c]) / (values[3][c] + 1e-5).sqrt() * values[0][c] + values[1][c];
        assert!((y - wanted).abs() < 1e-5, "{y} {wanted}");
    }
    let rows = wave(8 * 6);
    let before = model.buffers().to_vec();
    let fit = Fit {
        epochs: 1,
        batch: 4,
        ..Fit::new(Loss::Mse, Optimizer::sgd(0.1))
    };
    model.fit(&Data::itself(&rows, 6), &fit, &mut []).expect("a fit");
    assert!(model.buffers().iter().zip(&before).all(|(a, b)| a != b));
}

#[test]
fn groups_dilations_and_lower_padding_mean_what_onnx_says() {
    let weights = wave(4 * 3 * 2);
    let attributes = vec![
        int("group", 2),
        ints("dilations", &[1, 2]),
        ints("strides", &[2, 1]),
        text("auto_pad", "SAME_LOWER"),
    ];
    let conv = node("Conv", &["x", "w"], "y", attributes);
    let bytes = file(
        vec![value("x", &[-1, 2, 5, 6])],
        vec![conv],
        vec![tensor("w", &[4, 1, 3, 2], &weights)],
    );
    let model = import(&bytes).expect("a model");
    let x = wave(60);
    let images = Tensor::new(x.clone(), [1, 2, 5, 6]).transpose(&[0, 2, 3, 1]);
    let kernel = Tensor::new(weights, [4, 1, 3, 2]).transpose(&[2, 3, 1, 0]);
    let slide = Slide {
        stride: [2, 1],
        padding: Padding::Explicit([[1, 1], [1, 1]]),
        dilation: [1, 2],
    };
    let wanted = images.conv(&kernel, &slide, 2).transpose(&[0, 3, 1, 2]);
    let found = model.predict(&x).expect("rows");
    let wanted = wanted.values().expect("values");
    assert_eq!(found.len(), wanted.len());
    assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-5));
}

#[test]
fn weights_that_an_exporter_merged_are_trained_apart() {
    let nodes = vec![
        node("Identity", &["w"], "copy", vec![]),
        node("MatMul", &["x", "w"], "h", vec![]),
        node("MatMul", &["h", "copy"], "y", vec![]),
    ];
    let bytes = file(
        vec![value("x", &[-1, 2])],
        nodes,
        vec![tensor("w", &[2, 2], &[1.0, 2.0, 3.0, 4.0])],
    );
    let model = import(&bytes).expect("a model");
    assert_eq!(model.parameters().len(), 8);
    assert_eq!(model.predict(&[1.0, 0.0]).expect("a row"), [7.0, 10.0]);
}

#[test]
fn a_fixed_batch_in_a_reshape_gives_way() {
    let shape = TensorProto {
        name: "shape".into(),
        dims: vec![2],
        data_type: Some(element::INT64),
        int64_data: vec![1, 6],
        ..TensorProto::default()
    };
    let nodes = vec![
        node("Reshape", &["x", "shape"], "h", vec![]),
        node("Relu", &["h"], "y", vec![]),
    ];
    let model = import(&file(vec![value("x", &[1, 2, 3])], nodes, vec![shape])).expect("a model");
    assert_eq!(model.output_shape().dims(), [6]);
    assert_eq!(model.predict(&[1.0; 18]).expect("rows").len(), 18);
}

#[test]
fn what_makes_no_model_is_refused_by_name() {
    let add = node("Add", &["a", "b"], "y", vec![]);
    let two = file(
        vec![value("a", &[-1, 2]), value("b", &[-1, 2])],
        vec![add.clone()],
        vec![],
    );
    let error = import(&two).expect_err("two inputs").to_string();
    assert!(error.contains("2 inputs (`a`, `b`)"), "{error}");
    let bytes = file(
        vec![value("a", &[-1, 2])],
        vec![add.clone()],
        vec![tensor("b", &[3], &[1.0; 3])],
    );
    let error = import(&bytes).expect_err("misfits").to_string();
    assert!(
        error.contains("`the Add` (Add)") && error.contains("[1, 3]"),
        "{error}"
    );
    let error = import(&file(vec![value("a", &[-1, 2])], vec![add], vec![]))
        .expect_err("no b")
        .to_string();
    assert!(error.contains("`b` is defined nowhere"), "{error}");
}
