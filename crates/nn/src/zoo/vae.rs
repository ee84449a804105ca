//! Variational autoencoders.

use synod_engine::Tensor;
use synod_engine::ops::Distribution;

use super::dense_chain;
use crate::error::{Error, Result};
use crate::layers::{Activation, Dense, Layer};
use crate::model::Model;
use crate::parameters::Scope;

/// A dense variational autoencoder: `widths` lead from the input to the latent numbers, and back in reverse; ReLU between
/// layers, linear at the end. While training, the latent numbers are drawn around their means, and the divergence from the
/// standard normal distribution is added to the loss, per input number and times `beta`: with binary cross-entropy and
/// `beta` 1 the loss is the (negative) evidence bound per input number. Otherwise the means are used.
pub fn vae(widths: &[usize], beta: f32, seed: u64) -> Result<Model> {
    let (Some(&input), Some(&latent)) = (widths.first(), widths.last()) else {
        return Err(Error::Setting("a variational autoencoder needs widths".into()));
    };
    if widths.len() < 2 || widths.contains(&0) {
        let problem =
            format!("a variational autoencoder needs two widths or more, none zero; got {widths:?}");
        return Err(Error::Setting(problem));
    }
    Model::build([input], seed, |setup| {
        let hidden = &widths[..widths.len() - 1];
        let back: Vec<usize> = widths.iter().rev().copied().collect();
        let last = hidden[hidden.len() - 1];
        let encoder = dense_chain(setup, "encoder", hidden, Activation::Relu);
        let linear = Activation::Identity;
        let mean = setup.within("mean", |s| Dense::new(s, last, latent, linear));
        let log_variance = setup.within("log_variance", |s| Dense::new(s, last, latent, linear));
        let decoder = dense_chain(setup, "decoder", &back, linear);
        move |scope: &Scope, x: &Tensor| {
            let h = encoder.forward(scope, x);
            let (mean, log_variance) = (mean.forward(scope, &h), log_variance.forward(scope, &h));
            let code = match scope.key() {
                Some((key, salt)) => {
                    let excess = (&mean * &mean + log_variance.exp()) - &log_variance - 1.0;
                    let divergence = excess.sum(&[1]).mean_all() * (0.5 * beta / input as f32);
                    scope.add_loss(divergence);
                    let noise = key.random(Distribution::Normal, mean.shape(), salt);
                    &mean + (&log_variance * 0.5).exp() * noise
                }
                None => mean,
            };
            decoder.forward(scope, &code)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_variational_autoencoder_has_652_824_parameters() -> Result<()> {
        let model = vae(&[784, 400, 20], 1.0, 1)?;
        let dense = |i: usize, o: usize| i * o + o;
        let wanted = dense(784, 400) + 2 * dense(400, 20) + dense(20, 400) + dense(400, 784);
        assert_eq!((model.layout().len(), wanted), (652_824, 652_824));
        Ok(())
    }
}
