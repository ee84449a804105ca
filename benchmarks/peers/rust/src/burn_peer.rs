//! burn on its `flex` backend, the fastest of its CPU backends here (`ndarray` is deprecated and slower).

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, RmsPropConfig};
use burn::tensor::{Device, Tensor, TensorData, activation::relu};

use crate::workload::{ALPHA, Args, EPSILON, LEARNING_RATE, Rows, WIDTHS, Work};

#[derive(Module, Debug)]
struct Autoencoder {
    layers: Vec<Linear>,
}

impl Autoencoder {
    fn new(device: &Device) -> Self {
        Autoencoder {
            layers: WIDTHS
                .windows(2)
                .map(|w| LinearConfig::new(w[0], w[1]).init(device))
                .collect(),
        }
    }

    fn forward(&self, mut x: Tensor<2>) -> Tensor<2> {
        let (last, hidden) = self.layers.split_last().expect("there are nine layers");
        for layer in hidden {
            x = relu(layer.forward(x));
        }
        last.forward(x)
    }
}

fn tensor(rows: Vec<f32>, device: &Device) -> Tensor<2> {
    let count = rows.len() / WIDTHS[0];
    Tensor::from_data(TensorData::new(rows, [count, WIDTHS[0]]), device)
}

pub fn train(args: &Args) -> Work {
    let device = Device::flex().autodiff();
    let batch = args.batch;
    let mut rows = Rows::new();
    let mut model = Some(Autoencoder::new(&device));
    let mut optimizer = RmsPropConfig::new()
        .with_alpha(ALPHA as f32)
        .with_epsilon(EPSILON as f32)
        .with_momentum(0.0)
        .init();
    Work::Epoch(Box::new(move || {
        rows.shuffle();
        let mut last = 0.0;
        for data in rows.batches(batch) {
            let current = model.take().expect("the model is put back after every step");
            let x = tensor(data, &device);
            let loss = (current.forward(x.clone()) - x).square().mean().sqrt();
            let gradients = GradientsParams::from_grads(loss.backward(), &current);
            model = Some(optimizer.step(LEARNING_RATE, current, gradients));
            last = loss.into_scalar::<f32>();
        }
        last
    }))
}

pub fn infer(args: &Args) -> Work {
    let device = Device::flex();
    let model = Autoencoder::new(&device);
    let x = tensor(Rows::new().first(args.batch), &device);
    let call = Box::new(move || {
        std::hint::black_box(model.forward(x.clone()).into_data());
    });
    Work::Call {
        call,
        samples: Some(args.batch as f64),
        flops: None,
    }
}
