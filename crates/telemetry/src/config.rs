//! The section `[data]` of a configuration, where nodes' windows come from files.

use serde::Deserialize;
use synod_core::config::{Mistake, Section};
use synod_core::time::Duration;

use crate::sources::{Table, m100};

/// FilePatterns of one node each, and how they are read.
#[derive(Clone, Debug, PartialEq)]
pub struct FileChoice {
    /// Their form.
    pub kind: FileKind,
    /// Which files.
    pub files: FilePatterns,
    /// How they are read.
    pub table: Table,
}

/// FilePatterns by patterns with `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePatterns {
    /// Of training and of test windows.
    Divided {
        /// Of training windows.
        train: String,
        /// Of test windows.
        test: String,
    },
    /// Of windows that are split.
    Whole(String),
}

/// The form of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// Parquet.
    Parquet,
    /// Comma-separated text.
    Csv,
    /// Record files, which say their nodes, times and labels themselves.
    Record,
    /// M100's windows by node: times in `timestamp` and labels in `value` unless said otherwise.
    M100,
}

/// `[data]` as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenFiles {
    kind: FileKind,
    train: Option<String>,
    test: Option<String>,
    path: Option<String>,
    label: Option<String>,
    time: Option<String>,
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    step: Option<Duration>,
}

impl Section for FileChoice {
    const NAME: &'static str = "data";
    type Written = WrittenFiles;

    fn check(mut written: WrittenFiles) -> Result<FileChoice, Mistake> {
        let files = files(&mut written)?;
        if let Some(step) = written.step.filter(|step| step.milliseconds() % 1000 != 0) {
            let problem = format!("`step` is a time of whole seconds, not {step}");
            return Err(Mistake::at("step", problem));
        }
        let mut table = Table {
            time: written.time,
            label: written.label,
            include: written.include,
            exclude: written.exclude,
            step: written.step.map(Duration::whole_seconds),
        };
        match written.kind {
            FileKind::Record => {
                let given = [
                    ("label", table.label.is_some()),
                    ("time", table.time.is_some()),
                    ("step", table.step.is_some()),
                ];
                if let Some((key, _)) = given.iter().find(|(_, given)| *given) {
                    let problem = "a record file says its times, step and labels itself; remove `time`, `step` and `label`";
                    return Err(Mistake::at(*key, problem));
                }
                table.label = Some("label".to_owned());
            }
            FileKind::M100 => {
                let usual = m100::aggregated();
                table.time = table.time.or(usual.time);
                table.label = table.label.or(usual.label);
            }
            FileKind::Parquet | FileKind::Csv => {}
        }
        Ok(FileChoice {
            kind: written.kind,
            files,
            table,
        })
    }
}

fn files(written: &mut WrittenFiles) -> Result<FilePatterns, Mistake> {
    match (written.train.take(), written.test.take(), written.path.take()) {
        (Some(train), Some(test), None) => Ok(FilePatterns::Divided { train, test }),
        (None, None, Some(whole)) => Ok(FilePatterns::Whole(whole)),
        (_, _, Some(_)) => Err(Mistake::at(
            "path",
            "give either `path`, which is split, or both `train` and `test`",
        )),
        _ => Err(Mistake::here("give `train` and `test`, or `path` with [split]")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(written: Value) -> Result<FileChoice, Mistake> {
        FileChoice::check(serde_json::from_value(written).expect("written so"))
    }

    #[test]
    fn a_kind_says_what_its_files_are_known_to_have() {
        let m100 = read(json!({ "kind": "m100", "path": "*.parquet" })).expect("files");
        assert_eq!(m100.table, m100::aggregated());
        let record = read(json!({ "kind": "record", "path": "*.rec" })).expect("files");
        assert_eq!(record.table.label.as_deref(), Some("label"));
        let csv = read(json!({ "kind": "csv", "train": "a", "test": "b", "step": "15m" })).expect("files");
        assert_eq!(csv.table.step, Some(900));
        assert!(matches!(csv.files, FilePatterns::Divided { .. }));
    }

    #[test]
    fn mistakes_are_told_with_their_key() {
        for (written, key) in [
            (json!({ "kind": "csv" }), ""),
            (json!({ "kind": "csv", "train": "a" }), ""),
            (json!({ "kind": "csv", "train": "a", "path": "b" }), "path"),
            (json!({ "kind": "record", "path": "b", "time": "t" }), "time"),
            (json!({ "kind": "csv", "path": "b", "step": "10ms" }), "step"),
        ] {
            assert_eq!(read(written).map_err(|m| m.key), Err(key.to_owned()));
        }
    }
}
