//! How parameters begin.

use crate::random::{normal, uniform};

/// A distribution of initial values; `fan_in` and `fan_out` come from the parameter's shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initializer {
    /// All equal.
    Constant(f32),
    /// Uniform in `[-bound, bound]`.
    Uniform(f32),
    /// Normal with the given deviation.
    Normal(f32),
    /// Uniform within `sqrt(6 / (fan_in + fan_out))`: for sigmoid and tanh, and Keras' default.
    GlorotUniform,
    /// Normal with deviation `sqrt(2 / fan_in)`: for ReLU.
    HeNormal,
    /// Uniform within `1 / sqrt(fan_in)`: PyTorch's default for a linear layer.
    FanInUniform,
}

impl Initializer {
    /// Values for a parameter of this shape. Two-dimensional weights are `[inputs, outputs]`; further leading axes (a
    /// kernel's window) multiply both fans.
    pub fn values(self, shape: &[usize], seed: u64, stream: u32) -> Vec<f32> {
        let n: usize = shape.iter().product();
        let (fan_in, fan_out) = match shape {
            [] => (1, 1),
            [n] => (*n, *n),
            [window @ .., inputs, outputs] => {
                let window: usize = window.iter().product();
                (window * inputs, window * outputs)
            }
        };
        let (fan_in, fan_out) = (fan_in.max(1) as f32, fan_out.max(1) as f32);
        let within = |bound: f32| {
            (0..n)
                .map(|i| (2.0 * uniform(seed, stream, i) - 1.0) * bound)
                .collect()
        };
        let around = |deviation: f32| (0..n).map(|i| normal(seed, stream, i) * deviation).collect();
        match self {
            Initializer::Constant(value) => vec![value; n],
            Initializer::Uniform(bound) => within(bound),
            Initializer::Normal(deviation) => around(deviation),
            Initializer::GlorotUniform => within((6.0 / (fan_in + fan_out)).sqrt()),
            Initializer::HeNormal => around((2.0 / fan_in).sqrt()),
            Initializer::FanInUniform => within(1.0 / fan_in.sqrt()),
        }
    }
}
