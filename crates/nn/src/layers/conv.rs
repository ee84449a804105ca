//! Convolution.

use synod_engine::Tensor;
use synod_engine::ops::Slide;

use super::{Activation, Layer};
use crate::init::Initializer;
use crate::parameters::{Param, Scope, Setup};

/// `activation(x * weight + bias)` over images `[batch, height, width, channels]`, with weight
/// `[taps down, taps across, channels / groups, outputs]`.
///
/// ```
/// use synod_engine::ops::Slide;
/// use synod_nn::{Model, layers::{Activation, Conv2d}};
/// let model = Model::build([8, 8, 3], 1, |setup| {
///     Conv2d::new(setup, 3, 16, [5, 5], Slide::by(2).same(), Activation::Relu)
/// })?;
/// assert_eq!(model.layout().len(), 5 * 5 * 3 * 16 + 16);
/// assert_eq!(model.output_shape().dims(), [4, 4, 16]);
/// # Ok::<(), synod_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Conv2d {
    weight: Param,
    bias: Option<Param>,
    slide: Slide,
    groups: usize,
    activation: Activation,
}

/// What a [`Conv2d`] is made from.
#[derive(Clone, Copy, Debug)]
pub struct ConvSettings {
    /// Channels of the input.
    pub channels: usize,
    /// Channels of the output.
    pub outputs: usize,
    /// Taps per axis.
    pub kernel: [usize; 2],
    /// How the window moves.
    pub slide: Slide,
    /// Into how many independent parts the channels fall.
    pub groups: usize,
    /// Without a bias where a normalisation follows.
    pub bias: bool,
    /// How the weights begin.
    pub init: Initializer,
    /// What follows.
    pub activation: Activation,
}

impl Conv2d {
    /// With a bias and without groups; weights and bias begin as PyTorch's do.
    pub fn new(
        setup: &mut Setup,
        channels: usize,
        outputs: usize,
        kernel: [usize; 2],
        slide: Slide,
        activation: Activation,
    ) -> Conv2d {
        let settings = ConvSettings {
            channels,
            outputs,
            kernel,
            slide,
            groups: 1,
            bias: true,
            init: Initializer::FanInUniform,
            activation,
        };
        Conv2d::with(setup, &settings)
    }

    /// With everything chosen.
    pub fn with(setup: &mut Setup, s: &ConvSettings) -> Conv2d {
        let per_group = s.channels / s.groups.max(1);
        let [p, q] = s.kernel;
        let fan_in = (p * q * per_group).max(1);
        let weight = setup.param("weight", [p, q, per_group, s.outputs], s.init);
        let bound = Initializer::Uniform(1.0 / (fan_in as f32).sqrt());
        Conv2d {
            weight,
            bias: s.bias.then(|| setup.param("bias", [s.outputs], bound)),
            slide: s.slide,
            groups: s.groups,
            activation: s.activation,
        }
    }
}

impl Layer for Conv2d {
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor {
        let sums = x.conv(scope.get(self.weight), &self.slide, self.groups);
        let sums = match self.bias {
            Some(bias) => sums + scope.get(bias),
            None => sums,
        };
        self.activation.apply(&sums)
    }
}
