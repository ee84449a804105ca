//! What a configuration says of what to watch, section by section.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;
use synod_core::config::Mistake;
use synod_detect::config::DetectorChoice;
use synod_detect::{AlarmBudget, Recipe};
use synod_evaluate::Split;
use synod_fleet::WaysOfLearning;
use synod_runs::{Document, RunKind};
use synod_synthetic::{ClusterChoice, JudgedBy};
use synod_telemetry::config::{FileChoice, FilePatterns};
use synod_telemetry::sources::Table;

/// The sections of what to watch.
const SECTIONS: [&str; 5] = ["data", "split", "detector", "alarm", "federation"];

/// What to watch, with what, at what cost.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) seed: u64,
    pub(crate) data: Data,
    pub(crate) split: Split,
    /// The name of the detector.
    pub(crate) detector: String,
    pub(crate) recipe: Recipe,
    pub(crate) alarm: AlarmBudget,
    pub(crate) federation: Option<WaysOfLearning>,
}

/// Where windows come from.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Files(FileChoice),
    Synthetic(ClusterChoice),
}

/// What `kind` says in `[data]`, whoever reads the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DataKind {
    Parquet,
    Csv,
    Record,
    M100,
    Synthetic,
}

impl Config {
    /// Reads and checks all sections.
    pub(crate) fn of(document: &Document) -> Result<Config> {
        document.expect(RunKind::Watch, "watching")?;
        document.allow(&SECTIONS)?;
        let seed = document.seed()?;
        let data = match document.get("data.kind")? {
            Some(DataKind::Synthetic) => Data::Synthetic(document.section()?),
            _ => Data::Files(document.section()?),
        };
        let split: Option<Split> = document.optional()?;
        if let (Data::Files(files), Some(_)) = (&data, split)
            && matches!(files.files, FilePatterns::Divided { .. })
        {
            let problem = "`train` and `test` are split already; remove [split], or give `path` instead";
            return Err(document.refuse(&Mistake::at("split", problem)).into());
        }
        let detector: DetectorChoice = document.or_empty()?;
        let recipe = detector.recipe(seed)?;
        let federation: Option<WaysOfLearning> = document.optional()?;
        if let Some(Err(mistake)) = federation.as_ref().map(|ways| ways.check_for(&recipe)) {
            return Err(document.refuse(&mistake).into());
        }
        Ok(Config {
            seed,
            data,
            split: split.unwrap_or_default(),
            detector: detector.kind,
            recipe,
            alarm: document.or_empty()?,
            federation,
        })
    }

    /// How files of nodes are read; as they are found, if windows come from no files.
    pub(crate) fn table(&self) -> Table {
        match &self.data {
            Data::Files(files) => files.table.clone(),
            Data::Synthetic(_) => Table::default(),
        }
    }

    /// By what test windows are judged, as tables say it.
    pub(crate) fn label_rule(&self) -> String {
        match &self.data {
            Data::Synthetic(cluster) => match cluster.truth {
                JudgedBy::Exact => "the injected faults themselves".to_owned(),
                JudgedBy::Operator => "what operators noted: late, sometimes false".to_owned(),
            },
            Data::Files(files) => match &files.table.label {
                Some(label) => format!("{label} > 0"),
                None => "none".to_owned(),
            },
        }
    }
}

/// A pattern relative to the configuration file or, if nothing is there, to the current folder.
pub(crate) fn beside(base: &Path, pattern: &str) -> PathBuf {
    let beside = base.join(pattern);
    match synod_telemetry::load_glob(&beside.to_string_lossy()) {
        Ok(_) => beside,
        Err(_) => PathBuf::from(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = "kind = \"watch\"\n[data]\nkind = \"synthetic\"\n";

    fn parse(more: &str) -> Result<Config, String> {
        let document = Document::of(format!("{DATA}{more}"), "x.toml");
        document
            .map_err(anyhow::Error::from)
            .and_then(|document| Config::of(&document))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn budgets_are_read_and_there_is_a_default() {
        for (alarm, meant) in [
            ("", "2 per node-month"),
            ("budget = \"1 per node-month\"", "1 per node-month"),
            ("percentile = 98", "percentile 98"),
        ] {
            let config = parse(&format!("[alarm]\n{alarm}")).expect(alarm);
            assert_eq!(config.alarm.to_string(), meant, "{alarm}");
        }
        assert_eq!(parse("").expect("short").alarm, AlarmBudget::default());
        assert_eq!(parse("").expect("short").recipe, Recipe::standard(1));
    }

    #[test]
    fn mistakes_are_shown_with_their_line() {
        for (text, line, problem) in [
            ("[alarm]\npercentile = 100", 5, "between 0 and 100"),
            (
                "[alarm]\npercentile = 98\nbudget = \"2 per node-month\"",
                5,
                "not both",
            ),
            ("[alarm]\n\nbudget = \"5 of 4\"", 6, "2 per node-month"),
            ("[alarm]\nrule = \"tail\"", 5, "rule"),
            ("[alarms]\n", 4, "did you mean [alarm]?"),
            ("[detector]\ndetrend = \"0d\"", 5, "longer than nothing"),
            ("[detector]\ndetrend = \"a day\"", 5, "a day"),
            ("[detector]\nscaling = \"robst\"", 5, "did you mean `robust`?"),
            ("[detector]\ndetrend = 5", 5, "such as \"30s\""),
            (
                "[detector]\nkind = \"oracle\"",
                5,
                "there is no detector \"oracle\"",
            ),
            (
                "[split]\nkind = \"random\"\ntrain = 1.5",
                6,
                "a training share of 1.5",
            ),
            ("path = \"n*.csv\"", 4, "unknown key `path`"),
            ("nods = 4", 4, "did you mean `nodes`?"),
            ("[federation]\narms = []", 5, "at most once"),
            ("[federation]\narms = [\"alone\"]", 5, "alone"),
            ("[federation]\ncold_start_days = 1", 5, "cold_start = \"1d\""),
            ("[federation]\ncold_start = \"0d\"", 5, "longer than nothing"),
            ("[federation]\ncold_start = 1", 5, "such as \"30s\""),
            ("[federation]\nrounds = 5", 5, "for networks"),
            ("[federation]\nround = 5", 5, "did you mean `rounds`?"),
            (
                "[federation]\nrounds = 0\n[detector]\nkind = \"paper\"",
                5,
                "from 1 to",
            ),
            (
                "[federation]\ncold_start = \"1d\"\n[detector]\nkind = \"paper\"",
                5,
                "from sums",
            ),
        ] {
            let error = parse(text).expect_err(text);
            let place = format!("x.toml:{line}: ");
            assert!(
                error.starts_with(&place) && error.contains(problem),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn files_that_are_divided_are_not_split() {
        let text = "kind = \"watch\"\n[data]\nkind = \"csv\"\ntrain = \"a\"\ntest = \"b\"\n[split]\nkind = \"random\"\ntrain = 0.5";
        let document = Document::of(text, "x.toml").expect("read");
        let said = Config::of(&document).expect_err("split already").to_string();
        assert!(
            said.starts_with("x.toml:6: ") && said.contains("remove [split]"),
            "{said}"
        );
    }
}
