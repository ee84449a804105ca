//! The file that describes an experiment.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Deserializer};
use synod_core::config::{Mistake, Section};
use synod_federate::FederationChoice;
use synod_nn::{ModelChoice, TrainingChoice};
use synod_runs::{Document, RunKind};

/// The sections of an experiment.
const SECTIONS: [&str; 5] = ["data", "augment", "model", "train", "federation"];

/// An experiment: what to train on what, and how.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Config {
    pub(super) seed: u64,
    pub(super) data: DataConfig,
    pub(super) augment: Option<AugmentConfig>,
    pub(super) model: ModelChoice,
    pub(super) train: TrainingChoice,
    /// Clients among whom the training rows are divided, to learn together.
    pub(super) federation: Option<FederationChoice>,
}

/// Where rows and labels come from, and what becomes of the numbers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DataConfig {
    pub(super) kind: Kind,
    pub(super) train: PathBuf,
    pub(super) train_labels: Option<PathBuf>,
    pub(super) test: Option<PathBuf>,
    pub(super) test_labels: Option<PathBuf>,
    /// The column that holds the class, in CSV and Parquet.
    pub(super) label: Option<String>,
    /// The columns to learn from; all that hold numbers unless given.
    pub(super) columns: Option<Vec<String>>,
    /// The share of the training rows to set aside and judge by.
    #[serde(default, deserialize_with = "below_one")]
    pub(super) validation: f32,
    #[serde(default, deserialize_with = "some_positive")]
    pub(super) divide_by: Option<f32>,
    /// Characters of a text that are read in a row.
    pub(super) length: Option<NonZeroUsize>,
    pub(super) standardise: Option<Standardise>,
    /// How many principal components take the place of the columns, once these are at scale.
    pub(super) components: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Idx,
    Npy,
    Csv,
    Parquet,
    /// Texts by speaker, of which each character is foretold from those before it.
    Speakers,
}

/// What becomes zero and what becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Standardise {
    /// Mean and deviation, of each column by itself.
    Columns,
    /// Mean and deviation of all numbers together, as is usual for images.
    All,
    /// The least and the largest value of each column.
    Range,
    /// The median and the distance of the quartiles of each column, which outliers hardly move.
    Robust,
}

/// Random changes of training images.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AugmentConfig {
    /// The most pixels to move an image by.
    pub(super) crop: Option<NonZeroUsize>,
    /// The side of a square to blank.
    pub(super) cutout: Option<NonZeroUsize>,
    /// How probable it is that left becomes right.
    pub(super) flip_horizontal: Option<f32>,
    /// How probable it is that top becomes bottom.
    pub(super) flip_vertical: Option<f32>,
}

impl Config {
    /// Reads and checks all sections.
    pub(super) fn of(document: &Document) -> Result<Config> {
        document.expect(RunKind::Train, "training")?;
        document.allow(&SECTIONS)?;
        let config = Config {
            seed: document.seed()?,
            data: document.section()?,
            augment: document.optional()?,
            model: document.section()?,
            train: document.section()?,
            federation: document.optional()?,
        };
        match config.mistake() {
            Some((key, problem)) => Err(document.refuse(&Mistake::at(key, problem)).into()),
            None => Ok(config),
        }
    }

    /// What sections that are right by themselves are not together.
    fn mistake(&self) -> Option<(&'static str, &'static str)> {
        let stops = self.train.early_stopping.is_some();
        Some(match &self.federation {
            Some(_) if stops => (
                "train.early_stopping",
                "a federation does not take `early_stopping`; leave it out",
            ),
            Some(_) if self.augment.is_some() => {
                ("augment", "a federation does not take [augment]; leave it out")
            }
            None if self.data.kind == Kind::Speakers => (
                "data.kind",
                "texts by speaker are for a [federation], in which each speaker is a client",
            ),
            None if stops && self.data.validation == 0.0 => (
                "train.early_stopping",
                "`early_stopping` needs rows to judge by; set `validation` in [data], such as 0.1",
            ),
            _ if self.data.components.is_some() && self.augment.is_some() => (
                "data.components",
                "`components` take the place of images, which [augment] changes; leave one of them out",
            ),
            _ => return None,
        })
    }
}

impl Section for AugmentConfig {
    const NAME: &'static str = "augment";
    type Written = AugmentConfig;

    fn check(augment: AugmentConfig) -> Result<AugmentConfig, Mistake> {
        Ok(augment)
    }
}

impl Section for DataConfig {
    const NAME: &'static str = "data";
    type Written = DataConfig;

    fn check(data: DataConfig) -> Result<DataConfig, Mistake> {
        match data.problem() {
            Some(problem) => Err(Mistake::here(problem)),
            None => Ok(data),
        }
    }
}

impl DataConfig {
    fn problem(&self) -> Option<String> {
        if self.kind == Kind::Speakers {
            let others = [
                self.train_labels.is_some(),
                self.test.is_some(),
                self.label.is_some(),
                self.columns.is_some(),
            ];
            let scaled = self.divide_by.is_some()
                || self.standardise.is_some()
                || self.components.is_some()
                || self.validation > 0.0;
            let problem =
                "data of kind \"speakers\" take `train`, the file with the texts, and `length` only";
            return (scaled || others.contains(&true)).then(|| problem.to_owned());
        }
        if self.length.is_some() {
            return Some("`length` goes with data of kind \"speakers\"".to_owned());
        }
        let separate = matches!(self.kind, Kind::Idx | Kind::Npy);
        let kind = format!("{:?}", self.kind).to_lowercase();
        Some(match separate {
            true if self.train_labels.is_none() => {
                format!("data of kind \"{kind}\" need `train_labels`, the file of labels")
            }
            true if self.test.is_some() != self.test_labels.is_some() => {
                "`test` and `test_labels` belong together".to_owned()
            }
            true if self.label.is_some() || self.columns.is_some() => {
                format!("`label` and `columns` are for CSV and Parquet, not for \"{kind}\"")
            }
            false if self.label.is_none() => {
                format!("data of kind \"{kind}\" need `label`, the name of the column of classes")
            }
            false if self.train_labels.is_some() || self.test_labels.is_some() => format!(
                "labels in files of their own are for idx and npy; for \"{kind}\" name the column with `label`"
            ),
            _ if self.test.is_none() && self.validation == 0.0 => {
                "there are no rows to judge by; give `test`, or set `validation`, such as 0.1".to_owned()
            }
            _ if self.divide_by.is_some() && self.standardise.is_some() => {
                "`divide_by` makes no difference when numbers are standardised; use one of them".to_owned()
            }
            _ => return None,
        })
    }
}

fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
    let value = f64::deserialize(from)? as f32;
    match value > 0.0 && value.is_finite() {
        true => Ok(value),
        false => Err(serde::de::Error::custom(format!(
            "{value} should be a positive number"
        ))),
    }
}

fn some_positive<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f32>, D::Error> {
    positive(from).map(Some)
}

fn below_one<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
    let value = f64::deserialize(from)? as f32;
    match (0.0..1.0).contains(&value) {
        true => Ok(value),
        false => Err(serde::de::Error::custom(format!(
            "{value} should be a share of the rows, at least 0 and below 1"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_nn::Optimizer;

    const GOOD: &str = r#"
kind = "train"
[data]
kind = "csv"
train = "a.csv"
label = "class"
validation = 0.25

[model]
hidden = [8]

[train]
epochs = 3
batch = 10
rate = 1e-3
early_stopping = 2
schedule = { step = { every = 2, factor = 0.5 } }
"#;

    fn parse(text: &str) -> Result<Config> {
        Config::of(&Document::of(text, "x.toml")?)
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        parse(&GOOD.replacen(from, to, 1))
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn a_short_file_is_enough() {
        let config = parse(GOOD).expect("a configuration");
        assert_eq!((config.seed, config.train.checkpoint.get()), (1, 1));
        let optimizer = config.train.optimizer(7);
        assert_eq!(optimizer.rule, Optimizer::adam(1.0).rule);
        assert_eq!(optimizer.schedule.factor(2.0), 0.5);
    }

    #[test]
    fn mistakes_are_shown_with_their_line() {
        for (from, to, line, said) in [
            (
                "rate",
                "rates",
                15,
                "unknown key `rates` in [train]; did you mean `rate`?",
            ),
            ("batch = 10", "batch = 0", 14, "nonzero"),
            ("rate = 1e-3", "rate = -1", 15, "-1 should be a positive number"),
            ("factor", "factr", 17, "did you mean `factor`?"),
            ("\"csv\"", "\"cvs\"", 4, "`cvs` is not known here"),
            ("0.25", "1.5", 7, "a share of the rows"),
            (
                "validation = 0.25",
                "test = \"b.csv\"",
                16,
                "`early_stopping` needs rows",
            ),
            ("validation = 0.25", "", 3, "no rows to judge by"),
            ("label = \"class\"", "", 3, "need `label`"),
            ("\"csv\"", "\"idx\"", 3, "need `train_labels`"),
            ("hidden = [8]", "", 9, "one of `zoo`, `file` and `hidden`"),
            ("hidden = [8]", "hidden = [8]\nzoo = \"mlp-2nn\"", 9, "one of"),
            (
                "[model]",
                "[modl]",
                9,
                "unknown section [modl]; did you mean [model]?",
            ),
            ("\"train\"", "\"watch\"", 2, "training reads kind = \"train\""),
        ] {
            let error = refused(from, to);
            assert!(error.contains(said), "{error}");
            assert!(
                error.starts_with(&format!("x.toml:{line}: ")),
                "{from} -> {to}: {error}"
            );
        }
        let more = "\n[federation]\nclients = 2\nrounds = 3\n[augment]\ncrop = 1\n";
        let error = parse(&(GOOD.replace("early_stopping = 2\n", "") + more)).expect_err("refused");
        let said = error.to_string();
        assert!(
            said.starts_with("x.toml:21: a federation does not take [augment]"),
            "{said}"
        );
    }
}
