//! Optimisers and learning-rate schedules.

use serde::{Deserialize, Serialize};
use synod_engine::ops::Rule;

/// How the learning rate changes over training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// It does not.
    #[default]
    Constant,
    /// Multiplied by `factor` every `every` epochs.
    Step {
        /// Epochs between changes.
        every: usize,
        /// The factor.
        factor: f32,
    },
    /// Multiplied by `factor` every epoch.
    Exponential {
        /// The factor.
        factor: f32,
    },
    /// Half a cosine wave from the full rate to `floor` times it over `epochs`.
    Cosine {
        /// The length of the wave.
        epochs: usize,
        /// The last fraction.
        floor: f32,
    },
    /// From zero to the full rate over the first `epochs`, then constant.
    Warmup {
        /// The length of the rise.
        epochs: usize,
    },
}

impl Schedule {
    /// The factor on the learning rate at a point of training, in epochs (whole and fractional) since the start.
    pub fn factor(&self, epoch: f64) -> f32 {
        match *self {
            Schedule::Constant => 1.0,
            Schedule::Step { every, factor } => factor.powi((epoch as usize / every.max(1)) as i32),
            Schedule::Exponential { factor } => factor.powi(epoch as i32),
            Schedule::Cosine { epochs, floor } => {
                let t = (epoch / epochs.max(1) as f64).min(1.0);
                let wave = 0.5 * (1.0 + (std::f64::consts::PI * t).cos());
                floor + (1.0 - floor) * wave as f32
            }
            Schedule::Warmup { epochs } => ((epoch / epochs.max(1) as f64).min(1.0)) as f32,
        }
    }
}

/// An update rule, its learning rate and schedule. Constructors have PyTorch's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Optimizer {
    /// The rule.
    pub rule: Rule,
    /// The learning rate.
    pub rate: f32,
    /// How the rate changes.
    #[serde(default)]
    pub schedule: Schedule,
}

impl Optimizer {
    fn new(rule: Rule, rate: f32) -> Optimizer {
        Optimizer {
            rule,
            rate,
            schedule: Schedule::Constant,
        }
    }

    /// Plain gradient descent.
    pub fn sgd(rate: f32) -> Optimizer {
        Optimizer::new(Rule::Sgd { weight_decay: 0.0 }, rate)
    }

    /// Gradient descent with momentum.
    pub fn momentum(rate: f32, momentum: f32) -> Optimizer {
        Optimizer::new(
            Rule::Momentum {
                momentum,
                nesterov: false,
                weight_decay: 0.0,
            },
            rate,
        )
    }

    /// RMSprop.
    pub fn rmsprop(rate: f32) -> Optimizer {
        Optimizer::new(
            Rule::RmsProp {
                alpha: 0.99,
                eps: 1e-8,
            },
            rate,
        )
    }

    /// Adam.
    pub fn adam(rate: f32) -> Optimizer {
        let rule = Rule::Adam {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            decoupled: false,
        };
        Optimizer::new(rule, rate)
    }

    /// AdamW.
    pub fn adamw(rate: f32, weight_decay: f32) -> Optimizer {
        let rule = Rule::Adam {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay,
            decoupled: true,
        };
        Optimizer::new(rule, rate)
    }

    /// Adagrad.
    pub fn adagrad(rate: f32) -> Optimizer {
        Optimizer::new(Rule::Adagrad { eps: 1e-10 }, rate)
    }

    /// With a schedule.
    pub fn with_schedule(self, schedule: Schedule) -> Optimizer {
        Optimizer { schedule, ..self }
    }
}
