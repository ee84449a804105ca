//! Small convolutional networks.

use synod_engine::ops::Slide;

use crate::error::Result;
use crate::init::Initializer;
use crate::layers::{Activation, Conv2d, ConvSettings, Dense, Flatten, Layer, MaxPool, Sequential};
use crate::model::Model;
use crate::parameters::Setup;

/// Smaller than He's for ReLUs: clients that begin so drift less far apart in their first round.
const BEGIN: Initializer = Initializer::FanInUniform;

/// The CNN of the federated-averaging paper for images `[28, 28, 1]`: two 5 x 5 convolutions of 32 and 64 channels, each
/// followed by a 2 x 2 max pooling, a dense layer of 512, logits of 10 classes.
pub fn cnn_mnist(seed: u64) -> Result<Model> {
    Model::build([28, 28, 1], seed, |setup| {
        let mut dense = |name: &str, inputs, outputs, activation, init| -> Box<dyn Layer> {
            Box::new(setup.within(name, |s| Dense::with(s, inputs, outputs, activation, init)))
        };
        let hidden = dense("dense0", 7 * 7 * 64, 512, Activation::Relu, BEGIN);
        let logits = dense("dense1", 512, 10, Activation::Identity, BEGIN);
        Sequential(vec![
            convolution(setup, "conv0", 1, 32),
            Box::new(MaxPool::by(2)),
            convolution(setup, "conv1", 32, 64),
            Box::new(MaxPool::by(2)),
            Box::new(Flatten),
            hidden,
            logits,
        ])
    })
}

fn convolution(setup: &mut Setup, name: &str, channels: usize, outputs: usize) -> Box<dyn Layer> {
    let settings = ConvSettings {
        channels,
        outputs,
        kernel: [5, 5],
        slide: Slide::by(1).same(),
        groups: 1,
        bias: true,
        init: BEGIN,
        activation: Activation::Relu,
    };
    Box::new(setup.within(name, |s| Conv2d::with(s, &settings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cnn_has_1_663_370_parameters_and_gives_ten_logits() -> Result<()> {
        let model = cnn_mnist(1)?;
        assert_eq!(model.layout().len(), 1_663_370);
        assert_eq!(model.output_shape().dims(), [10]);
        Ok(())
    }
}
