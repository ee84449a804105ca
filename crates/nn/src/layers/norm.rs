//! Layer normalisation.

use synod_engine::Tensor;

use super::{Layer, keep};
use crate::init::Initializer;
use crate::parameters::{Param, Scope, Setup};

/// Normalises each row of the last axis to mean 0 and variance 1, then scales and shifts.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm {
    scale: Param,
    shift: Param,
    eps: f32,
}

impl LayerNorm {
    /// For rows of `width` elements.
    pub fn new(setup: &mut Setup, width: usize) -> LayerNorm {
        LayerNorm {
            scale: setup.param("scale", [width], Initializer::Constant(1.0)),
            shift: setup.param("shift", [width], Initializer::Constant(0.0)),
            eps: 1e-5,
        }
    }
}

impl Layer for LayerNorm {
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor {
        let axis = [x.shape().rank().saturating_sub(1)];
        let centred = x - keep(x, &x.mean(&axis));
        let variance = keep(x, &(&centred * &centred).mean(&axis));
        let normal = &centred / (variance + self.eps).sqrt();
        normal * scope.get(self.scale) + scope.get(self.shift)
    }
}
