//! The sections `[model]` and `[train]` of a configuration.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::Deserialize;
use synod_core::config::{Mistake, Section};

use crate::{Optimizer, Schedule};

/// One of three ways to name a model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelChoice {
    /// A model of the zoo.
    pub zoo: Option<String>,
    /// A model file.
    pub file: Option<PathBuf>,
    /// Widths of a perceptron's hidden layers; its inputs and classes come from the data.
    pub hidden: Option<Vec<NonZeroUsize>>,
    /// Classes of that perceptron, if the training labels do not show all.
    pub classes: Option<NonZeroUsize>,
}

impl Section for ModelChoice {
    const NAME: &'static str = "model";
    type Written = ModelChoice;

    fn check(model: ModelChoice) -> Result<ModelChoice, Mistake> {
        let given = [model.zoo.is_some(), model.file.is_some(), model.hidden.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            return Err(Mistake::here(
                "a model is named by one of `zoo`, `file` and `hidden`",
            ));
        }
        if model.classes.is_some() && model.hidden.is_none() {
            let problem = "`classes` goes with `hidden`; other models know theirs";
            return Err(Mistake::at("classes", problem));
        }
        Ok(model)
    }
}

/// How a model is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingChoice {
    /// Passes over the rows.
    pub epochs: NonZeroUsize,
    /// Rows of a step.
    pub batch: NonZeroUsize,
    /// How far a step goes.
    pub rate: f32,
    /// Epochs without a better validation loss after which to stop.
    pub early_stopping: Option<NonZeroUsize>,
    /// Epochs, or rounds, between checkpoints.
    pub checkpoint: NonZeroUsize,
    optimizer: Rule,
    schedule: WrittenSchedule,
}

/// `[train]` as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenTraining {
    epochs: NonZeroUsize,
    batch: NonZeroUsize,
    #[serde(default)]
    optimizer: Rule,
    rate: f64,
    #[serde(default)]
    schedule: WrittenSchedule,
    early_stopping: Option<NonZeroUsize>,
    #[serde(default = "one")]
    checkpoint: NonZeroUsize,
}

fn one() -> NonZeroUsize {
    NonZeroUsize::MIN
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rule {
    Sgd,
    Momentum,
    Rmsprop,
    #[default]
    Adam,
    Adamw,
    Adagrad,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum WrittenSchedule {
    #[default]
    Constant,
    /// Half a wave over all epochs, down to nothing.
    Cosine,
    Step {
        every: NonZeroUsize,
        factor: f64,
    },
    Exponential {
        factor: f64,
    },
    Warmup {
        epochs: NonZeroUsize,
    },
}

impl Section for TrainingChoice {
    const NAME: &'static str = "train";
    type Written = WrittenTraining;

    fn check(written: WrittenTraining) -> Result<TrainingChoice, Mistake> {
        positive("rate", written.rate)?;
        match written.schedule {
            WrittenSchedule::Step { factor, .. } => positive("schedule.step.factor", factor)?,
            WrittenSchedule::Exponential { factor } => positive("schedule.exponential.factor", factor)?,
            _ => {}
        }
        Ok(TrainingChoice {
            epochs: written.epochs,
            batch: written.batch,
            rate: written.rate as f32,
            early_stopping: written.early_stopping,
            checkpoint: written.checkpoint,
            optimizer: written.optimizer,
            schedule: written.schedule,
        })
    }
}

fn positive(key: &str, value: f64) -> Result<(), Mistake> {
    let single = value as f32;
    match single > 0.0 && single.is_finite() {
        true => Ok(()),
        false => Err(Mistake::at(key, format!("{value} should be a positive number"))),
    }
}

impl TrainingChoice {
    /// The optimiser with its schedule over so many epochs, or rounds.
    pub fn optimizer(&self, length: usize) -> Optimizer {
        let rate = self.rate;
        let optimizer = match self.optimizer {
            Rule::Sgd => Optimizer::sgd(rate),
            Rule::Momentum => Optimizer::momentum(rate, 0.9),
            Rule::Rmsprop => Optimizer::rmsprop(rate),
            Rule::Adam => Optimizer::adam(rate),
            Rule::Adamw => Optimizer::adamw(rate, 0.01),
            Rule::Adagrad => Optimizer::adagrad(rate),
        };
        optimizer.with_schedule(match self.schedule {
            WrittenSchedule::Constant => Schedule::Constant,
            WrittenSchedule::Cosine => Schedule::Cosine {
                epochs: length,
                floor: 0.0,
            },
            WrittenSchedule::Step { every, factor } => Schedule::Step {
                every: every.get(),
                factor: factor as f32,
            },
            WrittenSchedule::Exponential { factor } => Schedule::Exponential {
                factor: factor as f32,
            },
            WrittenSchedule::Warmup { epochs } => Schedule::Warmup { epochs: epochs.get() },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn training(more: Value) -> Result<TrainingChoice, Mistake> {
        let mut written = json!({ "epochs": 3, "batch": 10, "rate": 1e-3 });
        for (key, value) in more.as_object().expect("keys") {
            written[key] = value.clone();
        }
        TrainingChoice::check(serde_json::from_value(written).expect("written so"))
    }

    #[test]
    fn the_optimiser_is_adam_unless_said_and_follows_its_schedule() {
        let usual = training(json!({})).expect("read");
        assert_eq!(
            (usual.optimizer(7).rule, usual.checkpoint.get()),
            (Optimizer::adam(1.0).rule, 1)
        );
        let steps = training(json!({ "schedule": { "step": { "every": 2, "factor": 0.5 } } }));
        assert_eq!(steps.expect("read").optimizer(7).schedule.factor(2.0), 0.5);
    }

    #[test]
    fn mistakes_are_told_with_their_key() {
        for (more, key) in [
            (json!({ "rate": -1 }), "rate"),
            (json!({ "rate": 1e300 }), "rate"),
            (
                json!({ "schedule": { "exponential": { "factor": 0.0 } } }),
                "schedule.exponential.factor",
            ),
        ] {
            assert_eq!(training(more).map_err(|m| m.key), Err(key.to_owned()));
        }
        let model = |written| ModelChoice::check(serde_json::from_value(written).expect("written so"));
        assert!(model(json!({ "hidden": [8], "classes": 3 })).is_ok());
        for (written, key) in [
            (json!({}), ""),
            (json!({ "zoo": "mlp-2nn", "hidden": [8] }), ""),
            (json!({ "zoo": "mlp-2nn", "classes": 3 }), "classes"),
        ] {
            assert_eq!(model(written).map_err(|m| m.key), Err(key.to_owned()));
        }
    }
}
