//! Multilayer perceptrons.

use crate::error::{Error, Result};
use crate::init::Initializer;
use crate::layers::{Activation, Dense, Layer, Sequential};
use crate::model::Model;

/// A chain of dense layers: ReLU between layers, logits at the end.
pub fn mlp(widths: &[usize], seed: u64) -> Result<Model> {
    if widths.len() < 2 || widths.contains(&0) {
        let problem = format!("a perceptron needs at least two widths, none of them zero; got {widths:?}");
        return Err(Error::Setting(problem));
    }
    Model::build([widths[0]], seed, |setup| {
        let layers = widths.windows(2).enumerate().map(|(i, pair)| {
            let last = i + 2 == widths.len();
            let (activation, init) = match last {
                true => (Activation::Identity, Initializer::GlorotUniform),
                false => (Activation::Relu, Initializer::HeNormal),
            };
            let dense = setup.within(&format!("layer{i}"), |s| {
                Dense::with(s, pair[0], pair[1], activation, init)
            });
            Box::new(dense) as Box<dyn Layer>
        });
        Sequential(layers.collect())
    })
}

/// The 2NN of the federated-averaging paper: two hidden layers of 200 for images of 28 x 28, logits of 10 classes.
pub fn mlp_2nn(seed: u64) -> Result<Model> {
    mlp(&[784, 200, 200, 10], seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_2nn_has_199_210_parameters() -> Result<()> {
        assert_eq!(mlp_2nn(1)?.layout().len(), 199_210);
        Ok(())
    }

    #[test]
    fn widths_that_make_no_perceptron_are_refused() {
        for bad in [&[][..], &[4], &[4, 0, 2]] {
            assert!(matches!(mlp(bad, 1), Err(Error::Setting(_))), "{bad:?}");
        }
    }
}
