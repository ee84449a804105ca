//! What a node's detector is made of.

use crate::detector::{Kind, Sequences, Training};
use crate::error::{Error, Result};
use crate::features::{FeatureSettings, Scaling, View};

/// One detector among those that judge a node together.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// What it is.
    pub kind: Kind,
    /// What it looks at.
    pub view: View,
    /// Windows over which its sizes are averaged, backwards in time and with falling weight.
    pub smooth: usize,
    /// The power to which sizes are raised before they are averaged: above 1, short bursts count more.
    pub power: f32,
    /// How much its word counts.
    pub weight: f32,
}

impl Member {
    /// A member whose sizes are averaged over `smooth` windows, and whose word counts by `weight`.
    pub fn new(kind: Kind, view: View, smooth: usize, weight: f32) -> Member {
        let power = if matches!(kind, Kind::Covariance { .. }) {
            2.0
        } else {
            1.0
        };
        let power = if smooth > 1 { power } else { 1.0 };
        Member {
            kind,
            view,
            smooth,
            power,
            weight,
        }
    }
}

/// What a node's detector is made of, before it has seen any window.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// How windows become features.
    pub features: FeatureSettings,
    /// Who judges them.
    pub members: Vec<Member>,
    /// Whether metrics that fall silent count.
    pub silence: bool,
    /// Whether scores are measured in units of a typical stretch of the training time, not of all of it.
    pub typical: bool,
    /// Whether the training scores that thresholds come from are those of unseen windows, as far as possible.
    pub unseen: bool,
    /// The share of training windows, the most unusual ones, that is left out of a second fit.
    pub refine: f64,
    /// The seed of everything random.
    pub seed: u64,
}

/// Windows over which scores are averaged by default.
pub(crate) const SMOOTH: usize = 10;

/// Names that [`Recipe::named`] knows.
pub(crate) const NAMES: [&str; 8] = [
    "default",
    "covariance",
    "changes",
    "focus",
    "autoencoder",
    "pca",
    "paper",
    "lstm-autoencoder",
];

impl Recipe {
    /// The detector that Synod recommends: the covariance of values and that of changes, single metrics that stand out, and
    /// silence.
    pub fn standard(seed: u64) -> Recipe {
        let covariance = || Kind::Covariance { ridge: 3.0 };
        let members = vec![
            Member::new(covariance(), View::Values, SMOOTH, 0.4),
            Member::new(covariance(), View::Changes, SMOOTH, 0.3),
            Member::new(Kind::Focus { ridge: 1.0, top: 3 }, View::Values, SMOOTH, 0.3),
        ];
        Recipe {
            features: FeatureSettings::default(),
            members,
            silence: true,
            typical: true,
            unseen: true,
            refine: 0.0,
            seed,
        }
    }

    /// The recipe of one node among others: with a seed of its own.
    pub fn of_node(&self, index: usize) -> Recipe {
        Recipe {
            seed: self.seed.wrapping_add(1000 * index as u64),
            ..self.clone()
        }
    }

    /// Sets the passes of all networks over the training windows.
    pub fn set_epochs(&mut self, epochs: usize) {
        for member in &mut self.members {
            if let Kind::Autoencoder(training) = &mut member.kind {
                (training.epochs, training.least_steps) = (epochs, 0);
            }
            if let Kind::LstmAutoencoder(sequences) = &mut member.kind {
                (sequences.epochs, sequences.least_steps) = (epochs, 0);
            }
        }
    }

    /// A recipe by its name in a configuration.
    pub fn named(name: &str, seed: u64) -> Result<Recipe> {
        let standard = Recipe::standard(seed);
        let alone = |i: usize| Recipe {
            members: vec![standard.members[i].clone()],
            ..standard.clone()
        };
        let one = |kind: Kind| Recipe {
            members: vec![Member::new(kind, View::Values, SMOOTH, 1.0)],
            ..standard.clone()
        };
        // The two baselines are as their authors have them: plain scaling, no smoothing, no further judge.
        let plain = |kind: Kind, scaling: Scaling| Recipe {
            features: FeatureSettings {
                scaling,
                compress: false,
                counters: false,
                ..FeatureSettings::default()
            },
            members: vec![Member::new(kind, View::Values, 1, 1.0)],
            silence: false,
            typical: false,
            unseen: false,
            refine: 0.0,
            seed,
        };
        Ok(match name {
            "default" => standard,
            "covariance" => alone(0),
            "changes" => alone(1),
            "focus" => alone(2),
            "autoencoder" => Recipe {
                members: vec![Member::new(
                    Kind::Autoencoder(Training::default()),
                    View::Values,
                    SMOOTH,
                    0.25,
                )],
                ..standard
            },
            "pca" => plain(Kind::Pca { share: 0.9 }, Scaling::Standard),
            "paper" => plain(Kind::Autoencoder(Training::paper()), Scaling::Minmax),
            "lstm-autoencoder" => one(Kind::LstmAutoencoder(Sequences::default())),
            several if several.contains('+') => {
                let parts: Result<Vec<Recipe>> = several
                    .split('+')
                    .map(|n| Recipe::named(n.trim(), seed))
                    .collect();
                let members = parts?.into_iter().flat_map(|r| r.members).collect();
                Recipe { members, ..standard }
            }
            _ => {
                return Err(Error::Setting(format!(
                    "there is no detector {name:?}; there are {}",
                    NAMES.join(", ")
                )));
            }
        })
    }

    /// The recipe with one of its parts taken away or changed, for every part: what each is worth.
    pub fn ablations(&self) -> Vec<(&'static str, Recipe)> {
        let change = |name, change: &dyn Fn(&mut Recipe)| {
            let mut recipe = self.clone();
            change(&mut recipe);
            (name, recipe)
        };
        let without = |recipe: &mut Recipe, out: &dyn Fn(&Member) -> bool| recipe.members.retain(|m| !out(m));
        let covariance = |m: &Member| matches!(m.kind, Kind::Covariance { .. });
        let ridge = |recipe: &mut Recipe, value: f64| {
            for member in &mut recipe.members {
                if let Kind::Covariance { ridge } = &mut member.kind {
                    *ridge = value;
                }
            }
        };
        let mut all = vec![
            change("without covariance of values", &|r| {
                without(r, &|m| covariance(m) && m.view == View::Values);
            }),
            change("without covariance of changes", &|r| {
                without(r, &|m| covariance(m) && m.view == View::Changes);
            }),
            change("without single metrics", &|r| {
                without(r, &|m| matches!(m.kind, Kind::Focus { .. }))
            }),
            change("covariance less shrunk", &|r| ridge(r, 0.3)),
            change("large deviations in full", &|r| r.features.compress = false),
            change("counters as they are", &|r| r.features.counters = false),
            change("without smoothing", &|r| {
                r.members.iter_mut().for_each(|m| (m.smooth, m.power) = (1, 1.0))
            }),
            change("without silence", &|r| r.silence = false),
            change("unit of all training time", &|r| r.typical = false),
            change("training scores of seen windows", &|r| r.unseen = false),
            change("second fit without the oddest 2 %", &|r| r.refine = 0.02),
            change("with an autoencoder", &|r| {
                r.members.push(Member::new(
                    Kind::Autoencoder(Training::default()),
                    View::Values,
                    SMOOTH,
                    0.25,
                ));
            }),
        ];
        all.retain(|(_, recipe)| !recipe.members.is_empty() && recipe != self);
        all
    }
}
