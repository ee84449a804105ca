//! Fitting: it follows the oracle, repeats to the bit, goes on where it stopped, and stops when numbers run away.

use std::path::Path;

use synod_engine::{ModelFile, interpret};
use synod_nn::layers::{Activation, Dense, Dropout, Layer, LayerNorm, Sequential};
use synod_nn::{
    Callback, Checkpoint, Data, EarlyStopping, EpochReport, Error, EventLog, Fit, Flow, Loss, Model,
    Optimizer, Schedule, Trainer, zoo,
};

type Test = Result<(), Box<dyn std::error::Error>>;

fn rows(n: usize, width: usize, seed: u32) -> Vec<f32> {
    let value = |i: usize| {
        ((i as u32).wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 8) as f32 / 16_777_216.0
    };
    (0..n * width).map(value).collect()
}

fn small(seed: u64) -> synod_nn::Result<Model> {
    zoo::autoencoder(&[12, 7, 3, 7, 12], seed)
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn compiled_training_follows_the_f64_interpreter_for_100_steps() -> Test {
    let all = [
        Optimizer::sgd(0.05),
        Optimizer::momentum(0.02, 0.9),
        Optimizer::rmsprop(1e-3),
        Optimizer::adam(1e-3),
        Optimizer::adamw(1e-3, 0.01),
        Optimizer::adagrad(1e-2),
    ];
    let x = rows(50, 12, 1);
    let data = Data::itself(&x, 12);
    for optimizer in all {
        let model = small(3)?;
        let mut trainer = Trainer::new(&model, Loss::Rmse, optimizer, 10, true, 0)?;
        let graph = model.step_graph(Loss::Rmse, optimizer, 10, true)?;
        let count = model.layout().entries().len();
        let mut args: Vec<Vec<f64>> = graph
            .params()
            .iter()
            .map(|&p| vec![0.0; graph.shape(p).elements()])
            .collect();
        for (arg, entry) in args.iter_mut().zip(model.layout().entries()) {
            *arg = model.parameters()[entry.range.clone()]
                .iter()
                .map(|&v| f64::from(v))
                .collect();
        }
        let last = args.len() - 1;
        for step in 0..100u64 {
            let batch: Vec<u32> = (0..10).map(|i| ((step * 10 + i) % 50) as u32).collect();
            trainer.step(&data, &batch, optimizer.rate)?;
            args[last - 2] = optimizer
                .rule
                .hyper(optimizer.rate, step + 1)
                .map(f64::from)
                .to_vec();
            args[last] = batch
                .iter()
                .flat_map(|&r| &x[r as usize * 12..][..12])
                .map(|&v| f64::from(v))
                .collect();
            let outs = interpret(&graph, &args)?;
            for (i, out) in outs.into_iter().skip(1).enumerate() {
                args[i] = out;
            }
        }
        for (entry, wanted) in model.layout().entries().iter().zip(&args[..count]) {
            let got = &trainer.parameters()[entry.range.clone()];
            let difference: f64 = got
                .iter()
                .zip(wanted)
                .map(|(&g, w)| (f64::from(g) - w).powi(2))
                .sum();
            let norm: f64 = wanted.iter().map(|w| w * w).sum();
            let relative = (difference / norm.max(1e-12)).sqrt();
            assert!(relative < 1e-4, "{optimizer:?} {}: {relative:e}", entry.name);
        }
    }
    Ok(())
}

#[test]
fn two_runs_and_two_threads_give_the_same_bits() -> Test {
    let x = rows(57, 12, 2);
    let run = || -> synod_nn::Result<Vec<u32>> {
        let mut model = small(5)?;
        let fit = Fit {
            epochs: 3,
            batch: 10,
            seed: 9,
            ..Fit::new(Loss::Rmse, Optimizer::adam(1e-3))
        };
        model.fit(&Data::itself(&x, 12), &fit, &mut [])?;
        Ok(bits(model.parameters()))
    };
    let alone = run()?;
    let together = std::thread::scope(|scope| {
        let handles = [scope.spawn(run), scope.spawn(run)];
        handles.map(|h| h.join().expect("a training thread panicked"))
    });
    for other in together {
        assert_eq!(alone, other?);
    }
    Ok(())
}

fn dropout_model() -> synod_nn::Result<Model> {
    Model::build([12], 4, |setup| {
        let first = setup.within("first", |s| Dense::new(s, 12, 16, Activation::Gelu));
        let norm = setup.within("norm", |s| LayerNorm::new(s, 16));
        let last = setup.within("last", |s| Dense::new(s, 16, 12, Activation::Identity));
        let layers: Vec<Box<dyn Layer>> = vec![
            Box::new(first),
            Box::new(norm),
            Box::new(Dropout(0.3)),
            Box::new(last),
        ];
        Sequential(layers)
    })
}

#[test]
fn training_that_was_stored_and_resumed_gives_the_same_bits() -> Test {
    for optimizer in [Optimizer::adam(2e-3), Optimizer::rmsprop(2e-3)] {
        resumed_gives_the_same_bits(optimizer)?;
    }
    Ok(())
}

fn resumed_gives_the_same_bits(optimizer: Optimizer) -> Test {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    let x = rows(43, 12, 3);
    let data = Data::itself(&x, 12);
    let fit = Fit {
        epochs: 6,
        batch: 8,
        seed: 11,
        ..Fit::new(Loss::Mse, optimizer)
    };
    let mut whole = dropout_model()?;
    whole.fit(&data, &fit, &mut [])?;

    let mut first = dropout_model()?;
    first.fit(
        &data,
        &Fit { epochs: 2, ..fit },
        &mut [&mut Checkpoint::new(&path)],
    )?;
    // Nothing but the file is left of the first half.
    drop(first);
    let mut second = Model::load(&path)?;
    let history = second.fit(&data, &Fit { resume: true, ..fit }, &mut [])?;
    assert_eq!(history.epochs.len(), 4);
    assert_eq!(bits(whole.parameters()), bits(second.parameters()));

    let other = Fit {
        resume: true,
        seed: 12,
        ..fit
    };
    let error = Model::load(&path)?.fit(&data, &other, &mut []).unwrap_err();
    assert!(error.to_string().contains("seed 11"), "{error}");
    Ok(())
}

#[test]
fn states_that_were_stored_in_ones_are_read_as_such() -> Test {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    let x = rows(43, 12, 3);
    let data = Data::itself(&x, 12);
    let fit = Fit {
        epochs: 2,
        batch: 8,
        ..Fit::new(Loss::Mse, Optimizer::rmsprop(2e-3))
    };
    let mut model = small(4)?;
    model.fit(&data, &fit, &mut [&mut Checkpoint::new(&path)])?;
    let mut file = ModelFile::load(&path)?;
    let unit = fit.optimizer.rule.unit(12);
    assert!(unit < 0.9, "{unit}");
    for tensor in file
        .tensors
        .iter_mut()
        .filter(|t| t.name.starts_with("optimizer."))
    {
        tensor.data.iter_mut().for_each(|x| *x *= unit);
    }
    let note = file.notes["training"].clone();
    let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&note)?;
    for damaged in [0.0, -0.5, 1e30] {
        fields.insert("unit".into(), damaged.into());
        file.notes
            .insert("training".into(), serde_json::to_string(&fields)?);
        file.save(&path)?;
        let error = Model::load(&path).unwrap_err().to_string();
        assert!(error.contains("states cannot count in"), "{error}");
    }
    fields.remove("unit");
    file.notes
        .insert("training".into(), serde_json::to_string(&fields)?);
    file.save(&path)?;

    let on = Fit {
        epochs: 4,
        resume: true,
        ..fit
    };
    let mut old = Model::load(&path)?;
    old.fit(&data, &on, &mut [])?;
    model.fit(&data, &on, &mut [])?;
    for (a, b) in old.parameters().iter().zip(model.parameters()) {
        assert!((a - b).abs() <= 1e-5 * b.abs().max(0.1), "{a} is not {b}");
    }
    Ok(())
}

#[test]
fn a_learning_rate_that_explodes_names_step_and_parameter_and_keeps_the_last_good_model() -> Test {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    let x = rows(40, 12, 4);
    let data = Data::itself(&x, 12);
    let mut model = small(6)?;
    let good = Fit {
        epochs: 1,
        batch: 10,
        ..Fit::new(Loss::Mse, Optimizer::sgd(0.01))
    };
    model.fit(&data, &good, &mut [&mut Checkpoint::new(&path)])?;
    let kept = bits(model.parameters());

    let bad = Fit {
        epochs: 50,
        ..Fit {
            optimizer: Optimizer::sgd(1e12),
            ..good
        }
    };
    let error = model
        .fit(&data, &bad, &mut [&mut Checkpoint::new(&path)])
        .unwrap_err();
    let Error::NotFinite {
        step, epoch, what, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert!(*step >= 1 && *epoch == 1, "{error}");
    assert!(what.contains("layer"), "{error}");
    assert_eq!(bits(model.parameters()), kept);
    assert_eq!(bits(Model::load(&path)?.parameters()), kept);
    Ok(())
}

#[test]
fn a_nan_in_the_data_is_named_by_row_and_column() -> Test {
    let mut x = rows(40, 12, 4);
    x[17 * 12 + 5] = f32::NAN;
    let fit = Fit {
        epochs: 1,
        batch: 10,
        ..Fit::new(Loss::Mse, Optimizer::sgd(0.01))
    };
    let error = small(6)?.fit(&Data::itself(&x, 12), &fit, &mut []).unwrap_err();
    assert!(error.to_string().contains("input row 17, column 5"), "{error}");
    Ok(())
}

#[test]
fn data_that_do_not_fit_are_refused_with_both_sizes() -> Test {
    let mut model = small(1)?;
    let fit = Fit::new(Loss::Mse, Optimizer::sgd(0.01));
    let cases: [(Data<'_>, &str); 4] = [
        (
            Data::itself(&[0.0; 33], 11),
            "rows have 11 numbers, the model takes 12",
        ),
        (
            Data::itself(&[0.0; 13], 12),
            "13 numbers are not whole rows of 12",
        ),
        (Data::itself(&[], 12), "no rows"),
        (
            Data::new(&[0.0; 24], 12, &[0.0; 5], 12),
            "2 rows of inputs, but 5 numbers of targets",
        ),
    ];
    for (data, wanted) in cases {
        let error = model.fit(&data, &fit, &mut []).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    assert!(model.predict(&[0.0; 13]).is_err());
    Ok(())
}

#[test]
fn evaluation_and_prediction_agree_and_ignore_how_rows_are_chunked() -> Test {
    let model = small(8)?;
    let x = rows(2500, 12, 5);
    let y = model.predict(&x)?;
    let squares: f64 = x.iter().zip(&y).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    let rmse = (squares / x.len() as f64).sqrt();
    let evaluated = f64::from(model.evaluate(&Data::itself(&x, 12), Loss::Rmse)?);
    assert!((evaluated - rmse).abs() < 1e-5 * rmse, "{evaluated} {rmse}");
    for i in [0, 1023, 1024, 2499] {
        let single = model.predict(&x[i * 12..(i + 1) * 12])?;
        for (a, b) in single.iter().zip(&y[i * 12..]) {
            assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "row {i}: {a} {b}");
        }
    }
    Ok(())
}

#[test]
fn dropout_drops_only_while_training() -> Test {
    let model = dropout_model()?;
    let x = rows(4, 12, 6);
    assert_eq!(bits(&model.predict(&x)?), bits(&model.predict(&x)?));
    let loss = |seed: u64| -> synod_nn::Result<f32> {
        let mut trainer = Trainer::new(&model, Loss::Mse, Optimizer::sgd(0.0), 4, true, seed)?;
        trainer.step(&Data::itself(&x, 12), &[0, 1, 2, 3], 0.0)
    };
    assert_ne!(loss(1)?, loss(2)?);
    assert_eq!(loss(1)?, loss(1)?);
    Ok(())
}

#[test]
fn early_stopping_waits_and_the_log_has_a_line_per_epoch() -> Test {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("events.jsonl");
    let x = rows(20, 12, 7);
    // A rate of zero never improves: the first epoch is the best, then patience runs out.
    let fit = Fit {
        epochs: 30,
        batch: 10,
        ..Fit::new(Loss::Mse, Optimizer::sgd(0.0))
    };
    let mut log = EventLog::append(&path)?;
    let history = small(1)?.fit(
        &Data::itself(&x, 12),
        &fit,
        &mut [&mut EarlyStopping::new(3), &mut log],
    )?;
    assert!(history.stopped_early);
    // The order of rows may change the last bits of the mean loss, so it may take a little longer than 4.
    assert!(
        (4..30).contains(&history.epochs.len()),
        "{}",
        history.epochs.len()
    );
    let text = std::fs::read_to_string(&path)?;
    assert_eq!(text.lines().count(), history.epochs.len());
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap_or(""))?;
    assert_eq!(first["epoch"], 1);
    assert!(EventLog::append(Path::new("/no/such/folder/log")).is_err());
    Ok(())
}

struct Rates(Vec<f32>);

impl Callback for Rates {
    fn on_epoch(&mut self, report: &EpochReport, _: &Model) -> synod_nn::Result<Flow> {
        self.0.push(report.rate);
        Ok(Flow::Continue)
    }
}

#[test]
fn schedules_shape_the_learning_rate() -> Test {
    let x = rows(10, 12, 8);
    let schedule = Schedule::Step {
        every: 2,
        factor: 0.1,
    };
    let fit = Fit {
        epochs: 5,
        batch: 10,
        ..Fit::new(Loss::Mse, Optimizer::sgd(0.5).with_schedule(schedule))
    };
    let mut rates = Rates(vec![]);
    small(1)?.fit(&Data::itself(&x, 12), &fit, &mut [&mut rates])?;
    let wanted = [0.5, 0.5, 0.05, 0.05, 0.005];
    assert!(
        rates.0.iter().zip(wanted).all(|(r, w)| (r - w).abs() < 1e-6),
        "{:?}",
        rates.0
    );
    let cosine = Schedule::Cosine {
        epochs: 10,
        floor: 0.1,
    };
    assert!((cosine.factor(0.0) - 1.0).abs() < 1e-6 && (cosine.factor(5.0) - 0.55).abs() < 1e-6);
    assert!((cosine.factor(10.0) - 0.1).abs() < 1e-6 && (cosine.factor(99.0) - 0.1).abs() < 1e-6);
    assert!((Schedule::Warmup { epochs: 4 }.factor(1.0) - 0.25).abs() < 1e-6);
    assert!((Schedule::Exponential { factor: 0.5 }.factor(3.0) - 0.125).abs() < 1e-6);
    Ok(())
}

#[test]
fn a_classifier_learns_to_tell_two_clouds_apart() -> Test {
    let x: Vec<f32> = rows(200, 2, 9)
        .chunks(2)
        .enumerate()
        .flat_map(|(i, p)| {
            let shift = if i % 2 == 0 { 0.0 } else { 0.8 };
            [p[0] * 0.7 + shift, p[1]]
        })
        .collect();
    let labels: Vec<f32> = (0..200).map(|i| (i % 2) as f32).collect();
    let mut model = Model::build([2], 2, |setup| {
        let hidden = setup.within("hidden", |s| Dense::new(s, 2, 16, Activation::Tanh));
        let out = setup.within("out", |s| Dense::new(s, 16, 2, Activation::Identity));
        Sequential(vec![Box::new(hidden) as Box<dyn Layer>, Box::new(out)])
    })?;
    let fit = Fit {
        epochs: 40,
        batch: 20,
        ..Fit::new(Loss::CrossEntropy, Optimizer::adam(0.02))
    };
    model.fit(&Data::new(&x, 2, &labels, 1), &fit, &mut [])?;
    let right = model
        .predict(&x)?
        .chunks(2)
        .zip(&labels)
        .filter(|(y, l)| (y[1] > y[0]) == (**l == 1.0))
        .count();
    assert!(right >= 195, "{right} of 200");
    Ok(())
}
