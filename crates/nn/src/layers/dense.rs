//! Fully connected layers.

use synod_engine::Tensor;

use super::{Activation, Layer};
use crate::init::Initializer;
use crate::parameters::{Param, Scope, Setup};

/// `activation(x · weight + bias)` with weight `[inputs, outputs]`, for every row of the last axis.
///
/// ```
/// use synod_nn::{Model, layers::{Activation, Dense}};
/// let model = Model::build([4], 1, |setup| Dense::new(setup, 4, 2, Activation::Relu))?;
/// assert_eq!(model.layout().len(), 4 * 2 + 2);
/// assert_eq!(model.predict(&[0.0; 8])?.len(), 2 * 2);
/// # Ok::<(), synod_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dense {
    weight: Param,
    bias: Param,
    activation: Activation,
}

impl Dense {
    /// Glorot-uniform weights (He-normal before a ReLU is a matter of taste; see [`Dense::with`]), zero bias.
    pub fn new(setup: &mut Setup, inputs: usize, outputs: usize, activation: Activation) -> Dense {
        Dense::with(setup, inputs, outputs, activation, Initializer::GlorotUniform)
    }

    /// With an initialiser for the weights.
    pub fn with(
        setup: &mut Setup,
        inputs: usize,
        outputs: usize,
        activation: Activation,
        init: Initializer,
    ) -> Dense {
        Dense {
            weight: setup.param("weight", [inputs, outputs], init),
            bias: setup.param("bias", [outputs], Initializer::Constant(0.0)),
            activation,
        }
    }
}

impl Layer for Dense {
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor {
        let (weight, bias) = (scope.get(self.weight), scope.get(self.bias));
        let rows = |x: &Tensor| self.activation.apply(&(x.dot(weight) + bias));
        match x.shape().dims() {
            // Further axes make no difference to a row.
            [lead @ .., inputs] if lead.len() > 1 => {
                let flat = rows(&x.reshape([lead.iter().product(), *inputs]));
                flat.reshape([lead, bias.shape().dims()].concat())
            }
            _ => rows(x),
        }
    }
}
