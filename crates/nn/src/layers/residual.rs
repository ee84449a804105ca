//! Residual blocks.

use synod_engine::Tensor;

use super::{Activation, Layer};
use crate::parameters::Scope;

/// `activation(body(x) + shortcut(x))`; without a shortcut, `x` itself.
pub struct Residual {
    /// What is learnt beside the shortcut.
    pub body: Box<dyn Layer>,
    /// Brings `x` to the shape of the body's result, where they differ.
    pub shortcut: Option<Box<dyn Layer>>,
    /// What follows the sum.
    pub activation: Activation,
}

impl Layer for Residual {
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor {
        let body = self.body.forward(scope, x);
        let sum = match &self.shortcut {
            Some(shortcut) => body + shortcut.forward(scope, x),
            None => body + x,
        };
        self.activation.apply(&sum)
    }
}
