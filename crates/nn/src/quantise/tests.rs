//! Bytes against the graph that rounds: they may differ by one step of the output's grid, no more.

use proptest::prelude::*;
use synod_core::Random;
use synod_engine::ops::Slide;
use synod_engine::{Tensor, interpret};

use super::*;
use crate::init::Initializer;
use crate::layers::{
    Activation, AveragePool, BatchNorm, Conv2d, ConvSettings, Dense, Flatten, GlobalAveragePool, MaxPool,
    Residual, Sequential,
};
use crate::parameters::Setup;
use crate::zoo;

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed, &[]);
    (0..count).map(|_| 2.0 * random.uniform() as f32 - 1.0).collect()
}

/// Normalisations as after training: no mean is 0, no variance 1.
fn settle(model: &mut Model, seed: u64) {
    let entries = model.buffer_layout().entries().to_vec();
    for (i, e) in entries.iter().enumerate() {
        let values = numbers(e.range.len(), seed + i as u64);
        let settled = values.iter().map(|x| match e.name.ends_with("variance") {
            true => 1.5 + x,
            false => 0.3 * x,
        });
        model.buffers_mut()[e.range.clone()].copy_from_slice(&settled.collect::<Vec<_>>());
    }
    let entries = model.layout().entries().to_vec();
    for (i, e) in entries.iter().enumerate().filter(|(_, e)| e.shape.rank() == 1) {
        let values = numbers(e.range.len(), seed + 100 + i as u64);
        let settled = values.iter().map(|x| match e.name.ends_with("scale") {
            true => 1.0 + 0.5 * x,
            false => 0.2 * x,
        });
        model.parameters_mut()[e.range.clone()].copy_from_slice(&settled.collect::<Vec<_>>());
    }
}

/// What the rounding graph gives, in the oracle.
fn oracle(aware: &Model, inputs: &[f32]) -> Vec<f64> {
    let rows = inputs.len() / aware.input_shape().elements();
    let graph = aware.graph(rows).expect("a graph");
    let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let mut args: Vec<Vec<f64>> = aware
        .layout()
        .entries()
        .iter()
        .map(|e| wide(&aware.parameters()[e.range.clone()]))
        .collect();
    args.push(wide(inputs));
    interpret(&graph, &args).expect("a sound graph").remove(0)
}

/// The largest distance between bytes and the rounding graph, in steps of the output's grid.
fn steps_apart(model: &Model, inputs: &[f32]) -> f64 {
    let aware = aware(model, inputs).expect("a model of known steps");
    let bytes = Quantised::from_aware(&aware).expect("a graph with all ranges");
    let last = bytes.grids.last().copied().flatten().expect("an output of bytes");
    let found = bytes.predict(inputs).expect("whole rows");
    let apart = |(x, y): (&f32, &f64)| (f64::from(*x) - y).abs() / f64::from(last.scale);
    found
        .iter()
        .zip(&oracle(&aware, inputs))
        .map(apart)
        .fold(0.0, f64::max)
}

fn conv(
    s: &mut Setup,
    channels: usize,
    outputs: usize,
    kernel: usize,
    slide: Slide,
    groups: usize,
) -> Conv2d {
    let settings = ConvSettings {
        channels,
        outputs,
        kernel: [kernel; 2],
        slide,
        groups,
        bias: true,
        init: Initializer::HeNormal,
        activation: Activation::Relu,
    };
    Conv2d::with(s, &settings)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_dense_layer_in_bytes_is_within_a_step_of_the_rounding_graph(
        inputs in 1usize..40, outputs in 1usize..20, relu in any::<bool>(), seed in any::<u64>(),
    ) {
        let mut model = Model::build([inputs], seed, |s| {
            let activation = if relu { Activation::Relu } else { Activation::Identity };
            let dense = Dense::new(s, inputs, outputs, activation);
            // A shape at the end keeps the output in bytes.
            Sequential(vec![Box::new(dense), Box::new(move |_: &_, x: &Tensor| {
                x.reshape([x.shape().dims()[0], outputs, 1])
            })])
        }).expect("a model");
        settle(&mut model, seed);
        prop_assert!(steps_apart(&model, &numbers(inputs * 9, seed)) <= 1.001);
    }

    #[test]
    fn a_convolution_in_bytes_is_within_a_step_of_the_rounding_graph(
        h in 3usize..8, w in 3usize..8, per_group in 1usize..4, groups in 1usize..3, outputs in 1usize..5,
        kernel in 1usize..4, stride in 1usize..3, same in any::<bool>(), seed in any::<u64>(),
    ) {
        let (channels, outputs) = (per_group * groups, outputs * groups);
        let slide = if same { Slide::by(stride).same() } else { Slide::by(stride) };
        let mut model = Model::build([h, w, channels], seed, |s| {
            let layer = conv(s, channels, outputs, kernel, slide, groups);
            Sequential(vec![Box::new(layer), Box::new(Flatten)])
        }).expect("a model");
        settle(&mut model, seed);
        prop_assert!(steps_apart(&model, &numbers(h * w * channels * 3, seed)) <= 1.001);
    }
}

fn small_resnet() -> Model {
    let settings = zoo::Resnet {
        version: zoo::Version::V15,
        blocks: vec![1, 2],
        width: 4,
        image: [16, 16],
        classes: 5,
    };
    let mut model = zoo::resnet(&settings, 3).expect("a model");
    settle(&mut model, 5);
    model
}

#[test]
fn folding_leaves_a_residual_network_the_same_function_without_normalisations() -> Result<()> {
    let model = small_resnet();
    let folded = fold(&model)?;
    assert!(folded.buffers().is_empty());
    let inputs = numbers(16 * 16 * 3 * 4, 1);
    let (wanted, found) = (model.predict(&inputs)?, folded.predict(&inputs)?);
    let size = wanted.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    for (x, y) in wanted.iter().zip(&found) {
        assert!((x - y).abs() <= 1e-4 * size, "{x} became {y}");
    }
    Ok(())
}

#[test]
fn a_residual_network_in_bytes_follows_its_numbers() -> Result<()> {
    let (model, inputs) = (small_resnet(), numbers(16 * 16 * 3 * 24, 1));
    let bytes = Quantised::calibrated(&model, &inputs)?;
    let (wanted, found) = (model.predict(&inputs)?, bytes.predict(&inputs)?);
    let mean = wanted.iter().sum::<f32>() / wanted.len() as f32;
    let spread: f32 = wanted.iter().map(|x| (x - mean).powi(2)).sum();
    let error: f32 = wanted.iter().zip(&found).map(|(x, y)| (x - y).powi(2)).sum();
    assert!(error < 0.01 * spread, "error {error} of {spread}");
    assert_eq!(found, bytes.predict_on(&inputs, 3)?, "threads change nothing");
    Ok(())
}

#[test]
fn pools_relus_and_sums_in_every_order_stay_near_the_rounding_graph() -> Result<()> {
    let mut model = Model::build([9, 9, 2], 1, |s| {
        let first = s.within("first", |s| conv(s, 2, 6, 3, Slide::by(1).same(), 2));
        let inner = s.within("inner", |s| {
            Conv2d::new(s, 6, 6, [3, 3], Slide::by(1).padded(1), Activation::Identity)
        });
        let norm = s.within("norm", |s| BatchNorm::new(s, 6));
        let last = s.within("last", |s| conv(s, 6, 3, 1, Slide::by(1), 1));
        let average = AveragePool {
            kernel: [3, 3],
            slide: Slide::by(2).padded(1),
            count_padding: false,
        };
        Sequential(vec![
            Box::new(first),
            Box::new(AveragePool::by(2)),
            Box::new(Residual {
                body: Box::new(Sequential(vec![Box::new(inner), Box::new(norm)])),
                shortcut: None,
                activation: Activation::Identity,
            }),
            Box::new(Activation::Relu),
            Box::new(Residual {
                body: Box::new(MaxPool {
                    kernel: [3, 3],
                    slide: Slide::by(1).padded(1),
                }),
                shortcut: None,
                activation: Activation::Relu,
            }),
            Box::new(average),
            Box::new(last),
            Box::new(GlobalAveragePool),
        ])
    })?;
    settle(&mut model, 2);
    let apart = steps_apart(&model, &numbers(9 * 9 * 2 * 8, 4));
    // Each of the steps before may differ by one; the mean at the end evens that out.
    assert!(apart <= 2.001, "{apart}");
    Ok(())
}

#[test]
fn a_model_that_bytes_cannot_express_is_refused_with_the_op_at_fault() {
    let refused = |activation: Activation| {
        let model = Model::build([4], 1, |s| {
            let (first, last) = (
                s.within("a", |s| Dense::new(s, 4, 4, activation)),
                s.within("b", |s| Dense::new(s, 4, 2, Activation::Identity)),
            );
            Sequential(vec![Box::new(first), Box::new(last)])
        });
        let model = model.expect("a model");
        Quantised::calibrated(&model, &[0.5; 8])
            .err()
            .map(|e| e.to_string())
    };
    assert_eq!(refused(Activation::Relu), None);
    let problem = refused(Activation::Tanh).expect("a refusal");
    assert!(problem.contains("`tanh`"), "{problem}");
    let lstm = zoo::by_name("char-lstm", 1).expect("a model");
    assert!(Quantised::calibrated(&lstm, &[0.0; 80]).is_err());
}

#[test]
fn a_model_without_ranges_or_with_weights_that_ran_away_is_refused() -> Result<()> {
    let mut model = zoo::mlp(&[4, 8, 2], 1)?;
    assert!(Quantised::from_aware(&model).is_err());
    assert!(Quantised::calibrated(&model, &[]).is_err());
    assert!(Quantised::calibrated(&model, &[0.0; 3]).is_err());
    model.parameters_mut()[3] = f32::NAN;
    assert!(Quantised::calibrated(&model, &[0.5; 8]).is_err());
    Ok(())
}
