use candle_core::{Device::Cpu, Result, Tensor, Var};

use crate::workload::{ALPHA, Args, EPSILON, LEARNING_RATE, Random, Rows, WIDTHS, Work};

fn parameters() -> Result<Vec<(Var, Var)>> {
    let mut random = Random::new(2);
    WIDTHS
        .windows(2)
        .map(|w| {
            let weight = Tensor::from_vec(random.weights(w[0], w[1]), (w[0], w[1]), &Cpu)?;
            let bias = Tensor::zeros(w[1], candle_core::DType::F32, &Cpu)?;
            Ok((Var::from_tensor(&weight)?, Var::from_tensor(&bias)?))
        })
        .collect()
}

fn forward<T: std::ops::Deref<Target = Tensor>>(layers: &[(T, T)], x: &Tensor) -> Result<Tensor> {
    let mut x = x.clone();
    for (i, (weight, bias)) in layers.iter().enumerate() {
        x = x.matmul(&**weight)?.broadcast_add(&**bias)?;
        if i + 1 < layers.len() {
            x = x.relu()?;
        }
    }
    Ok(x)
}

/// candle has no RMSprop of its own: this is its AdamW reduced to the second moment.
fn rmsprop(variable: &Var, average: &mut Tensor, gradient: &Tensor) -> Result<()> {
    *average = ((&*average * ALPHA)? + (gradient.sqr()? * (1.0 - ALPHA))?)?;
    let step = (gradient / (average.sqrt()? + EPSILON)?)?;
    variable.set(&(variable.as_tensor() - (step * LEARNING_RATE)?)?)
}

fn step(layers: &[(Var, Var)], averages: &mut [Tensor], x: &Tensor) -> Result<f32> {
    let loss = (forward(layers, x)? - x)?.sqr()?.mean_all()?.sqrt()?;
    let gradients = loss.backward()?;
    let variables = layers.iter().flat_map(|(weight, bias)| [weight, bias]);
    for (variable, average) in variables.zip(averages) {
        let gradient = gradients
            .get(variable)
            .expect("every parameter takes part in the loss");
        rmsprop(variable, average, &gradient.detach())?;
    }
    loss.to_scalar()
}

pub fn train(args: &Args) -> Work {
    let batch = args.batch;
    let mut rows = Rows::new();
    let layers = parameters().expect("fresh tensors have the right shapes");
    let mut averages: Vec<Tensor> = layers
        .iter()
        .flat_map(|(weight, bias)| [weight, bias])
        .map(|variable| variable.zeros_like().expect("the CPU has memory"))
        .collect();
    Work::Epoch(Box::new(move || {
        rows.shuffle();
        let mut last = 0.0;
        for data in rows.batches(batch) {
            let x = Tensor::from_vec(data, (batch, WIDTHS[0]), &Cpu).expect("a batch has this shape");
            last = step(&layers, &mut averages, &x).expect("the shapes agree");
        }
        last
    }))
}

pub fn infer(args: &Args) -> Work {
    // Detached, so that no graph is recorded for a backward pass that never comes.
    let layers: Vec<(Box<Tensor>, Box<Tensor>)> = parameters()
        .expect("fresh tensors have the right shapes")
        .iter()
        .map(|(weight, bias)| {
            (
                weight.as_detached_tensor().into(),
                bias.as_detached_tensor().into(),
            )
        })
        .collect();
    let x = Tensor::from_vec(Rows::new().first(args.batch), (args.batch, WIDTHS[0]), &Cpu)
        .expect("a batch has this shape");
    let call = Box::new(move || {
        std::hint::black_box(forward(&layers, &x).expect("the shapes agree"));
    });
    Work::Call {
        call,
        samples: Some(args.batch as f64),
        flops: None,
    }
}
