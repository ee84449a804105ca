//! Layers compute what their definitions say, their gradients are those of central differences, and a compiled training
//! step is the interpreted one.

use synod_engine::interpret;
use synod_engine::ops::Slide;
use synod_nn::layers::{
    Activation, AveragePool, BatchNorm, Conv2d, ConvSettings, Dense, Embedding, Flatten, GlobalAveragePool,
    Gru, LastStep, Layer, Lstm, MaxPool, Residual, Sequential,
};
use synod_nn::{Data, Initializer, Loss, Model, Optimizer, Result, Setup, Trainer, zoo};

type Test = std::result::Result<(), Box<dyn std::error::Error>>;

/// Reproducible numbers in -1..1.
fn numbers(n: usize, seed: u32) -> Vec<f32> {
    let value = |i: usize| {
        let bits = (i as u32 + 1)
            .wrapping_mul(2_654_435_761)
            .wrapping_add(seed.wrapping_mul(40_503))
            >> 8;
        2.0 * bits as f32 / 16_777_216.0 - 1.0
    };
    (0..n).map(value).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&v| f64::from(v)).collect()
}

/// A step of plain gradient descent on a model, as the oracle sees it.
struct Step {
    graph: synod_engine::Graph,
    args: Vec<Vec<f64>>,
    parameters: usize,
}

impl Step {
    /// With rate 1, so that a parameter moves by its gradient.
    fn new(model: &Model, loss: Loss, batch: usize, x: &[f32], y: &[f32]) -> Result<Step> {
        let optimizer = Optimizer::sgd(1.0);
        let graph = model.step_graph(loss, optimizer, batch, false)?;
        let mut args: Vec<Vec<f64>> = model
            .layout()
            .entries()
            .iter()
            .map(|e| wide(&model.parameters()[e.range.clone()]))
            .collect();
        let parameters = args.len();
        args.extend(
            model
                .buffer_layout()
                .entries()
                .iter()
                .map(|e| wide(&model.buffers()[e.range.clone()])),
        );
        args.push(wide(&optimizer.rule.hyper(1.0, 1)));
        args.push(wide(&synod_engine::ops::key(0, 1)));
        args.push(wide(x));
        args.push(wide(y));
        Ok(Step {
            graph,
            args,
            parameters,
        })
    }

    fn loss_at(&self, shift: &[Vec<f64>], by: f64) -> Result<f64> {
        let mut args = self.args.clone();
        for (arg, d) in args.iter_mut().zip(shift) {
            arg.iter_mut().zip(d).for_each(|(a, d)| *a += by * d);
        }
        Ok(interpret(&self.graph, &args)?[0][0])
    }

    /// The slope along random directions, one parameter at a time, against central differences.
    fn check_gradient(&self, what: &str) -> Test {
        let outs = interpret(&self.graph, &self.args)?;
        for p in 0..self.parameters {
            let mut shift: Vec<Vec<f64>> = self.args.iter().map(|a| vec![0.0; a.len()]).collect();
            shift[p] = wide(&numbers(self.args[p].len(), 77 + p as u32));
            let found: f64 = (0..shift[p].len())
                .map(|i| (self.args[p][i] - outs[1 + p][i]) * shift[p][i])
                .sum();
            let slope = |h: f64| -> Result<f64> {
                Ok((self.loss_at(&shift, h)? - self.loss_at(&shift, -h)?) / (2.0 * h))
            };
            let wanted = (4.0 * slope(5e-5)? - slope(1e-4)?) / 3.0;
            let error = (found - wanted).abs();
            assert!(
                error <= 1e-6 * wanted.abs().max(0.1),
                "{what}, `{}`: {found:e} instead of {wanted:e}",
                self.graph.param_name(p)
            );
        }
        Ok(())
    }
}

/// The gradient is right, and three compiled steps are three interpreted ones, buffers included.
fn check(what: &str, model: &Model, loss: Loss, x: &[f32], y: &[f32]) -> Test {
    let rows = x.len() / model.input_shape().elements();
    Step::new(model, loss, rows, x, y)?.check_gradient(what)?;
    check_compiled(what, model, loss, x, y)
}

fn check_compiled(what: &str, model: &Model, loss: Loss, x: &[f32], y: &[f32]) -> Test {
    let width = model.input_shape().elements();
    let rows = x.len() / width;
    let optimizer = Optimizer::sgd(0.1);
    let mut step = Step::new(model, loss, rows, x, y)?;
    let mut trainer = Trainer::new(model, loss, optimizer, rows, false, 0)?;
    let data = Data::new(x, width, y, y.len() / rows);
    let all: Vec<u32> = (0..rows as u32).collect();
    for i in 1..=3u32 {
        trainer.step(&data, &all, 0.1)?;
        let last = step.args.len() - 1;
        step.args[last - 3] = wide(&optimizer.rule.hyper(0.1, u64::from(i)));
        step.args[last - 2] = wide(&synod_engine::ops::key(0, i));
        let outs = interpret(&step.graph, &step.args)?;
        step.args
            .iter_mut()
            .zip(outs.into_iter().skip(1))
            .for_each(|(a, o)| *a = o);
    }
    let state = step.args[..last_state(model)].concat();
    let got = [trainer.parameters(), trainer.buffers()].concat();
    assert_eq!(got.len(), state.len());
    let scale = state.iter().fold(1.0f64, |m, x| m.max(x.abs()));
    for (i, (g, w)) in wide(&got).iter().zip(&state).enumerate() {
        assert!(
            (g - w).abs() < 1e-4 * scale,
            "{what}: number {i} is {g} instead of {w}"
        );
    }
    Ok(())
}

fn last_state(model: &Model) -> usize {
    model.layout().entries().len() + model.buffer_layout().entries().len()
}

fn boxed(layer: impl Layer + 'static) -> Box<dyn Layer> {
    Box::new(layer)
}

#[test]
fn convolution_pooling_and_dense_layers_train() -> Test {
    let model = Model::build([6, 6, 2], 1, |setup| {
        let grouped = ConvSettings {
            channels: 4,
            outputs: 4,
            kernel: [3, 3],
            slide: Slide::by(1).padded(1),
            groups: 2,
            bias: false,
            init: Initializer::HeNormal,
            activation: Activation::Tanh,
        };
        Sequential(vec![
            boxed(setup.within("a", |s| {
                Conv2d::new(s, 2, 4, [3, 3], Slide::by(1).same(), Activation::Tanh)
            })),
            boxed(MaxPool::by(2)),
            boxed(setup.within("b", |s| Conv2d::with(s, &grouped))),
            boxed(AveragePool {
                kernel: [2, 2],
                slide: Slide::by(1).padded(1),
                count_padding: false,
            }),
            boxed(Flatten),
            boxed(setup.within("c", |s| Dense::new(s, 4 * 4 * 4, 3, Activation::Identity))),
        ])
    })?;
    let x = numbers(4 * 72, 1);
    check(
        "convolutions",
        &model,
        Loss::CrossEntropy,
        &x,
        &[0.0, 1.0, 2.0, 1.0],
    )
}

#[test]
fn normalised_residual_networks_train() -> Test {
    let settings = zoo::Resnet {
        version: zoo::Version::V15,
        blocks: vec![1, 1],
        width: 2,
        image: [12, 12],
        classes: 3,
    };
    // ReLU has kinks that central differences trip over, so the gradient is checked on a smooth relative.
    let smooth = Model::build([4, 4, 2], 3, |setup| {
        let body = setup.within("body", |s| {
            let conv = Conv2d::new(s, 2, 2, [3, 3], Slide::by(1).same(), Activation::Identity);
            let norm = BatchNorm::new(s, 2).then(Activation::Tanh);
            Sequential(vec![boxed(conv), boxed(norm)])
        });
        let block = Residual {
            body: Box::new(body),
            shortcut: None,
            activation: Activation::Sigmoid,
        };
        Sequential(vec![boxed(block), boxed(GlobalAveragePool)])
    })?;
    let x = numbers(5 * 32, 2);
    check(
        "residual block",
        &smooth,
        Loss::CrossEntropy,
        &x,
        &[0.0, 1.0, 1.0, 0.0, 1.0],
    )?;
    for version in [zoo::Version::V1, zoo::Version::V15] {
        let settings = zoo::Resnet {
            version,
            ..settings.clone()
        };
        let x = numbers(4 * 12 * 12 * 3, 3);
        check_compiled(
            &format!("{version:?}"),
            &zoo::resnet(&settings, 2)?,
            Loss::CrossEntropy,
            &x,
            &[0.0, 1.0, 2.0, 0.0],
        )?;
    }
    Ok(())
}

#[test]
fn batch_normalisation_follows_pytorchs_definition() -> Test {
    let model = Model::build([3], 1, |setup| BatchNorm::new(setup, 3))?;
    let x: Vec<f32> = vec![1.0, 0.0, -2.0, 3.0, 0.5, 2.0, 5.0, -1.0, 0.0, 7.0, 2.5, 4.0];
    let data = Data::itself(&x, 3);
    let mut trainer = Trainer::new(&model, Loss::Mse, Optimizer::sgd(0.0), 4, true, 0)?;
    let loss = trainer.step(&data, &[0, 1, 2, 3], 0.0)?;
    let column = |c: usize| -> Vec<f64> { x.iter().skip(c).step_by(3).map(|&v| f64::from(v)).collect() };
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let squares = |v: &[f64]| v.iter().map(|x| (x - mean(v)).powi(2)).sum::<f64>();
    let (mut wanted, mut error) = (vec![], 0.0);
    for c in 0..3 {
        let v = column(c);
        let deviation = (squares(&v) / 4.0 + 1e-5).sqrt();
        error += v
            .iter()
            .map(|x| ((x - mean(&v)) / deviation - x).powi(2))
            .sum::<f64>();
        wanted.push(0.1 * mean(&v));
    }
    wanted.extend((0..3).map(|c| 0.9 + 0.1 * squares(&column(c)) / 3.0));
    for (found, wanted) in wide(trainer.buffers()).iter().zip(&wanted) {
        assert!((found - wanted).abs() < 1e-6, "{found} instead of {wanted}");
    }
    assert!((f64::from(loss) - error / 12.0).abs() < 1e-5);
    assert_eq!(trainer.parameters(), model.parameters());

    let mut used = model.clone();
    used.buffers_mut().copy_from_slice(trainer.buffers());
    let given = used.predict(&x[..3])?;
    for c in 0..3 {
        let by_estimates = (f64::from(x[c]) - wanted[c]) / (wanted[3 + c] + 1e-5).sqrt();
        assert!((f64::from(given[c]) - by_estimates).abs() < 1e-5);
    }
    Ok(())
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `x · weight`, with weight `[x.len(), columns]`.
fn times(x: &[f64], weight: &[f64], columns: usize) -> Vec<f64> {
    let column = |j: usize| {
        x.iter()
            .enumerate()
            .map(|(i, x)| x * weight[i * columns + j])
            .sum()
    };
    (0..columns).map(column).collect()
}

fn recurrent(make: impl FnOnce(&mut Setup) -> Box<dyn Layer>, time: usize) -> Result<Model> {
    Model::build([time, 2], 5, |setup| Sequential(vec![make(setup)]))
}

#[test]
fn recurrent_layers_follow_pytorchs_equations_for_any_length() -> Test {
    const H: usize = 3;
    for time in [1, 15, 16, 17, 35, 48] {
        let x = numbers(2 * time * 2, time as u32);
        let lstm = recurrent(|s| boxed(Lstm::new(s, 2, H)), time)?;
        let gru = recurrent(|s| boxed(Gru::new(s, 2, H)), time)?;
        let of = |model: &Model, name: &str| wide(model.parameter(name).expect("a parameter"));
        let (lstm_out, gru_out) = (lstm.predict(&x)?, gru.predict(&x)?);
        for row in 0..2 {
            let (mut h, mut c, mut g) = (vec![0.0; H], vec![0.0; H], vec![0.0; H]);
            for t in 0..time {
                let input = wide(&x[(row * time + t) * 2..][..2]);
                let a = times(&input, &of(&lstm, "from_input"), 4 * H);
                let b = times(&h, &of(&lstm, "from_state"), 4 * H);
                let bias = of(&lstm, "bias");
                let gate = |k: usize, i: usize| a[k * H + i] + b[k * H + i] + bias[k * H + i];
                for i in 0..H {
                    c[i] = sigmoid(gate(1, i)) * c[i] + sigmoid(gate(0, i)) * gate(2, i).tanh();
                    h[i] = sigmoid(gate(3, i)) * c[i].tanh();
                }
                let a = times(&input, &of(&gru, "from_input"), 3 * H);
                let b = times(&g, &of(&gru, "from_state"), 3 * H);
                let (input_bias, state_bias) = (of(&gru, "input_bias"), of(&gru, "state_bias"));
                let left = |k: usize, i: usize| a[k * H + i] + input_bias[k * H + i];
                let right = |k: usize, i: usize| b[k * H + i] + state_bias[k * H + i];
                for (i, g) in g.iter_mut().enumerate() {
                    let (r, z) = (
                        sigmoid(left(0, i) + right(0, i)),
                        sigmoid(left(1, i) + right(1, i)),
                    );
                    let n = (left(2, i) + r * right(2, i)).tanh();
                    *g = (1.0 - z) * n + z * *g;
                }
                for i in 0..H {
                    let at = (row * time + t) * H + i;
                    assert!(
                        (f64::from(lstm_out[at]) - h[i]).abs() < 1e-5,
                        "lstm, {t} of {time}"
                    );
                    assert!((f64::from(gru_out[at]) - g[i]).abs() < 1e-5, "gru, {t} of {time}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn recurrent_layers_train() -> Test {
    for time in [5, 19] {
        let x = numbers(3 * time * 2, 4);
        let y = numbers(3 * 3, 5);
        let model = Model::build([time, 2], 5, |setup| {
            let lstm = setup.within("lstm", |s| Lstm::new(s, 2, 4));
            let gru = setup.within("gru", |s| Gru::new(s, 4, 3));
            Sequential(vec![boxed(lstm), boxed(gru), boxed(LastStep)])
        })?;
        check(&format!("{time} times"), &model, Loss::Mse, &x, &y)?;
    }
    Ok(())
}

#[test]
fn embeddings_train_and_sequences_of_classes_are_targets() -> Test {
    let model = Model::build([6], 2, |setup| {
        let table = setup.within("table", |s| Embedding::new(s, 5, 3));
        let lstm = setup.within("lstm", |s| Lstm::new(s, 3, 4));
        let logits = setup.within("logits", |s| Dense::new(s, 4, 5, Activation::Identity));
        Sequential(vec![boxed(table), boxed(lstm), boxed(logits)])
    })?;
    let text: Vec<f32> = (0..12).map(|i| ((i * i + 3) % 5) as f32).collect();
    let next: Vec<f32> = (0..12).map(|i| ((i * 2 + 1) % 5) as f32).collect();
    check("characters", &model, Loss::CrossEntropy, &text, &next)
}

#[test]
fn a_variational_autoencoder_trains_with_noise_and_divergence_and_is_used_without() -> Test {
    let smooth = zoo::vae(&[6, 2], 1.0, 3)?;
    let x = numbers(4 * 6, 6);
    check("variational autoencoder", &smooth, Loss::Mse, &x, &x)?;
    assert_eq!(smooth.predict(&x)?, smooth.predict(&x)?);
    // The divergence is part of the loss of a step: without it, beta would not matter.
    let loss = |beta: f32| -> Result<f32> {
        let model = zoo::vae(&[6, 4, 2], beta, 3)?;
        let mut trainer = Trainer::new(&model, Loss::Mse, Optimizer::sgd(0.1), 4, true, 1)?;
        trainer.step(&Data::itself(&x, 6), &[0, 1, 2, 3], 0.1)
    };
    assert!(loss(1.0)? > loss(0.0)?);
    Ok(())
}

#[test]
fn an_autoencoder_of_sequences_learns() -> Test {
    let model = zoo::lstm_autoencoder(18, 2, 4, 1)?;
    let x = numbers(3 * 36, 7);
    check("autoencoder of sequences", &model, Loss::Mse, &x, &x)
}

#[test]
fn the_cnn_fits_a_handful_of_images() -> Test {
    let model = zoo::cnn_mnist(4)?;
    let x = numbers(4 * 784, 8);
    let data = Data::new(&x, 784, &[3.0, 1.0, 4.0, 1.0], 1);
    let mut trainer = Trainer::new(&model, Loss::CrossEntropy, Optimizer::sgd(0.03), 4, false, 0)?;
    let losses: Vec<f32> = (0..8)
        .map(|_| trainer.step(&data, &[0, 1, 2, 3], 0.03))
        .collect::<Result<_>>()?;
    assert!(losses[7] < 0.5 * losses[0], "{losses:?}");
    let mut fitted = model.clone();
    fitted.parameters_mut().copy_from_slice(trainer.parameters());
    // What is predicted is what counts as right, and everything is among ten of ten.
    let scores = fitted.predict(&x)?;
    let best = |row: &[f32]| (0..10).max_by(|&a, &b| row[a].total_cmp(&row[b]));
    let right = (0..4).filter(|&i| best(&scores[i * 10..][..10]) == Some([3, 1, 4, 1][i]));
    assert_eq!(fitted.accuracy(&data, 1)?, right.count() as f32 / 4.0);
    assert_eq!(fitted.accuracy(&data, 10)?, 1.0);
    let wrong = fitted
        .accuracy(&Data::itself(&x, 784), 1)
        .expect_err("no classes")
        .to_string();
    assert!(wrong.contains("classes"), "{wrong}");
    Ok(())
}
