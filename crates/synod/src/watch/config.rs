//! The file that describes what to watch and how.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;
use synod_detect::features::Scaling;
use synod_detect::{AlarmBudget, Recipe};
use synod_evaluate::Split;
use synod_telemetry::sources::m100;
use toml::Spanned;

use super::federation::FederationConfig;
use crate::train::{Misuse, read_text};

/// What to watch, with what, at what cost.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) name: Option<String>,
    #[serde(default = "one")]
    pub(crate) seed: u64,
    pub(crate) data: Spanned<DataConfig>,
    pub(crate) split: Option<Split>,
    #[serde(default)]
    pub(crate) detector: DetectorConfig,
    #[serde(default)]
    pub(crate) alarm: AlarmConfig,
    pub(crate) federation: Option<Spanned<FederationConfig>>,
}

/// Where windows come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataConfig {
    pub(crate) kind: Kind,
    /// Files of training and of test windows, by patterns with `*`.
    pub(crate) train: Option<String>,
    pub(crate) test: Option<String>,
    /// Files that are split.
    pub(crate) path: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) time: Option<String>,
    #[serde(default)]
    pub(crate) include: Vec<String>,
    #[serde(default)]
    pub(crate) exclude: Vec<String>,
    /// The distance between rows, such as "1m" or "15m", if there is no time column.
    #[serde(default, deserialize_with = "duration")]
    pub(crate) step: Option<i64>,
    /// Of a synthetic cluster: its size, and how it behaves.
    pub(crate) nodes: Option<usize>,
    pub(crate) days: Option<usize>,
    pub(crate) anomalies: Option<f64>,
    pub(crate) drift: Option<f64>,
    pub(crate) heterogeneity: Option<f64>,
    /// Of a synthetic cluster: whether test windows are judged by the faults themselves or by what operators noted.
    #[serde(default)]
    pub(crate) truth: Judged,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Judged {
    #[default]
    Exact,
    Operator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Parquet,
    Csv,
    /// Record files, which say their nodes, times and labels themselves.
    Record,
    /// M100's windows by node: times in `timestamp` and labels in `value` unless said otherwise.
    M100,
    /// A cluster that is generated, with faults whose truth is known.
    Synthetic,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DetectorConfig {
    pub(crate) kind: Option<Spanned<String>>,
    /// The share of training windows, the most unusual, that a second fit leaves out.
    pub(crate) refine: Option<f64>,
    /// Passes over the training windows, of networks.
    pub(crate) epochs: Option<usize>,
    /// How far back the rolling median looks that is taken from every metric, such as "1d".
    #[serde(default, deserialize_with = "duration")]
    pub(crate) detrend: Option<i64>,
    /// How metrics are brought to a common scale, if not as the detector has it.
    pub(crate) scaling: Option<Scaling>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlarmConfig {
    pub(crate) budget: Option<Spanned<String>>,
    pub(crate) percentile: Option<Spanned<f64>>,
}

/// What is wrong, and where in the text.
type Mistake = (std::ops::Range<usize>, String);

impl Config {
    /// Reads and checks a file. A mistake in it is shown with its line.
    pub(crate) fn read(path: &Path) -> Result<(Config, String)> {
        let text = read_text(path)?;
        let config = Config::parse(&text).map_err(|e| Misuse(format!("{}: {e}", path.display())))?;
        Ok((config, text))
    }

    pub(crate) fn parse(text: &str) -> Result<Config, String> {
        let mut config: Config = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        let at = line(text, config.data.span());
        let usual = config
            .data
            .get_mut()
            .fill_in()
            .map_err(|e| format!("line {at}: {e}"));
        usual?;
        let data = config.data.get_ref();
        let synthetic = data.kind == Kind::Synthetic;
        let sized = data.nodes.or(data.days).is_some()
            || data.anomalies.or(data.drift).or(data.heterogeneity).is_some();
        let problem = match (&data.train, &data.test, &data.path) {
            (None, None, None) if synthetic => None,
            _ if synthetic => {
                Some("a synthetic cluster is generated, not read; remove `train`, `test` and `path`")
            }
            _ if sized => Some(
                "`nodes`, `days`, `anomalies`, `drift` and `heterogeneity` are for data of kind \"synthetic\"",
            ),
            (Some(_), Some(_), None) if config.split.is_some() => {
                Some("`train` and `test` are split already; remove [split], or give `path` instead")
            }
            (Some(_), Some(_), None) | (None, None, Some(_)) => None,
            (_, _, Some(_)) => Some("give either `path`, which is split, or both `train` and `test`"),
            _ => Some("give `train` and `test`, or `path` with [split]"),
        };
        if let Some(problem) = problem {
            return Err(format!("line {}: {problem}", line(text, config.data.span())));
        }
        let recipe = config.recipe().map_err(|problem| {
            let at = config.detector.kind.as_ref().map_or(0..0, Spanned::span);
            format!("line {}: {problem}", line(text, at))
        })?;
        config
            .alarm()
            .map_err(|(at, problem)| format!("line {}: {problem}", line(text, at)))?;
        if let Some(federation) = &config.federation
            && let Some(problem) = federation.get_ref().problem(&recipe)
        {
            return Err(format!("line {}: {problem}", line(text, federation.span())));
        }
        Ok(config)
    }

    /// What detects.
    pub(crate) fn recipe(&self) -> Result<Recipe, String> {
        let kind = self
            .detector
            .kind
            .as_ref()
            .map_or("default", |k| k.get_ref().as_str());
        let mut recipe = Recipe::named(kind, self.seed).map_err(|e| e.to_string())?;
        if let Some(share) = self.detector.refine {
            if !(0.0..0.5).contains(&share) {
                return Err(format!("`refine` is a share from 0 to 0.5, not {share}"));
            }
            recipe.refine = share;
        }
        if let Some(epochs) = self.detector.epochs {
            recipe.set_epochs(epochs);
        }
        recipe.features.detrend = self.detector.detrend;
        if let Some(scaling) = self.detector.scaling {
            recipe.features.scaling = scaling;
        }
        Ok(recipe)
    }

    /// The name of the detector.
    pub(crate) fn detector(&self) -> &str {
        self.detector
            .kind
            .as_ref()
            .map_or("default", |k| k.get_ref().as_str())
    }

    /// What alarms may cost.
    pub(crate) fn alarm(&self) -> Result<AlarmBudget, Mistake> {
        match (&self.alarm.budget, &self.alarm.percentile) {
            (None, None) => Ok(AlarmBudget::default()),
            (Some(budget), None) => parsed(budget),
            (None, Some(p)) if *p.get_ref() > 0.0 && *p.get_ref() < 100.0 => {
                Ok(AlarmBudget::Percentile(*p.get_ref()))
            }
            (None, Some(p)) => Err((
                p.span(),
                format!("`percentile` lies between 0 and 100, not at {}", p.get_ref()),
            )),
            (Some(_), Some(p)) => Err((p.span(), "give `budget` or `percentile`, not both".to_owned())),
        }
    }

    /// The name of the run: the one given, or the file's.
    pub(crate) fn run_name(&self, path: &Path) -> Result<String> {
        let stem = || path.file_stem().map(|s| s.to_string_lossy().into_owned());
        let name = self.name.clone().or_else(stem).unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            return Err(Misuse(format!(
                "{}: {name:?} cannot be the name of a run, which becomes a folder; use letters, digits, - and _",
                path.display()
            ))
            .into());
        }
        Ok(name)
    }
}

/// A setting that is written as a person says it.
fn parsed<T: std::str::FromStr<Err = synod_detect::Error>>(text: &Spanned<String>) -> Result<T, Mistake> {
    text.get_ref()
        .parse()
        .map_err(|e: T::Err| (text.span(), e.to_string()))
}

impl DataConfig {
    /// Sets what the kind decides, and refuses what it decides otherwise.
    fn fill_in(&mut self) -> Result<(), &'static str> {
        match self.kind {
            Kind::Record => {
                if self.label.is_some() || self.time.is_some() || self.step.is_some() {
                    return Err(
                        "a record file says its times, step and labels itself; remove `time`, `step` and `label`",
                    );
                }
                self.label = Some("label".to_owned());
            }
            Kind::M100 => {
                let usual = m100::aggregated();
                self.time = self.time.take().or(usual.time);
                self.label = self.label.take().or(usual.label);
            }
            Kind::Parquet | Kind::Csv | Kind::Synthetic => {}
        }
        Ok(())
    }
}

fn line(text: &str, at: std::ops::Range<usize>) -> usize {
    text.get(..at.start).unwrap_or(text).matches('\n').count() + 1
}

fn one() -> u64 {
    1
}

fn duration<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<i64>, D::Error> {
    let text = String::deserialize(source)?;
    let wrong = || {
        serde::de::Error::custom(format!(
            "{text:?} is no duration; write it as \"30s\", \"15m\", \"1h\" or \"1d\""
        ))
    };
    seconds(&text).map(Some).ok_or_else(wrong)
}

/// The seconds of a duration such as `30s`, `15m`, `1h` or `7d`; none if it is none or no time at all.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let unit = text.char_indices().last()?;
    let seconds = match unit.1 {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let count: i64 = text[..unit.0].trim().parse().ok()?;
    count.checked_mul(seconds).filter(|s| *s > 0)
}

/// A pattern relative to the configuration file or, if nothing is there, to the current folder.
pub(crate) fn beside(config: &Path, pattern: &str) -> PathBuf {
    let base = config.parent().unwrap_or(Path::new(""));
    let beside = base.join(pattern);
    match synod_telemetry::load_glob(&beside.to_string_lossy()) {
        Ok(_) => beside,
        Err(_) => PathBuf::from(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = "[data]\nkind = \"synthetic\"\n";

    fn budget(alarm: &str) -> Result<String, String> {
        let config = Config::parse(&format!("{DATA}[alarm]\n{alarm}"))?;
        let budget = config.alarm().map_err(|(_, problem)| problem)?;
        Ok(budget.to_string())
    }

    #[test]
    fn budgets_are_read_and_there_is_a_default() {
        for (alarm, meant) in [
            ("", "2 per node-month"),
            ("budget = \"1 per node-month\"", "1 per node-month"),
            ("percentile = 98", "percentile 98"),
        ] {
            assert_eq!(budget(alarm).as_deref(), Ok(meant), "{alarm}");
        }
    }

    #[test]
    fn a_mistake_in_an_alarm_is_shown_with_its_line() {
        for (alarm, line, problem) in [
            ("percentile = 100", "line 4", "between 0 and 100"),
            (
                "percentile = 98\nbudget = \"2 per node-month\"",
                "line 4",
                "not both",
            ),
            ("\nbudget = \"5 of 4\"", "line 5", "2 per node-month"),
            ("rule = \"tail\"", "line 4", "rule"),
        ] {
            let error = budget(alarm).expect_err(alarm);
            assert!(
                error.contains(line) && error.contains(problem),
                "{alarm}: {error}"
            );
        }
    }

    #[test]
    fn a_federation_is_read_and_its_mistakes_are_shown_with_their_line() {
        let read = |text: &str| Config::parse(&format!("{DATA}[federation]\n{text}\n"));
        let federation = read("").expect("all by default").federation.expect("a table");
        assert_eq!(federation.get_ref().reduce, [1]);
        assert_eq!(federation.get_ref().arms, None);
        assert!(read("arms = [\"federated\"]\nreduce = [1, 16]\ncold_start_days = 1").is_ok());
        for (text, problem) in [
            ("arms = []", "at most once"),
            ("arms = [\"local\", \"local\"]", "at most once"),
            ("arms = [\"alone\"]", "alone"),
            ("reduce = [0]", "from 1 to 1000"),
            ("reduce = []", "write [1]"),
            ("cold_start_days = 0", "above 0"),
            ("rounds = 5", "for networks"),
            ("strategy = \"fedavg\"", "for networks"),
            ("round = 5", "round"),
            ("rounds = 0\n[detector]\nkind = \"paper\"", "from 1 to"),
            ("cold_start_days = 1\n[detector]\nkind = \"paper\"", "from sums"),
        ] {
            let error = read(text).expect_err(text);
            assert!(
                error.contains(problem) && error.contains("line"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn features_are_set_in_the_detector() {
        let text = format!("{DATA}[detector]\ndetrend = \"1d\"\nscaling = \"robust\"\n");
        let features = Config::parse(&text)
            .and_then(|c| c.recipe())
            .expect("a recipe")
            .features;
        assert_eq!(
            (features.detrend, features.scaling),
            (Some(86_400), Scaling::Robust)
        );
        let usual = Config::parse(DATA).and_then(|c| c.recipe()).expect("a recipe");
        assert_eq!(usual, Recipe::standard(1));
        for bad in [
            "detrend = \"0d\"",
            "detrend = \"a day\"",
            "scaling = \"loud\"",
            "detrend = 5",
        ] {
            let error = Config::parse(&format!("{DATA}[detector]\n{bad}\n")).expect_err(bad);
            assert!(error.contains("line 4"), "{bad}: {error}");
        }
    }
}
