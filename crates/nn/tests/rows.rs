//! A model predicts the same for a row, bit for bit, however many rows are asked about at once.

use synod_nn::layers::{Gru, LastStep, Sequential};
use synod_nn::{Model, Result, zoo};

/// Around the numbers of rows at which kernels choose another way.
const COUNTS: [usize; 9] = [2, 7, 8, 16, 24, 25, 48, 49, 100];

/// Reproducible numbers in -1..1.
fn numbers(n: usize) -> Vec<f32> {
    let value = |i: usize| {
        let bits = (i as u32 + 1).wrapping_mul(2_654_435_761) >> 8;
        2.0 * bits as f32 / 16_777_216.0 - 1.0
    };
    (0..n).map(value).collect()
}

/// Predicts every row alone, then among others, with what was zero in the parameters, mostly biases, moved.
#[track_caller]
fn same_alone_and_among_others(model: &Model, rows: &[f32]) -> Result<()> {
    let mut model = model.clone();
    let moved = numbers(model.parameters().len());
    for (parameter, by) in model.parameters_mut().iter_mut().zip(moved) {
        if *parameter == 0.0 {
            *parameter = 0.1 * by;
        }
    }
    let (width, out) = (model.input_shape().elements(), model.output_shape().elements());
    let alone: Vec<Vec<f32>> = rows
        .chunks_exact(width)
        .map(|row| model.predict(row))
        .collect::<Result<_>>()?;
    for count in COUNTS.into_iter().filter(|&count| count <= alone.len()) {
        let found = model.predict(&rows[..count * width])?;
        for (i, (found, wanted)) in found.chunks_exact(out).zip(&alone).enumerate() {
            let same = found.iter().zip(wanted).all(|(x, y)| x.to_bits() == y.to_bits());
            assert!(same, "row {i} of {count}");
        }
    }
    Ok(())
}

/// The same for so many rows of noise.
#[track_caller]
fn same_for(model: &Model, rows: usize) -> Result<()> {
    same_alone_and_among_others(model, &numbers(rows * model.input_shape().elements()))
}

#[test]
fn dense_networks() -> Result<()> {
    same_for(&zoo::autoencoder(&zoo::PAPER, 1)?, 100)?;
    same_for(&zoo::autoencoder(&[460, 320, 1000, 320, 460], 1)?, 100)?;
    same_for(&zoo::mlp_2nn(1)?, 100)?;
    same_for(&zoo::vae(&[784, 400, 20], 1.0, 1)?, 49)
}

#[test]
fn networks_of_images() -> Result<()> {
    same_for(&zoo::cnn_mnist(1)?, 49)?;
    for (version, width) in [(zoo::Version::V15, 16), (zoo::Version::V1, 64)] {
        let settings = zoo::Resnet {
            version,
            blocks: vec![1, 1],
            width,
            image: [20, 28],
            classes: 1000,
        };
        same_for(&zoo::resnet(&settings, 1)?, 25)?;
    }
    Ok(())
}

#[test]
fn networks_of_sequences() -> Result<()> {
    same_for(&zoo::lstm_autoencoder(30, 16, 64, 1)?, 49)?;
    let gru = |features| {
        Model::build([20, features], 1, |setup| {
            let gru = Gru::new(setup, features, 256);
            Sequential(vec![Box::new(gru), Box::new(LastStep)])
        })
    };
    same_for(&gru(600)?, 49)?;
    let characters: Vec<f32> = (0..12 * 25).map(|i| (i * 31 % 90) as f32).collect();
    same_alone_and_among_others(&zoo::char_lstm(90, 12, 1)?, &characters)
}
