//! Strategies by name, as a configuration chooses them.

use serde::{Deserialize, Deserializer, Serialize};

use super::{
    AdaptiveStep, Buffered, Bulyan, Clipped, Fair, GeometricMedian, Krum, MeanOfSquares, Median, Mixed,
    Momentum, Nova, Plain, Proximal, Scaffold, SingleStep, Strategy, TrimmedMean, Trust, setting,
};
use crate::error::Result;

/// A strategy and its settings: a bare name, or a table with `kind`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the settings are those of the strategies' own types")]
pub enum StrategyChoice {
    #[default]
    Fedavg,
    Fedsgd,
    Fedprox {
        mu: f32,
    },
    Fedavgm {
        rate: f64,
        momentum: f64,
    },
    Fedadagrad {
        rate: f64,
        tau: f64,
    },
    Fedadam {
        rate: f64,
        beta1: f64,
        beta2: f64,
        tau: f64,
    },
    Fedyogi {
        rate: f64,
        beta1: f64,
        beta2: f64,
        tau: f64,
    },
    Scaffold {
        rate: f64,
    },
    Fednova,
    QFedavg {
        q: f64,
    },
    Fedbuff {
        buffer: u32,
        rate: f64,
        staleness: u64,
    },
    Fedasync {
        mixing: f64,
        power: f64,
        staleness: u64,
    },
    Median,
    TrimmedMean {
        cut: f64,
    },
    Krum {
        malicious: usize,
    },
    MultiKrum {
        malicious: usize,
        keep: usize,
    },
    Bulyan {
        malicious: usize,
    },
    GeometricMedian {
        steps: u32,
    },
    NormClipping {
        norm: f64,
    },
    Fltrust,
}

/// What a table may say; which of it a kind takes is checked afterwards, so that the error can name it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    kind: String,
    mu: Option<f32>,
    rate: Option<f64>,
    momentum: Option<f64>,
    beta1: Option<f64>,
    beta2: Option<f64>,
    tau: Option<f64>,
    q: Option<f64>,
    buffer: Option<u32>,
    staleness: Option<u64>,
    mixing: Option<f64>,
    power: Option<f64>,
    cut: Option<f64>,
    malicious: Option<usize>,
    keep: Option<usize>,
    steps: Option<u32>,
    norm: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Name(String),
    Table(Box<Table>),
}

impl<'de> Deserialize<'de> for StrategyChoice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<StrategyChoice, D::Error> {
        let table = match Written::deserialize(from)? {
            Written::Name(kind) => Table {
                kind,
                ..Table::default()
            },
            Written::Table(table) => *table,
        };
        table.choose().map_err(serde::de::Error::custom)
    }
}

impl Table {
    /// The settings that were given, by name.
    fn given(&self) -> Vec<&'static str> {
        let all = [
            ("mu", self.mu.is_some()),
            ("rate", self.rate.is_some()),
            ("momentum", self.momentum.is_some()),
            ("beta1", self.beta1.is_some()),
            ("beta2", self.beta2.is_some()),
            ("tau", self.tau.is_some()),
            ("q", self.q.is_some()),
            ("buffer", self.buffer.is_some()),
            ("staleness", self.staleness.is_some()),
            ("mixing", self.mixing.is_some()),
            ("power", self.power.is_some()),
            ("cut", self.cut.is_some()),
            ("malicious", self.malicious.is_some()),
            ("keep", self.keep.is_some()),
            ("steps", self.steps.is_some()),
            ("norm", self.norm.is_some()),
        ];
        all.into_iter()
            .filter(|(_, given)| *given)
            .map(|(name, _)| name)
            .collect()
    }

    fn choose(self) -> std::result::Result<StrategyChoice, String> {
        let malicious = self.malicious.unwrap_or(1);
        let (choice, takes): (StrategyChoice, &[&str]) = match self.kind.as_str() {
            "fedavg" => (StrategyChoice::Fedavg, &[]),
            "fedsgd" => (StrategyChoice::Fedsgd, &[]),
            "fedprox" => (
                StrategyChoice::Fedprox {
                    mu: self.mu.unwrap_or(0.01),
                },
                &["mu"],
            ),
            "fedavgm" => {
                let (rate, momentum) = (self.rate.unwrap_or(1.0), self.momentum.unwrap_or(0.9));
                (StrategyChoice::Fedavgm { rate, momentum }, &["rate", "momentum"])
            }
            "fedadagrad" => {
                let (rate, tau) = (self.rate.unwrap_or(0.1), self.tau.unwrap_or(1e-3));
                (StrategyChoice::Fedadagrad { rate, tau }, &["rate", "tau"])
            }
            "fedadam" | "fedyogi" => {
                let (beta1, beta2) = (self.beta1.unwrap_or(0.9), self.beta2.unwrap_or(0.99));
                let (rate, tau) = (self.rate.unwrap_or(0.01), self.tau.unwrap_or(1e-3));
                let choice = match self.kind == "fedadam" {
                    true => StrategyChoice::Fedadam {
                        rate,
                        beta1,
                        beta2,
                        tau,
                    },
                    false => StrategyChoice::Fedyogi {
                        rate,
                        beta1,
                        beta2,
                        tau,
                    },
                };
                (choice, &["rate", "beta1", "beta2", "tau"])
            }
            "scaffold" => (
                StrategyChoice::Scaffold {
                    rate: self.rate.unwrap_or(1.0),
                },
                &["rate"],
            ),
            "fednova" => (StrategyChoice::Fednova, &[]),
            "q-fedavg" => (
                StrategyChoice::QFedavg {
                    q: self.q.unwrap_or(0.2),
                },
                &["q"],
            ),
            "fedbuff" => {
                let (buffer, rate) = (self.buffer.unwrap_or(10), self.rate.unwrap_or(1.0));
                let staleness = self.staleness.unwrap_or(20);
                (
                    StrategyChoice::Fedbuff {
                        buffer,
                        rate,
                        staleness,
                    },
                    &["buffer", "rate", "staleness"],
                )
            }
            "fedasync" => {
                let (mixing, power) = (self.mixing.unwrap_or(0.6), self.power.unwrap_or(0.5));
                let staleness = self.staleness.unwrap_or(20);
                (
                    StrategyChoice::Fedasync {
                        mixing,
                        power,
                        staleness,
                    },
                    &["mixing", "power", "staleness"],
                )
            }
            "median" => (StrategyChoice::Median, &[]),
            "trimmed-mean" => (
                StrategyChoice::TrimmedMean {
                    cut: self.cut.unwrap_or(0.2),
                },
                &["cut"],
            ),
            "krum" => (StrategyChoice::Krum { malicious }, &["malicious"]),
            "multi-krum" => {
                let keep = self.keep.unwrap_or(5);
                (
                    StrategyChoice::MultiKrum { malicious, keep },
                    &["malicious", "keep"],
                )
            }
            "bulyan" => (StrategyChoice::Bulyan { malicious }, &["malicious"]),
            "geometric-median" => (
                StrategyChoice::GeometricMedian {
                    steps: self.steps.unwrap_or(32),
                },
                &["steps"],
            ),
            "norm-clipping" => (
                StrategyChoice::NormClipping {
                    norm: self.norm.unwrap_or(1.0),
                },
                &["norm"],
            ),
            "fltrust" => (StrategyChoice::Fltrust, &[]),
            other => {
                return Err(format!(
                    "unknown strategy {other:?}; there are {}",
                    KINDS.join(", ")
                ));
            }
        };
        match self.given().into_iter().find(|name| !takes.contains(name)) {
            None => Ok(choice),
            Some(name) if takes.is_empty() => {
                Err(format!("{} has no setting {name:?}, nor any other", self.kind))
            }
            Some(name) => Err(format!(
                "{} has no setting {name:?}; it takes {}",
                self.kind,
                takes.join(", ")
            )),
        }
    }
}

const KINDS: [&str; 20] = [
    "fedavg",
    "fedsgd",
    "fedprox",
    "fedavgm",
    "fedadagrad",
    "fedadam",
    "fedyogi",
    "scaffold",
    "fednova",
    "q-fedavg",
    "fedbuff",
    "fedasync",
    "median",
    "trimmed-mean",
    "krum",
    "multi-krum",
    "bulyan",
    "geometric-median",
    "norm-clipping",
    "fltrust",
];

impl StrategyChoice {
    /// The strategy, for clients that learn at `rate`.
    pub fn build(&self, client_rate: f64) -> Result<Box<dyn Strategy>> {
        let positive = |name: &str, value: f64| {
            setting(value > 0.0 && value.is_finite(), || {
                format!("`{name}` must be above 0, not {value}")
            })
        };
        let adaptive = |kind, rate, beta1: f64, beta2: f64, tau| {
            positive("rate", rate)?;
            positive("tau", tau)?;
            for (name, beta) in [("beta1", beta1), ("beta2", beta2)] {
                setting((0.0..1.0).contains(&beta), || {
                    format!("`{name}` must be in 0..1, not {beta}")
                })?;
            }
            Ok::<_, crate::Error>(Box::new(AdaptiveStep {
                kind,
                rate,
                beta1,
                beta2,
                tau,
            }) as Box<dyn Strategy>)
        };
        Ok(match *self {
            StrategyChoice::Fedavg => Box::new(Plain),
            StrategyChoice::Fedsgd => Box::new(SingleStep),
            StrategyChoice::Fedprox { mu } => {
                setting(mu >= 0.0 && mu.is_finite(), || {
                    format!("`mu` must not be below 0, as {mu} is")
                })?;
                Box::new(Proximal { mu })
            }
            StrategyChoice::Fedavgm { rate, momentum } => {
                positive("rate", rate)?;
                setting((0.0..1.0).contains(&momentum), || {
                    format!("`momentum` must be in 0..1, not {momentum}")
                })?;
                Box::new(Momentum { rate, momentum })
            }
            StrategyChoice::Fedadagrad { rate, tau } => {
                adaptive(MeanOfSquares::Adagrad, rate, 0.0, 0.0, tau)?
            }
            StrategyChoice::Fedadam {
                rate,
                beta1,
                beta2,
                tau,
            } => adaptive(MeanOfSquares::Adam, rate, beta1, beta2, tau)?,
            StrategyChoice::Fedyogi {
                rate,
                beta1,
                beta2,
                tau,
            } => adaptive(MeanOfSquares::Yogi, rate, beta1, beta2, tau)?,
            StrategyChoice::Scaffold { rate } => {
                positive("rate", rate)?;
                Box::new(Scaffold { rate })
            }
            StrategyChoice::Fednova => Box::new(Nova),
            StrategyChoice::QFedavg { q } => {
                setting(q >= 0.0 && q.is_finite(), || {
                    format!("`q` must not be below 0, as {q} is")
                })?;
                positive("the clients' rate", client_rate)?;
                Box::new(Fair { q, rate: client_rate })
            }
            StrategyChoice::Fedbuff {
                buffer,
                rate,
                staleness,
            } => {
                positive("rate", rate)?;
                setting(buffer > 0, || "`buffer` must be 1 or more".into())?;
                Box::new(Buffered {
                    buffer,
                    rate,
                    staleness,
                })
            }
            StrategyChoice::Fedasync {
                mixing,
                power,
                staleness,
            } => {
                setting(mixing > 0.0 && mixing <= 1.0, || {
                    format!("`mixing` must be above 0 and at most 1, not {mixing}")
                })?;
                setting(power >= 0.0, || {
                    format!("`power` must not be below 0, as {power} is")
                })?;
                Box::new(Mixed {
                    mixing,
                    power,
                    staleness,
                })
            }
            StrategyChoice::Median => Box::new(Median),
            StrategyChoice::TrimmedMean { cut } => {
                setting((0.0..0.5).contains(&cut), || {
                    format!("`cut` must be in 0..0.5, not {cut}")
                })?;
                Box::new(TrimmedMean { cut })
            }
            StrategyChoice::Krum { malicious } => Box::new(Krum { malicious, keep: 1 }),
            StrategyChoice::MultiKrum { malicious, keep } => {
                setting(keep > 0, || "`keep` must be 1 or more".into())?;
                Box::new(Krum { malicious, keep })
            }
            StrategyChoice::Bulyan { malicious } => Box::new(Bulyan { malicious }),
            StrategyChoice::GeometricMedian { steps } => Box::new(GeometricMedian {
                steps,
                smallest: 1e-6,
            }),
            StrategyChoice::NormClipping { norm } => {
                positive("norm", norm)?;
                Box::new(Clipped { norm })
            }
            StrategyChoice::Fltrust => Box::new(Trust),
        })
    }
}
