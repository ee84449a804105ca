//! Quantised models as users meet them: small files, files that cannot be trusted, training that bears the rounding.

use proptest::prelude::*;
use synod_nn::quantise::{self, Quantised};
use synod_nn::{Data, Fit, Loss, Model, Optimizer, Result, zoo};

fn rows(count: usize, width: usize) -> Vec<f32> {
    let value = |i: usize| ((i * 7919 + i / width * 104_729) % 1009) as f32 / 1009.0;
    (0..count * width).map(value).collect()
}

#[test]
fn files_of_bytes_have_at_most_three_tenths_of_the_bytes_of_the_parameters_alone() -> Result<()> {
    let models = [
        zoo::autoencoder(&zoo::PAPER, 1)?,
        zoo::mlp_2nn(1)?,
        zoo::cnn_mnist(1)?,
    ];
    for model in models {
        let inputs = rows(4, model.input_shape().elements());
        let bytes = Quantised::calibrated(&model, &inputs)?.to_bytes()?.len();
        let share = bytes as f64 / (4 * model.layout().len()) as f64;
        assert!(
            share <= 0.3,
            "{bytes} bytes are {share} of {:?}",
            model.input_shape()
        );
    }
    Ok(())
}

#[test]
fn a_stored_model_computes_the_same_bits() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, inputs) = (folder.path().join("model.int8"), rows(40, 12));
    let bytes = Quantised::calibrated(&zoo::autoencoder(&[12, 5, 12], 1)?, &inputs)?;
    bytes.save(&path)?;
    let loaded = Quantised::load(&path)?;
    assert_eq!(loaded.predict(&inputs)?, bytes.predict(&inputs)?);
    assert_eq!(loaded.input_shape().dims(), [12]);
    assert_eq!(loaded.to_bytes()?.len(), bytes.to_bytes()?.len());
    Ok(())
}

#[test]
fn a_model_of_numbers_is_no_model_of_bytes_and_the_error_names_the_file() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model");
    zoo::mlp(&[3, 2], 1)?.save(&path)?;
    let problem = Quantised::load(&path).expect_err("a refusal").to_string();
    assert!(
        problem.contains("model") && problem.contains("not a quantised model"),
        "{problem}"
    );
    assert!(Quantised::load(&folder.path().join("absent")).is_err());
    Ok(())
}

fn stored() -> Vec<u8> {
    let model = Model::build([6, 6, 2], 1, |s| {
        use synod_engine::ops::Slide;
        use synod_nn::layers::{Activation, Conv2d, Dense, Flatten, MaxPool, Sequential};
        let conv = s.within("conv", |s| {
            Conv2d::new(s, 2, 4, [3, 3], Slide::by(1).same(), Activation::Relu)
        });
        let dense = s.within("dense", |s| Dense::new(s, 36, 3, Activation::Identity));
        Sequential(vec![
            Box::new(conv),
            Box::new(MaxPool::by(2)),
            Box::new(Flatten),
            Box::new(dense),
        ])
    });
    let model = model.expect("a model");
    let bytes = Quantised::calibrated(&model, &rows(4, 72)).expect("a model of bytes");
    bytes.to_bytes().expect("bytes")
}

/// Whatever is read must also compute.
fn read_and_use(file: &[u8]) {
    if let Ok(model) = Quantised::from_bytes(file) {
        let width = model.input_shape().elements();
        if width < 1 << 16 {
            let _ = model.predict(&vec![0.5; width]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_damaged_file_never_panics(at in 0usize..4000, to in any::<u8>(), cut in proptest::option::of(0usize..4000)) {
        thread_local!(static WHOLE: Vec<u8> = stored());
        let mut file = WHOLE.with(Clone::clone);
        let at = at % file.len();
        file[at] = to;
        if let Some(cut) = cut {
            file.truncate(cut % file.len());
        }
        read_and_use(&file);
    }

    #[test]
    fn a_file_with_other_numbers_in_its_steps_never_panics(which in 0usize..200, digit in b'0'..=b'9', wide in any::<bool>()) {
        thread_local!(static WHOLE: Vec<u8> = stored());
        let mut file = WHOLE.with(Clone::clone);
        let header = 8 + u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
        let digits: Vec<usize> = (8..header).filter(|&i| file[i].is_ascii_digit()).collect();
        let at = digits[which % digits.len()];
        file[at] = digit;
        if wide {
            // Seven digits more, and the header's length says so.
            file.splice(at..at, *b"1234567");
            let longer = (header - 8 + 7) as u64;
            file[..8].copy_from_slice(&longer.to_le_bytes());
        }
        read_and_use(&file);
    }
}

/// Three bells whose places depend on two numbers.
fn bells(count: usize) -> (Vec<f32>, Vec<f32>) {
    let points = rows(count, 2);
    let bell = |x: f32, y: f32| (-6.0 * ((x - 0.5).powi(2) + (y - 0.3).powi(2))).exp();
    let targets = points
        .chunks_exact(2)
        .flat_map(|p| [bell(p[0], p[1]), bell(p[1], p[0]), p[0] * p[1]])
        .collect();
    (points, targets)
}

#[test]
fn training_aware_of_bytes_loses_less_than_calibrating_afterwards() -> Result<()> {
    let (inputs, targets) = bells(600);
    let data = Data::new(&inputs, 2, &targets, 3);
    let fit = |epochs: usize, rate: f32| Fit {
        epochs,
        batch: 20,
        ..Fit::new(Loss::Mse, Optimizer::adam(rate))
    };
    let mut model = zoo::mlp(&[2, 24, 24, 3], 1)?;
    model.fit(&data, &fit(60, 3e-3), &mut [])?;
    let mut aware = quantise::aware(&model, &inputs)?;
    // The same further training for both, so that only the rounding makes the difference.
    model.fit(&data, &fit(20, 5e-4), &mut [])?;
    aware.fit(&data, &fit(20, 5e-4), &mut [])?;
    let exact = model.evaluate(&data, Loss::Mse)?;
    let after = Quantised::calibrated(&model, &inputs)?.evaluate(&data, Loss::Mse)?;
    let bytes = Quantised::from_aware(&aware)?;
    let during = bytes.evaluate(&data, Loss::Mse)?;
    assert!(exact < after, "rounding costs something: {exact} and {after}");
    assert!(
        during < after,
        "trained with rounding {during}, rounded after training {after}"
    );
    // What the training saw is what the bytes give.
    let seen = aware.evaluate(&data, Loss::Mse)?;
    assert!((seen - during).abs() < 0.05 * seen, "{seen} and {during}");
    Ok(())
}

#[test]
fn an_aware_model_from_a_file_turns_into_the_same_bytes() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("aware");
    let inputs = rows(30, 6);
    let aware = quantise::aware(&zoo::mlp(&[6, 9, 4], 1)?, &inputs)?;
    aware.save(&path)?;
    let (here, there) = (
        Quantised::from_aware(&aware)?,
        Quantised::from_aware(&Model::load(&path)?)?,
    );
    assert_eq!(here.predict(&inputs)?, there.predict(&inputs)?);
    Ok(())
}

#[test]
fn accuracy_counts_rows_like_the_model_does() -> Result<()> {
    let model = zoo::mlp(&[5, 16, 4], 2)?;
    let inputs = rows(64, 5);
    let classes: Vec<f32> = (0..64).map(|i| (i % 4) as f32).collect();
    let data = Data::new(&inputs, 5, &classes, 1);
    let bytes = Quantised::calibrated(&model, &inputs)?;
    for k in 1..=4 {
        let (exact, found) = (model.accuracy(&data, k)?, bytes.accuracy(&data, k)?);
        assert!((exact - found).abs() <= 4.0 / 64.0, "{exact} and {found} at {k}");
    }
    assert_eq!(bytes.accuracy(&data, 4)?, 1.0);
    Ok(())
}
