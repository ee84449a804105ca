//! What bytes cost in accuracy and save in size, on MNIST.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use synod_data::readers::{Batch, Idx, ReadOptions, RowReader};
use synod_nn::quantise::{self, Quantised};
use synod_nn::{Data, Fit, Loss, Model, Optimizer, Schedule, zoo};

/// Rows whose activations are observed: of the training set, never of the test set.
const CALIBRATION: usize = 1024;

/// The folder holds MNIST's four idx files, plain or `.gz`.
#[derive(Args)]
pub(crate) struct Int8 {
    /// Where MNIST lies.
    folder: PathBuf,
    /// A model of the zoo, which is trained first, or a file, which is used as it is.
    #[arg(long, default_value = "cnn-mnist")]
    model: String,
    /// Epochs of training a model of the zoo.
    #[arg(long, default_value_t = 2)]
    epochs: usize,
    /// Training images to use.
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    limit: usize,
}

/// Images scaled to 0..1, and classes.
fn load(folder: &Path, part: &str, limit: usize) -> Result<(Vec<f32>, Vec<f32>)> {
    let file = |name: String| {
        let plain = folder.join(name);
        match plain.exists() {
            true => plain,
            false => plain.with_added_extension("gz"),
        }
    };
    let images = Idx::open(file(format!("{part}-images-idx3-ubyte")), &ReadOptions::default())?;
    let mut reader = images.with_labels(file(format!("{part}-labels-idx1-ubyte")))?;
    let (mut inputs, mut classes, mut batch) = (vec![], vec![], Batch::new());
    while classes.len() < limit && reader.read(4096.min(limit - classes.len()), &mut batch)? > 0 {
        inputs.extend(batch.values.iter().map(|x| x / 255.0));
        classes.extend_from_slice(&batch.labels);
    }
    Ok((inputs, classes))
}

impl Int8 {
    /// Prints the table, and fails if bytes cost more than they may.
    #[allow(clippy::print_stdout, reason = "a program that reports to people")]
    pub(crate) fn run(&self) -> Result<()> {
        let settings = self;
        let (inputs, classes) = load(&settings.folder, "train", settings.limit)?;
        let (test_inputs, test_classes) = load(&settings.folder, "t10k", usize::MAX)?;
        let train = Data::new(&inputs, 784, &classes, 1);
        let test = Data::new(&test_inputs, 784, &test_classes, 1);
        let fit = |epochs: usize, rate: f32| Fit {
            epochs,
            batch: 64,
            ..Fit::new(
                Loss::CrossEntropy,
                Optimizer::adam(rate).with_schedule(Schedule::Cosine { epochs, floor: 0.01 }),
            )
        };
        let timed = |what: &str, start: Instant| eprintln!("{what}: {:.1} s", start.elapsed().as_secs_f64());
        let start = Instant::now();
        let model = match Path::new(&settings.model) {
            file if file.exists() => Model::load(file)?,
            _ => {
                let mut model = zoo::by_name(&settings.model, 1)?;
                model.fit(&train, &fit(settings.epochs, 1e-3), &mut [])?;
                timed("training", start);
                model
            }
        };
        let calibration = &inputs[..784 * CALIBRATION.min(train.rows())];
        let start = Instant::now();
        let calibrated = Quantised::calibrated(&model, calibration)?;
        timed("calibration", start);
        let start = Instant::now();
        let mut aware = quantise::aware(&model, calibration)?;
        aware.fit(&train, &fit(1, 1e-4), &mut [])?;
        timed("training aware of bytes", start);
        let trained = Quantised::from_aware(&aware)?;

        let start = Instant::now();
        let exact = model.accuracy(&test, 1)?;
        timed("test in f32", start);
        let exact_bytes = 4 * (model.layout().len() + model.buffers().len());
        println!(
            "{:<28} {:>10} {:>8} {:>10} {:>6}",
            "", "accuracy %", "change", "bytes", "share"
        );
        println!(
            "{:<28} {:>10.2} {:>8} {:>10} {:>6}",
            "f32",
            100.0 * exact,
            "",
            exact_bytes,
            ""
        );
        for (name, quantised, allowed) in [
            ("int8, calibrated", calibrated, 0.3),
            ("int8, trained aware", trained, 0.1),
        ] {
            let start = Instant::now();
            let accuracy = quantised.accuracy(&test, 1)?;
            timed("test in int8", start);
            let size = quantised.to_bytes()?.len();
            println!(
                "{name:<28} {:>10.2} {:>+8.2} {size:>10} {:>6.3}",
                100.0 * accuracy,
                100.0 * (accuracy - exact),
                size as f64 / exact_bytes as f64
            );
            let lost = 100.0 * (exact - accuracy);
            ensure!(
                lost <= allowed,
                "{name} loses {lost:.2} points, more than {allowed}"
            );
            ensure!(
                size * 10 <= exact_bytes * 3,
                "{name} takes more than 0.3 of the bytes"
            );
        }
        Ok(())
    }
}
