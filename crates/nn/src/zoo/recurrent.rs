//! Recurrent networks.

use synod_engine::Tensor;

use crate::error::{Error, Result};
use crate::layers::{Activation, Dense, Embedding, LastStep, Layer, Lstm, Sequential};
use crate::model::Model;
use crate::parameters::{Scope, Setup};

/// The vocabulary of the federated-averaging paper's Shakespeare task.
pub const CHARACTERS: usize = 90;

/// The character model of the federated-averaging paper: an 8-dimensional embedding, two LSTM layers of 256, and logits of
/// the next character after each of `time` characters.
///
/// It has 796,672 + 265 x `vocabulary` parameters: 8 per character in the embedding, 257 per character in the dense layer,
/// and 4 x 256 x (8 + 256 + 1) and 4 x 256 x (256 + 256 + 1) in the LSTM layers, which have *one* bias each, as in Keras;
/// PyTorch's second bias would add 2,048.
pub fn char_lstm(vocabulary: usize, time: usize, seed: u64) -> Result<Model> {
    if vocabulary == 0 || time == 0 {
        return Err(Error::Setting(
            "a character model needs characters and a length".into(),
        ));
    }
    Model::build([time], seed, |setup| {
        let embedding = setup.within("embedding", |s| Embedding::new(s, vocabulary, 8));
        let first = setup.within("lstm0", |s| Lstm::new(s, 8, 256));
        let second = setup.within("lstm1", |s| Lstm::new(s, 256, 256));
        let logits = setup.within("logits", |s| Dense::new(s, 256, vocabulary, Activation::Identity));
        Sequential(vec![
            Box::new(embedding),
            Box::new(first),
            Box::new(second),
            Box::new(logits),
        ])
    })
}

/// A sequence `[time, features]` through one state of `hidden` numbers and back: an LSTM that reads, its last state given
/// to an LSTM that writes at every time, a dense layer.
pub fn lstm_autoencoder(time: usize, features: usize, hidden: usize, seed: u64) -> Result<Model> {
    if time == 0 || features == 0 || hidden == 0 {
        return Err(Error::Setting(format!(
            "an autoencoder of sequences needs times, features and hidden numbers; got {time}, {features}, {hidden}"
        )));
    }
    Model::build([time, features], seed, |setup| {
        let lstm = |setup: &mut Setup, name: &str, inputs| -> Box<dyn Layer> {
            Box::new(setup.within(name, |s| Lstm::new(s, inputs, hidden)))
        };
        let reader = lstm(setup, "reader", features);
        let writer = lstm(setup, "writer", hidden);
        let output = setup.within("output", |s| {
            Dense::new(s, hidden, features, Activation::Identity)
        });
        let at_every_time = move |_: &Scope, x: &Tensor| {
            let batch = x.shape().dims().first().copied().unwrap_or(0);
            x.reshape([batch, 1, hidden]).broadcast_to([batch, time, hidden])
        };
        Sequential(vec![
            reader,
            Box::new(LastStep),
            Box::new(at_every_time),
            writer,
            Box::new(output),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_character_model_has_796_672_parameters_and_265_per_character() -> Result<()> {
        assert_eq!(char_lstm(CHARACTERS, 80, 1)?.layout().len(), 820_522);
        let model = char_lstm(30, 9, 1)?;
        assert_eq!(model.layout().len(), 796_672 + 265 * 30);
        assert_eq!(model.output_shape().dims(), [9, 30]);
        Ok(())
    }

    #[test]
    fn an_autoencoder_of_sequences_gives_what_it_takes() -> Result<()> {
        let model = lstm_autoencoder(11, 3, 5, 1)?;
        assert_eq!(model.output_shape(), model.input_shape());
        let lstm = |inputs: usize| 4 * 5 * (inputs + 5 + 1);
        assert_eq!(model.layout().len(), lstm(3) + lstm(5) + 5 * 3 + 3);
        Ok(())
    }
}
