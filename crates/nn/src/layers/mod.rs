//! Layers are plain structs; anything that maps a tensor to a tensor is one, closures included.

mod batch_norm;
mod conv;
mod dense;
mod dropout;
mod embedding;
mod norm;
mod pool;
mod recurrent;
mod residual;

use synod_engine::Tensor;

use crate::parameters::Scope;

pub use batch_norm::BatchNorm;
pub use conv::{Conv2d, ConvSettings};
pub use dense::Dense;
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use norm::LayerNorm;
pub use pool::{AveragePool, Flatten, GlobalAveragePool, MaxPool};
pub use recurrent::{Gru, LastStep, Lstm, gru, lstm};
pub use residual::Residual;

/// A function of a batch of examples with parameters from a [`Scope`].
pub trait Layer {
    /// Applies the layer.
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor;
}

impl<F: Fn(&Scope, &Tensor) -> Tensor> Layer for F {
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor {
        self(scope, x)
    }
}

/// Layers one after the other.
pub struct Sequential(pub Vec<Box<dyn Layer>>);

impl Layer for Sequential {
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor {
        self.0.iter().fold(x.clone(), |x, layer| layer.forward(scope, &x))
    }
}

/// A function applied to every element, or to every row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x`
    Identity,
    /// `max(x, 0)`
    Relu,
    /// `x`, or `slope · x` below zero
    LeakyRelu(f32),
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `x · Φ(x)`, exactly.
    Gelu,
    /// `e^x` over its sum along the last axis.
    Softmax,
}

impl Layer for Activation {
    fn forward(&self, _: &Scope, x: &Tensor) -> Tensor {
        self.apply(x)
    }
}

impl Activation {
    /// Applies the function.
    #[track_caller]
    pub fn apply(self, x: &Tensor) -> Tensor {
        match self {
            Activation::Identity => x.clone(),
            Activation::Relu => x.relu(),
            Activation::LeakyRelu(slope) => x.greater(0.0).select(x, x * slope),
            Activation::Sigmoid => x.sigmoid(),
            Activation::Tanh => x.tanh(),
            Activation::Gelu => (x * 0.5) * ((x * std::f32::consts::FRAC_1_SQRT_2).erf() + 1.0),
            Activation::Softmax => x.softmax(),
        }
    }
}

/// A tensor reduced along the last axis of `like`, with that axis back at extent 1.
#[track_caller]
pub(crate) fn keep(like: &Tensor, reduced: &Tensor) -> Tensor {
    let mut dims = like.shape().dims().to_vec();
    if let Some(d) = dims.last_mut() {
        *d = 1;
    }
    reduced.reshape(dims)
}
