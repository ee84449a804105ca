//! What clients keep to themselves.

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize};
use synod_nn::Model;

use crate::error::{Error, Result};

/// How clients get models of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Personal {
    /// They do not.
    #[default]
    None,
    /// FedPer (Arivazhagan et al., 2019): parameters with these names are not shared; a name may end in `*`.
    Fedper {
        /// The names.
        private: Vec<String>,
    },
    /// FedBN (Li et al., 2021): layers that keep statistics are not shared.
    Fedbn,
    /// Ditto (Li et al., 2021): each trains a second model that is pulled towards the shared one.
    Ditto {
        /// The strength of the pull.
        lambda: f32,
    },
    /// IFCA (Ghosh et al., 2020): several shared models, of which each client trains the one that suits it best.
    Ifca {
        /// How many.
        clusters: usize,
    },
    /// The shared model, trained on each client's rows at the end.
    FineTune {
        /// Passes over them.
        epochs: usize,
    },
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    kind: String,
    private: Option<Vec<String>>,
    lambda: Option<f32>,
    clusters: Option<usize>,
    epochs: Option<usize>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Name(String),
    Table(Table),
}

impl<'de> Deserialize<'de> for Personal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Personal, D::Error> {
        let table = match Written::deserialize(from)? {
            Written::Name(kind) => Table {
                kind,
                ..Table::default()
            },
            Written::Table(table) => table,
        };
        table.choose().map_err(serde::de::Error::custom)
    }
}

impl Table {
    fn choose(self) -> std::result::Result<Personal, String> {
        let given = [
            ("private", self.private.is_some()),
            ("lambda", self.lambda.is_some()),
            ("clusters", self.clusters.is_some()),
            ("epochs", self.epochs.is_some()),
        ];
        let (personal, takes) = match self.kind.as_str() {
            "none" => (Personal::None, ""),
            "fedper" => {
                let private = self.private.unwrap_or_default();
                if private.is_empty() {
                    return Err(
                        "fedper needs `private`, the names of parameters that stay with the clients".into(),
                    );
                }
                (Personal::Fedper { private }, "private")
            }
            "fedbn" => (Personal::Fedbn, ""),
            "ditto" => (
                Personal::Ditto {
                    lambda: self.lambda.unwrap_or(0.1),
                },
                "lambda",
            ),
            "ifca" => (
                Personal::Ifca {
                    clusters: self.clusters.unwrap_or(2),
                },
                "clusters",
            ),
            "fine-tune" => (
                Personal::FineTune {
                    epochs: self.epochs.unwrap_or(1),
                },
                "epochs",
            ),
            other => {
                return Err(format!(
                    "unknown way {other:?}; there are none, fedper, fedbn, ditto, ifca, fine-tune"
                ));
            }
        };
        match given.iter().find(|(name, is)| *is && *name != takes) {
            None => Ok(personal),
            Some((name, _)) => Err(format!("{} has no setting {name:?}", self.kind)),
        }
    }
}

impl Personal {
    /// Shared models.
    pub(super) fn clusters(&self) -> usize {
        match self {
            Personal::Ifca { clusters } => (*clusters).max(1),
            _ => 1,
        }
    }

    /// The places, among parameters and what is not trained, that stay with the clients.
    pub(super) fn private(&self, model: &Model) -> Result<Vec<Range<usize>>> {
        let offset = model.layout().len();
        let trained = model
            .layout()
            .entries()
            .iter()
            .map(|e| (e.name.as_str(), e.range.clone()));
        let kept = model.buffer_layout().entries().iter();
        let kept = kept.map(|e| (e.name.as_str(), e.range.start + offset..e.range.end + offset));
        let all: Vec<(&str, Range<usize>)> = trained.chain(kept).collect();
        let layer = |name: &str| name.rsplit_once('.').map_or("", |(layer, _)| layer).to_owned();
        let own: Box<dyn Fn(&str) -> bool> = match self {
            Personal::Fedper { private } => {
                for pattern in private {
                    if !all.iter().any(|(name, _)| matches(pattern, name)) {
                        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
                        return Err(Error::Setting(format!(
                            "no parameter is called {pattern:?}; there are {}",
                            names.join(", ")
                        )));
                    }
                }
                Box::new(|name| private.iter().any(|p| matches(p, name)))
            }
            Personal::Fedbn => {
                let layers: Vec<String> = model
                    .buffer_layout()
                    .entries()
                    .iter()
                    .map(|e| layer(&e.name))
                    .collect();
                if layers.is_empty() {
                    let problem =
                        "fedbn is for models whose layers keep statistics, which this one has none of";
                    return Err(Error::Setting(problem.into()));
                }
                Box::new(move |name| layers.contains(&layer(name)))
            }
            _ => return Ok(vec![]),
        };
        let places: Vec<Range<usize>> = all
            .into_iter()
            .filter(|(name, _)| own(name))
            .map(|(_, r)| r)
            .collect();
        Ok(places)
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// The values at private places, one after the other.
pub(super) fn gather(weights: &[f32], places: &[Range<usize>]) -> Vec<f32> {
    places.iter().flat_map(|r| &weights[r.clone()]).copied().collect()
}

/// Puts them back.
pub(super) fn scatter(weights: &mut [f32], places: &[Range<usize>], values: &[f32]) {
    let mut rest = values;
    for place in places.iter().filter(|_| !values.is_empty()) {
        let (now, later) = rest.split_at(place.len());
        weights[place.clone()].copy_from_slice(now);
        rest = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_nn::zoo;

    #[test]
    fn names_choose_what_is_private_and_wrong_ones_are_told() {
        let model = zoo::mlp(&[3, 4, 2], 1).expect("a model");
        let names: Vec<String> = model.layout().entries().iter().map(|e| e.name.clone()).collect();
        let last = names.last().expect("parameters").clone();
        let head = format!("{}*", &last[..last.len() - 2]);
        let private = Personal::Fedper { private: vec![head] }
            .private(&model)
            .expect("found");
        assert!(!private.is_empty() && private.last().map(|r| r.end) == Some(model.layout().len()));
        let wrong = Personal::Fedper {
            private: vec!["nobody".into()],
        }
        .private(&model);
        assert!(wrong.expect_err("refused").to_string().contains(&last));
        assert!(Personal::Fedbn.private(&model).is_err());
        let mut weights = vec![1.0, 2.0, 3.0, 4.0];
        let kept = gather(&weights, &[1..2, 3..4]);
        scatter(&mut weights, &[1..2, 3..4], &[8.0, 9.0]);
        assert_eq!((kept, weights), (vec![2.0, 4.0], vec![1.0, 8.0, 3.0, 9.0]));
    }

    #[test]
    fn layers_that_keep_statistics_are_private_with_their_parameters() {
        use synod_nn::layers::{Activation, BatchNorm, Dense, Layer, Sequential};
        let model = Model::build([3], 1, |setup| {
            let first = setup.within("first", |s| Dense::new(s, 3, 4, Activation::Identity));
            let norm = setup.within("norm", |s| BatchNorm::new(s, 4));
            let last = setup.within("last", |s| Dense::new(s, 4, 2, Activation::Identity));
            let layers: Vec<Box<dyn Layer>> = vec![Box::new(first), Box::new(norm), Box::new(last)];
            Sequential(layers)
        });
        let model = model.expect("a model");
        let private = Personal::Fedbn.private(&model).expect("found");
        let count: usize = private.iter().map(|r| r.len()).sum();
        assert_eq!(count, 16, "scale and shift, mean and variance of four channels");
        let shared = model
            .layout()
            .entries()
            .iter()
            .filter(|e| !e.name.starts_with("norm"));
        assert!(shared.into_iter().all(|e| !private.contains(&e.range)));
    }
}
