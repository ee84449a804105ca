//! Residual networks of bottleneck blocks.

use synod_engine::ops::Slide;

use crate::error::{Error, Result};
use crate::init::Initializer;
use crate::layers::{
    Activation, BatchNorm, Conv2d, ConvSettings, Dense, GlobalAveragePool, Layer, MaxPool, Residual,
    Sequential,
};
use crate::model::Model;
use crate::parameters::Setup;

/// Where a stage's first block halves the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// In the first 1 x 1 convolution: the paper's.
    V1,
    /// In the 3 x 3 convolution: more work, more accurate; what benchmarks and PyTorch mean by ResNet-50.
    V15,
}

/// What a residual network is made from.
#[derive(Clone, Debug)]
pub struct Resnet {
    /// Where images are halved.
    pub version: Version,
    /// Blocks per stage.
    pub blocks: Vec<usize>,
    /// Channels of the first stage's bottleneck; every stage doubles it.
    pub width: usize,
    /// Height and width of the images, which have three channels.
    pub image: [usize; 2],
    /// Classes.
    pub classes: usize,
}

/// ResNet-50 for images `[224, 224, 3]`: 25,557,032 parameters with 1000 classes.
pub fn resnet50(version: Version, classes: usize, seed: u64) -> Result<Model> {
    let settings = Resnet {
        version,
        blocks: vec![3, 4, 6, 3],
        width: 64,
        image: [224, 224],
        classes,
    };
    resnet(&settings, seed)
}

/// How much wider a block's result is than its bottleneck.
const EXPANSION: usize = 4;

/// A residual network: a 7 x 7 convolution and a max pooling, each halving the image, stages of bottleneck blocks, the mean
/// over the image, logits.
pub fn resnet(settings: &Resnet, seed: u64) -> Result<Model> {
    let Resnet { blocks, width, .. } = settings;
    if blocks.is_empty() || blocks.contains(&0) || *width == 0 || settings.classes == 0 {
        return Err(Error::Setting(format!(
            "a residual network needs blocks in every stage, a width and classes; got {settings:?}"
        )));
    }
    let [h, w] = settings.image;
    Model::build([h, w, 3], seed, |setup| {
        let stem = setup.within("stem", |s| {
            unit(s, "conv", 3, *width, 7, Slide::by(2).padded(3), Activation::Relu)
        });
        let pool = MaxPool {
            kernel: [3, 3],
            slide: Slide::by(2).padded(1),
        };
        let mut layers: Vec<Box<dyn Layer>> = vec![stem, Box::new(pool)];
        let mut channels = *width;
        for (stage, &count) in blocks.iter().enumerate() {
            let bottleneck = width << stage;
            for block in 0..count {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let name = format!("stage{stage}.block{block}");
                let made = setup.within(&name, |s| {
                    bottleneck_block(s, settings.version, channels, bottleneck, stride)
                });
                layers.push(made);
                channels = bottleneck * EXPANSION;
            }
        }
        layers.push(Box::new(GlobalAveragePool));
        let logits = setup.within("logits", |s| {
            Dense::with(
                s,
                channels,
                settings.classes,
                Activation::Identity,
                Initializer::FanInUniform,
            )
        });
        layers.push(Box::new(logits));
        Sequential(layers)
    })
}

fn bottleneck_block(
    setup: &mut Setup,
    version: Version,
    channels: usize,
    bottleneck: usize,
    stride: usize,
) -> Box<dyn Layer> {
    let outputs = bottleneck * EXPANSION;
    let (first, second) = match version {
        Version::V1 => (stride, 1),
        Version::V15 => (1, stride),
    };
    let (relu, none) = (Activation::Relu, Activation::Identity);
    let body = vec![
        unit(setup, "reduce", channels, bottleneck, 1, Slide::by(first), relu),
        unit(
            setup,
            "spread",
            bottleneck,
            bottleneck,
            3,
            Slide::by(second).padded(1),
            relu,
        ),
        unit(setup, "expand", bottleneck, outputs, 1, Slide::by(1), none),
    ];
    let straight = channels == outputs && stride == 1;
    let shortcut =
        (!straight).then(|| unit(setup, "shortcut", channels, outputs, 1, Slide::by(stride), none));
    Box::new(Residual {
        body: Box::new(Sequential(body)),
        shortcut,
        activation: relu,
    })
}

/// A convolution without bias, He-initialised by its outputs, and a batch normalisation.
fn unit(
    setup: &mut Setup,
    name: &str,
    channels: usize,
    outputs: usize,
    kernel: usize,
    slide: Slide,
    activation: Activation,
) -> Box<dyn Layer> {
    let fan_out = (kernel * kernel * outputs).max(1) as f32;
    let settings = ConvSettings {
        channels,
        outputs,
        kernel: [kernel; 2],
        slide,
        groups: 1,
        bias: false,
        init: Initializer::Normal((2.0 / fan_out).sqrt()),
        activation: Activation::Identity,
    };
    setup.within(name, |s| {
        let conv = Conv2d::with(s, &settings);
        let norm = s.within("norm", |s| BatchNorm::new(s, outputs)).then(activation);
        Box::new(Sequential(vec![Box::new(conv), Box::new(norm)])) as Box<dyn Layer>
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_resnet_50_have_25_557_032_parameters_and_differ_in_work() -> Result<()> {
        // Known counts: 3.8 and 4.1 billion multiply-adds per image.
        for (version, flops) in [(Version::V1, 7.6e9..7.9e9), (Version::V15, 8.1e9..8.4e9)] {
            let model = resnet50(version, 1000, 1)?;
            assert_eq!(model.layout().len(), 25_557_032, "{version:?}");
            assert_eq!(model.output_shape().dims(), [1000]);
            // Two running estimates of every channel that is normalised.
            assert_eq!(model.buffers().len(), 2 * 26_560);
            let found = model.graph(1)?.cost().flops as f64;
            assert!(flops.contains(&found), "{version:?}: {found}");
        }
        Ok(())
    }
}
