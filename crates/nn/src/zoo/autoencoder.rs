//! Dense autoencoders.

use super::dense_chain;
use crate::error::{Error, Result};
use crate::layers::Activation;
use crate::model::Model;

/// The widths of the Marconi100 paper's autoencoder.
pub const PAPER: [usize; 10] = [460, 80, 60, 40, 20, 40, 60, 80, 100, 460];

/// A chain of dense layers that reproduces its input: ReLU between layers, linear at the end.
pub fn autoencoder(widths: &[usize], seed: u64) -> Result<Model> {
    autoencoder_ending_in(widths, Activation::Identity, seed)
}

/// [`autoencoder`] with an activation after the last layer, such as a sigmoid for features between 0 and 1.
pub fn autoencoder_ending_in(widths: &[usize], end: Activation, seed: u64) -> Result<Model> {
    let (Some(&first), Some(&last)) = (widths.first(), widths.last()) else {
        return Err(Error::Setting("an autoencoder needs at least two widths".into()));
    };
    if widths.len() < 2 || first != last || widths.contains(&0) {
        let problem =
            format!("an autoencoder begins and ends with one width, none of them zero; got {widths:?}");
        return Err(Error::Setting(problem));
    }
    Model::build([first], seed, |setup| dense_chain(setup, "layer", widths, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_autoencoder_has_107_740_parameters() -> Result<()> {
        assert_eq!(autoencoder(&PAPER, 1)?.layout().len(), 107_740);
        Ok(())
    }

    #[test]
    fn widths_that_make_no_autoencoder_are_refused() {
        for bad in [&[][..], &[4], &[4, 2], &[4, 0, 4]] {
            assert!(matches!(autoencoder(bad, 1), Err(Error::Setting(_))), "{bad:?}");
        }
    }
}
