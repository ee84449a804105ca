//! Batch normalisation.

use synod_engine::Tensor;

use super::{Activation, Layer};
use crate::init::Initializer;
use crate::parameters::{Param, Scope, Setup, StateBuffer};

/// Normalises each channel, the last axis, to mean 0 and variance 1, then scales and shifts.
///
/// While training, mean and (biased) variance are those of the batch, and the gradient goes through them; running
/// estimates, the variance unbiased, move towards them by `momentum`. Otherwise the estimates are used. They are buffers:
/// stored with the model, and not trained.
///
/// ```
/// use synod_nn::{Model, layers::BatchNorm};
/// let model = Model::build([8, 8, 3], 1, |setup| BatchNorm::new(setup, 3))?;
/// assert_eq!(model.layout().len(), 2 * 3);
/// assert_eq!(model.buffer("running_variance"), Some(&[1.0; 3][..]));
/// # Ok::<(), synod_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm {
    scale: Param,
    shift: Param,
    mean: StateBuffer,
    variance: StateBuffer,
    /// How far one step moves the running estimates; PyTorch's convention.
    pub momentum: f32,
    /// Added to the variance.
    pub eps: f32,
    activation: Activation,
}

impl BatchNorm {
    /// For `channels` channels: momentum 0.1, eps 1e-5, nothing after.
    pub fn new(setup: &mut Setup, channels: usize) -> BatchNorm {
        BatchNorm {
            scale: setup.param("scale", [channels], Initializer::Constant(1.0)),
            shift: setup.param("shift", [channels], Initializer::Constant(0.0)),
            mean: setup.buffer("running_mean", [channels], 0.0),
            variance: setup.buffer("running_variance", [channels], 1.0),
            momentum: 0.1,
            eps: 1e-5,
            activation: Activation::Identity,
        }
    }

    /// With an activation after it.
    pub fn then(self, activation: Activation) -> BatchNorm {
        BatchNorm { activation, ..self }
    }

    /// The running estimate after a step that saw `now`.
    fn moved(&self, scope: &Scope, buffer: StateBuffer, now: &Tensor) {
        let old = scope.buffer(buffer);
        scope.set_buffer(buffer, &old * (1.0 - self.momentum) + now * self.momentum);
    }

    /// Normalises by the batch's own mean and variance, and notes them in the running estimates.
    fn trained(&self, scope: &Scope, x: &Tensor) -> Tensor {
        let relu = self.activation == Activation::Relu;
        let (scale, shift) = (scope.get(self.scale), scope.get(self.shift));
        let (y, [mean, variance]) = x.batch_norm(scale, shift, self.eps, relu);
        self.moved(scope, self.mean, &mean);
        // Counted in the graph, so that one graph serves every batch size.
        let axes: Vec<usize> = (0..x.shape().rank().saturating_sub(1)).collect();
        let count = Tensor::full(1.0, &x.shape().dims()[..axes.len()]).sum(&axes);
        // A single element has no unbiased variance; its estimate of 0 is kept finite.
        let unbiased = variance * (&count / (&count - 1.0).maximum(1.0));
        self.moved(scope, self.variance, &unbiased);
        if relu { y } else { self.activation.apply(&y) }
    }
}

impl Layer for BatchNorm {
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor {
        if scope.training() {
            return self.trained(scope, x);
        }
        let (mean, variance) = (scope.buffer(self.mean), scope.buffer(self.variance));
        let gain = scope.get(self.scale) / (variance + self.eps).sqrt();
        let normal = (x - mean) * gain + scope.get(self.shift);
        self.activation.apply(&normal)
    }
}
