//! The classifier of an experiment.

use std::path::Path;

use anyhow::{Result, ensure};
use synod_nn::{Model, ModelChoice, zoo};

use super::Misuse;
use super::data::Split;

/// More parameters than this are taken for a mistake in the configuration or the labels.
const MOST_PARAMETERS: usize = 1 << 28;

/// Makes or loads the model that the configuration names.
pub(super) fn build(config: &ModelChoice, base: &Path, split: &Split, seed: u64) -> Result<Model> {
    if let Some(path) = &config.file {
        return Ok(Model::load(&base.join(path))?);
    }
    if let Some(name) = &config.zoo {
        return zoo::by_name(name, seed).map_err(|e| Misuse(format!("[model]: {e}")).into());
    }
    let classes = config.classes.map_or(split.classes_seen().max(2), |c| c.get());
    let hidden = config.hidden.iter().flatten().map(|w| w.get());
    let widths: Vec<usize> = std::iter::once(split.train.width)
        .chain(hidden)
        .chain([classes])
        .collect();
    let products = widths.windows(2).map(|w| w[0].saturating_mul(w[1]));
    let parameters = products.fold(0usize, usize::saturating_add);
    ensure!(
        parameters <= MOST_PARAMETERS,
        "a perceptron of widths {widths:?} has {parameters} weights, more than {MOST_PARAMETERS}; \
         check `hidden`, and that labels are 0, 1, 2, …"
    );
    Ok(zoo::mlp(&widths, seed)?)
}

/// What the model is called in the summary.
pub(super) fn title(config: &ModelChoice) -> String {
    let file = config.file.as_ref().map(|f| f.display().to_string());
    config
        .zoo
        .clone()
        .or(file)
        .unwrap_or_else(|| "perceptron".to_owned())
}

/// How many classes the model tells apart, if it is a classifier of rows like these.
pub(super) fn classes(model: &Model, split: &Split) -> Result<usize> {
    let (input, output, width) = (model.input_shape(), model.output_shape(), split.train.width);
    let texts = split.train.targets > 1;
    let classes = match *output.dims() {
        [classes] if !texts => Some(classes),
        [length, classes] if texts && length == split.train.targets => Some(classes),
        _ => None,
    };
    let Some(classes) = classes else {
        return Err(Misuse(format!(
            "the model gives {output} for an example, a classifier one number per class; use one such as cnn-mnist"
        ))
        .into());
    };
    // An autoencoder; but rows may also have just as many numbers as there are classes.
    if (input == output && split.classes_seen() < classes) || classes < 2 {
        let problem =
            format!("the model makes {output} of {input} and is no classifier; use one such as cnn-mnist");
        return Err(Misuse(problem).into());
    }
    ensure!(
        input.elements() == width,
        "rows of the data have {width} numbers, the model takes {input}, which are {}",
        input.elements()
    );
    for rows in [Some(&split.train), split.validation.as_ref(), split.test.as_ref()] {
        rows.map_or(Ok(()), |r| r.check_classes(classes))?;
    }
    Ok(classes)
}
