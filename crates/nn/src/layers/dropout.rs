//! Dropout.

use synod_engine::Tensor;
use synod_engine::ops::Distribution;

use super::Layer;
use crate::parameters::Scope;

/// While training, zeroes each element with the given probability and scales the others up; otherwise does nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout(pub f32);

impl Layer for Dropout {
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor {
        let Some((key, salt)) = scope.key() else {
            return x.clone();
        };
        let keep = 1.0 - self.0;
        let draw = key.random(Distribution::Uniform, x.shape(), salt);
        draw.less(keep)
            .select(x * (1.0 / keep.max(f32::MIN_POSITIVE)), 0.0)
    }
}
