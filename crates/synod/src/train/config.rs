//! The file that describes an experiment.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Deserializer};
use synod_nn::{Optimizer, Schedule as NnSchedule};
use toml::Spanned;

use super::Misuse;
use super::federated::FederationConfig;

/// A file larger than this is no configuration.
const LARGEST: u64 = 1 << 20;

/// An experiment: what to train on what, and how.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    #[serde(default, deserialize_with = "run_name")]
    pub(super) name: Option<String>,
    #[serde(default = "one")]
    pub(super) seed: u64,
    pub(super) data: Spanned<DataConfig>,
    pub(super) augment: Option<AugmentConfig>,
    pub(super) model: Spanned<ModelConfig>,
    pub(super) train: TrainConfig,
    /// Clients among whom the training rows are divided, to learn together.
    pub(super) federation: Option<Spanned<FederationConfig>>,
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
    pub(super) components: Option<Spanned<NonZeroUsize>>,
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

/// One of three ways to name a model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelConfig {
    pub(super) zoo: Option<String>,
    pub(super) file: Option<PathBuf>,
    /// Widths of a perceptron's hidden layers; its inputs and classes come from the data.
    pub(super) hidden: Option<Vec<NonZeroUsize>>,
    /// Classes of that perceptron, if the training labels do not show all.
    pub(super) classes: Option<NonZeroUsize>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrainConfig {
    pub(super) epochs: NonZeroUsize,
    pub(super) batch: NonZeroUsize,
    #[serde(default)]
    pub(super) optimizer: Rule,
    #[serde(deserialize_with = "positive")]
    pub(super) rate: f32,
    #[serde(default)]
    pub(super) schedule: Schedule,
    /// Stop after so many epochs without a better validation loss.
    pub(super) early_stopping: Option<NonZeroUsize>,
    /// Epochs between checkpoints.
    #[serde(default = "at_least_one")]
    pub(super) checkpoint: NonZeroUsize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Rule {
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
pub(super) enum Schedule {
    #[default]
    Constant,
    /// Half a wave over all epochs, down to nothing.
    Cosine,
    Step {
        every: NonZeroUsize,
        #[serde(deserialize_with = "positive")]
        factor: f32,
    },
    Exponential {
        #[serde(deserialize_with = "positive")]
        factor: f32,
    },
    Warmup {
        epochs: NonZeroUsize,
    },
}

impl Config {
    /// Reads and checks a file. A mistake in it is shown with its line.
    pub(super) fn read(path: &Path) -> Result<(Config, String)> {
        let text = read_text(path)?;
        let config = Config::parse(&text).map_err(|e| Misuse(format!("{}: {e}", path.display())))?;
        Ok((config, text))
    }

    pub(super) fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        let data = config.data.get_ref();
        if let Some(problem) = data.problem() {
            return Err(format!("{}: {problem}", place(text, &config.data)));
        }
        if let Some(problem) = config.model.get_ref().problem() {
            return Err(format!("{}: {problem}", place(text, &config.model)));
        }
        if config.train.early_stopping.is_some() && data.validation == 0.0 {
            let at = place(text, &config.data);
            return Err(format!(
                "{at}: `early_stopping` needs rows to judge by; set `validation` in [data], such as 0.1"
            ));
        }
        if let (Some(components), Some(_)) = (&data.components, &config.augment) {
            let at = place(text, components);
            return Err(format!(
                "{at}: `components` take the place of images, which [augment] changes; leave one of them out"
            ));
        }
        if data.kind == Kind::Speakers && config.federation.is_none() {
            let at = place(text, &config.data);
            return Err(format!(
                "{at}: texts by speaker are for a [federation], in which each speaker is a client"
            ));
        }
        if let Some(federation) = &config.federation {
            let alone = [
                ("early_stopping", config.train.early_stopping.is_some()),
                ("[augment]", config.augment.is_some()),
            ];
            if let Some((name, _)) = alone.iter().find(|(_, given)| *given) {
                let at = place(text, federation);
                return Err(format!("{at}: a federation does not take `{name}`; leave it out"));
            }
        }
        Ok(config)
    }

    /// The name of the run: the one given, or the file's.
    pub(super) fn run_name(&self, path: &Path) -> Result<String> {
        let name = self.name.clone();
        let stem = || path.file_stem().map(|s| s.to_string_lossy().into_owned());
        let name = name.or_else(stem).unwrap_or_default();
        check_name(&name).map_err(|problem| {
            Misuse(format!("{}: {problem}; set `name` in the file", path.display())).into()
        })
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

impl ModelConfig {
    fn problem(&self) -> Option<String> {
        let given = [self.zoo.is_some(), self.file.is_some(), self.hidden.is_some()];
        if given.iter().filter(|g| **g).count() != 1 {
            return Some("a model is named by one of `zoo`, `file` and `hidden`".to_owned());
        }
        if self.classes.is_some() && self.hidden.is_none() {
            return Some("`classes` goes with `hidden`; other models know theirs".to_owned());
        }
        None
    }
}

impl TrainConfig {
    /// The optimiser with its schedule over so many epochs, or rounds.
    pub(super) fn optimizer(&self, length: usize) -> Optimizer {
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
            Schedule::Constant => NnSchedule::Constant,
            Schedule::Cosine => NnSchedule::Cosine {
                epochs: length,
                floor: 0.0,
            },
            Schedule::Step { every, factor } => NnSchedule::Step {
                every: every.get(),
                factor,
            },
            Schedule::Exponential { factor } => NnSchedule::Exponential { factor },
            Schedule::Warmup { epochs } => NnSchedule::Warmup { epochs: epochs.get() },
        })
    }
}

/// The text of a configuration file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let reading = || format!("cannot read the configuration {}", path.display());
    let length = std::fs::metadata(path).with_context(reading)?.len();
    if length > LARGEST {
        let problem = format!("{}: {length} bytes are no configuration", path.display());
        return Err(Misuse(problem).into());
    }
    std::fs::read_to_string(path).with_context(reading)
}

/// The line on which a value begins.
pub(super) fn place<T>(text: &str, value: &Spanned<T>) -> String {
    let before = text.get(..value.span().start).unwrap_or(text);
    format!("line {}", before.matches('\n').count() + 1)
}

fn one() -> u64 {
    1
}

fn at_least_one() -> NonZeroUsize {
    NonZeroUsize::MIN
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

fn run_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let name = check_name(&String::deserialize(from)?);
    name.map(Some).map_err(serde::de::Error::custom)
}

/// A name becomes a folder, so it must not lead elsewhere.
fn check_name(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    match !name.is_empty() && name.len() <= 100 && name.chars().all(plain) && !name.starts_with('.') {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "{name:?} cannot name a run; use letters, digits, `-`, `_` and `.`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
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

    fn refused(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        Config::parse(&GOOD.replacen(from, to, 1)).expect_err("refused")
    }

    #[test]
    fn a_short_file_is_enough() {
        let config = Config::parse(GOOD).expect("a configuration");
        assert_eq!((config.seed, config.train.checkpoint.get()), (1, 1));
        let optimizer = config.train.optimizer(7);
        assert_eq!(optimizer.rule, Optimizer::adam(1.0).rule);
        assert_eq!(optimizer.schedule.factor(2.0), 0.5);
        let name = config.run_name(Path::new("x/digits.toml")).expect("a name");
        assert_eq!(name, "digits");
    }

    #[test]
    fn mistakes_are_shown_with_their_line() {
        for (from, to, line, said) in [
            ("rate", "rates", 14, "unknown field `rates`"),
            ("batch = 10", "batch = 0", 13, "nonzero"),
            ("rate = 1e-3", "rate = -1", 14, "-1 should be a positive number"),
            ("factor", "factr", 16, "unexpected keys in table: factr"),
            ("\"csv\"", "\"cvs\"", 3, "unknown variant `cvs`"),
            ("0.25", "1.5", 6, "a share of the rows"),
            (
                "validation = 0.25",
                "test = \"b.csv\"",
                2,
                "`early_stopping` needs rows",
            ),
            ("validation = 0.25", "", 2, "no rows to judge by"),
            ("label = \"class\"", "", 2, "need `label`"),
            ("\"csv\"", "\"idx\"", 2, "need `train_labels`"),
            ("hidden = [8]", "", 8, "one of `zoo`, `file` and `hidden`"),
            ("hidden = [8]", "hidden = [8]\nzoo = \"mlp-2nn\"", 8, "one of"),
            ("\n[data]", "name = \"../x\"\n[data]", 1, "cannot name a run"),
        ] {
            let error = refused(from, to);
            assert!(error.contains(said), "{error}");
            assert!(error.contains(&format!("line {line}")), "{from} -> {to}: {error}");
        }
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_runs() {
        for bad in ["", "..", "a/b", ".hidden", "a\\b", "a b"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_name("mnist-cnn_2.1").is_ok());
    }
}
