//! Embeddings.

use synod_engine::Tensor;

use super::Layer;
use crate::init::Initializer;
use crate::parameters::{Param, Scope, Setup};

/// A row of its own for every index: `[batch, ...]` of whole numbers below `count` to `[batch, ..., width]`. An index that
/// names no row gives NaN.
#[derive(Clone, Copy, Debug)]
pub struct Embedding {
    table: Param,
}

impl Embedding {
    /// Normally distributed rows, as PyTorch's.
    pub fn new(setup: &mut Setup, count: usize, width: usize) -> Embedding {
        Embedding {
            table: setup.param("table", [count, width], Initializer::Normal(1.0)),
        }
    }
}

impl Layer for Embedding {
    fn forward(&self, scope: &Scope, x: &Tensor) -> Tensor {
        scope.get(self.table).gather(x)
    }
}
