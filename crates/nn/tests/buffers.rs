//! State that is not trained: the step itself moves it, the optimiser does not, and it goes where the model goes.

use synod_engine::{ModelFile, Tensor};
use synod_nn::layers::{Activation, BatchNorm, Dense, Layer, Sequential};
use synod_nn::{Data, Fit, Loss, Model, Optimizer, Result, Scope, Setup, Trainer};

type Test = std::result::Result<(), Box<dyn std::error::Error>>;

fn normalised(seed: u64) -> Result<Model> {
    Model::build([4], seed, |setup| {
        let first = setup.within("first", |s| Dense::new(s, 4, 3, Activation::Tanh));
        let norm = setup.within("norm", |s| BatchNorm::new(s, 3));
        let last = setup.within("last", |s| Dense::new(s, 3, 4, Activation::Identity));
        let layers: Vec<Box<dyn Layer>> = vec![Box::new(first), Box::new(norm), Box::new(last)];
        Sequential(layers)
    })
}

fn rows(n: usize) -> Vec<f32> {
    (0..n * 4)
        .map(|i| ((i as u32 + 1).wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0)
        .collect()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn buffers_are_flat_with_named_views_beside_the_parameters() -> Test {
    let model = normalised(1)?;
    let names: Vec<&str> = model
        .buffer_layout()
        .entries()
        .iter()
        .map(|e| e.name.as_str())
        .collect();
    assert_eq!(names, ["norm.running_mean", "norm.running_variance"]);
    assert_eq!(model.buffers(), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    let all = model.layout().entries();
    assert!(all.iter().all(|e| !e.name.contains("running")));
    assert_eq!(model.layout().len(), 4 * 3 + 3 + 2 * 3 + 3 * 4 + 4);
    Ok(())
}

#[test]
fn no_optimiser_touches_a_buffer() -> Test {
    // A buffer that a layer reads and never sets keeps its bits, weight decay or not.
    let model = Model::build([4], 1, |setup: &mut Setup| {
        let factor = setup.buffer("factor", [4], 3.0);
        let dense = Dense::new(setup, 4, 4, Activation::Identity);
        move |scope: &Scope, x: &Tensor| dense.forward(scope, &(x * scope.buffer(factor)))
    })?;
    let x = rows(8);
    for optimizer in [Optimizer::adamw(1e-2, 0.5), Optimizer::momentum(1e-2, 0.9)] {
        let mut trainer = Trainer::new(&model, Loss::Mse, optimizer, 8, true, 0)?;
        for _ in 0..5 {
            trainer.step(&Data::itself(&x, 4), &[0, 1, 2, 3, 4, 5, 6, 7], 1e-2)?;
        }
        assert_eq!(trainer.buffers(), [3.0; 4]);
        assert_ne!(trainer.parameters(), model.parameters());
        assert_eq!(
            trainer.states().len(),
            model.layout().len() * optimizer.rule.states()
        );
    }
    Ok(())
}

#[test]
fn a_short_last_batch_moves_the_buffers_too() -> Test {
    let model = normalised(2)?;
    let x = rows(5);
    let data = Data::itself(&x, 4);
    let mut mixed = Trainer::new(&model, Loss::Mse, Optimizer::sgd(0.0), 3, true, 0)?;
    mixed.step(&data, &[0, 1, 2], 0.0)?;
    mixed.step(&data, &[3, 4], 0.0)?;
    let mut apart = Trainer::new(&model, Loss::Mse, Optimizer::sgd(0.0), 2, true, 0)?;
    let mut first = Trainer::new(&model, Loss::Mse, Optimizer::sgd(0.0), 3, true, 0)?;
    first.step(&data, &[0, 1, 2], 0.0)?;
    apart.set_buffers(first.buffers());
    apart.step(&data, &[3, 4], 0.0)?;
    assert_eq!(bits(mixed.buffers()), bits(apart.buffers()));
    assert_ne!(mixed.buffers(), first.buffers());
    Ok(())
}

#[test]
fn a_stored_model_keeps_its_buffers_and_trains_on_to_the_bit() -> Test {
    let x = rows(20);
    let data = Data::itself(&x, 4);
    let fit = |epochs: usize, resume: bool| Fit {
        epochs,
        batch: 8,
        resume,
        ..Fit::new(Loss::Mse, Optimizer::adam(1e-2))
    };
    let mut whole = normalised(3)?;
    whole.fit(&data, &fit(4, false), &mut [])?;
    let mut half = normalised(3)?;
    half.fit(&data, &fit(2, false), &mut [])?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    half.save(&path)?;
    let mut again = Model::load(&path)?;
    assert_eq!(again.buffer_layout(), half.buffer_layout());
    assert_eq!(bits(again.buffers()), bits(half.buffers()));
    assert_eq!(bits(&again.predict(&x)?), bits(&half.predict(&x)?));
    again.fit(&data, &fit(4, true), &mut [])?;
    assert_eq!(bits(again.parameters()), bits(whole.parameters()));
    assert_eq!(bits(again.buffers()), bits(whole.buffers()));
    Ok(())
}

#[test]
fn files_whose_buffers_do_not_fit_are_refused() -> Test {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    normalised(4)?.save(&path)?;
    let file = ModelFile::load(&path)?;
    let refused =
        |change: &dyn Fn(&mut ModelFile)| -> std::result::Result<String, Box<dyn std::error::Error>> {
            let mut damaged = file.clone();
            change(&mut damaged);
            damaged.save(&path)?;
            Ok(Model::load(&path).expect_err("a damaged file").to_string())
        };
    let missing = refused(&|f| drop(f.tensors.pop()))?;
    assert!(missing.contains("model.safetensors"), "{missing}");
    let last = |f: &mut ModelFile| f.tensors.len() - 1;
    let reshaped = refused(&|f| {
        let at = last(f);
        f.tensors[at].shape = [1, 3].into();
    })?;
    assert!(reshaped.contains("norm.running_variance"), "{reshaped}");
    let renamed = refused(&|f| {
        let at = last(f);
        f.tensors[at].name = "stray".into();
    })?;
    assert!(renamed.contains("`stray`"), "{renamed}");
    Ok(())
}
