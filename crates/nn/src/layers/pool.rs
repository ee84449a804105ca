//! Pooling, and other layers without parameters that change an image's extents.

use synod_engine::Tensor;
use synod_engine::ops::Slide;

use super::Layer;
use crate::parameters::Scope;

/// The largest element of every window, channel by channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxPool {
    /// Taps per axis.
    pub kernel: [usize; 2],
    /// How the window moves.
    pub slide: Slide,
}

impl MaxPool {
    /// Square windows side by side.
    pub fn by(extent: usize) -> MaxPool {
        MaxPool {
            kernel: [extent; 2],
            slide: Slide::by(extent),
        }
    }
}

impl Layer for MaxPool {
    fn forward(&self, _: &Scope, x: &Tensor) -> Tensor {
        x.max_pool(self.kernel, &self.slide)
    }
}

/// The mean of every window, channel by channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AveragePool {
    /// Taps per axis.
    pub kernel: [usize; 2],
    /// How the window moves.
    pub slide: Slide,
    /// Padding counts as zeros (PyTorch's default) instead of not at all.
    pub count_padding: bool,
}

impl AveragePool {
    /// Square windows side by side.
    pub fn by(extent: usize) -> AveragePool {
        AveragePool {
            kernel: [extent; 2],
            slide: Slide::by(extent),
            count_padding: true,
        }
    }
}

impl Layer for AveragePool {
    fn forward(&self, _: &Scope, x: &Tensor) -> Tensor {
        x.average_pool(self.kernel, &self.slide, self.count_padding)
    }
}

/// The mean of every channel: `[batch, height, width, channels]` to `[batch, channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalAveragePool;

impl Layer for GlobalAveragePool {
    fn forward(&self, _: &Scope, x: &Tensor) -> Tensor {
        x.mean(&[1, 2])
    }
}

/// Every example as one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flatten;

impl Layer for Flatten {
    fn forward(&self, _: &Scope, x: &Tensor) -> Tensor {
        match x.shape().dims() {
            [batch, rest @ ..] => x.reshape([*batch, rest.iter().product()]),
            [] => x.clone(),
        }
    }
}
