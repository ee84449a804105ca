//! Models by name, one file per family.

mod autoencoder;
mod cnn;
mod mlp;
mod recurrent;
mod resnet;
mod vae;

pub use autoencoder::{PAPER, autoencoder, autoencoder_ending_in};
pub use cnn::cnn_mnist;
pub use mlp::{mlp, mlp_2nn};
pub use recurrent::{CHARACTERS, char_lstm, lstm_autoencoder};
pub use resnet::{Resnet, Version, resnet, resnet50};
pub use vae::vae;

use crate::error::{Error, Result};
use crate::layers::{Activation, Dense, Layer, Sequential};
use crate::model::Model;
use crate::parameters::Setup;

/// A maker of a model with its usual extents, from a seed.
type Make = fn(u64) -> Result<Model>;

/// The names of [`by_name`], with what they make.
const MODELS: &[(&str, Make)] = &[
    ("autoencoder", |seed| autoencoder(&PAPER, seed)),
    ("mlp-2nn", mlp_2nn),
    ("cnn-mnist", cnn_mnist),
    ("char-lstm", |seed| char_lstm(CHARACTERS, 80, seed)),
    ("resnet50-v1", |seed| resnet50(Version::V1, 1000, seed)),
    ("resnet50", |seed| resnet50(Version::V15, 1000, seed)),
    ("lstm-autoencoder", |seed| lstm_autoencoder(30, 16, 64, seed)),
    ("vae", |seed| vae(&[784, 400, 20], 1.0, seed)),
];

/// Dense layers with ReLU between, and `last` after the last.
fn dense_chain(setup: &mut Setup, name: &str, widths: &[usize], last: Activation) -> Sequential {
    let layers = widths.windows(2).enumerate().map(|(i, pair)| {
        let activation = if i + 2 == widths.len() {
            last
        } else {
            Activation::Relu
        };
        let dense = setup.within(&format!("{name}{i}"), |s| {
            Dense::new(s, pair[0], pair[1], activation)
        });
        Box::new(dense) as Box<dyn Layer>
    });
    Sequential(layers.collect())
}

/// A model of the zoo by name.
pub fn by_name(name: &str, seed: u64) -> Result<Model> {
    match MODELS.iter().find(|(known, _)| *known == name) {
        Some((_, make)) => make(seed),
        None => {
            let known: Vec<String> = MODELS.iter().map(|(n, _)| format!("`{n}`")).collect();
            Err(Error::Setting(format!(
                "no model of the zoo is called `{name}`; there are {}",
                known.join(", ")
            )))
        }
    }
}
