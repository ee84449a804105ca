//! Nodes' windows from files or from a synthetic cluster, one node at a time.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use synod_detect::{Error, History};
use synod_evaluate::{Split, SplitKind};
use synod_synthetic::{Cluster, ClusterOptions, JudgedBy};
use synod_telemetry::config::{FileChoice, FileKind, FilePatterns};
use synod_telemetry::sources::{Table, records};
use synod_telemetry::{Frame, Truth, load_glob};

use super::config::{Config, Data, beside};
use crate::train::Misuse;

/// The history a configuration describes, and how its windows are divided; with another kind of split if one is given. Patterns
/// of files are relative to `base`.
pub(crate) fn open(
    config: &Config,
    base: &Path,
    other: Option<SplitKind>,
) -> Result<(Box<dyn History>, String)> {
    let (seed, split) = (config.seed, config.split);
    let split = other.map_or(split, |kind| Split { kind, ..split });
    let cluster = match &config.data {
        Data::Files(choice) => {
            let files = NodeFiles::of(choice, base, split, seed)?;
            let split = files.split();
            return Ok((Box::new(files), split));
        }
        Data::Synthetic(cluster) => cluster,
    };
    let options = ClusterOptions {
        seed,
        ..cluster.options.clone()
    };
    let history = Synthetic {
        cluster: Cluster::new(options).map_err(|e| Misuse(e.to_string()))?,
        split,
        seed,
        judged: cluster.truth,
    };
    Ok((Box::new(history), split.describe()))
}

/// A cluster that is generated node by node as it is needed.
struct Synthetic {
    cluster: Cluster,
    split: Split,
    seed: u64,
    judged: JudgedBy,
}

impl History for Synthetic {
    fn nodes(&self) -> usize {
        self.cluster.options().nodes
    }

    fn node(&self, index: usize) -> synod_detect::Result<(Frame, Frame, Vec<String>)> {
        let frame = self.cluster.node(index).map_err(Error::outside)?;
        let (train, mut test) = self.split.apply(&frame, self.seed.wrapping_add(index as u64))?;
        if self.judged == JudgedBy::Exact {
            let mut truth = self
                .cluster
                .exact_truth(index, test.times())
                .map_err(Error::outside)?;
            // Operators know when they are at work on the machine; nobody judges alarms then.
            let at_work = |time: i64| {
                self.cluster
                    .maintenance()
                    .iter()
                    .any(|(from, to)| *from <= time && time < *to)
            };
            let known = test
                .times()
                .iter()
                .zip(&mut truth)
                .filter(|(time, _)| at_work(**time));
            known.for_each(|(_, truth)| *truth = Truth::Unknown);
            test = test.with_truth(truth)?;
        }
        Ok((train, test, vec![]))
    }
}

/// Files of one node each, split already or to be split.
struct NodeFiles {
    nodes: Vec<Source>,
    train: Table,
    test: Table,
    split: Split,
    seed: u64,
}

enum Source {
    Divided { train: PathBuf, test: PathBuf },
    Whole(PathBuf),
}

impl NodeFiles {
    /// The files a configuration names.
    fn of(choice: &FileChoice, base: &Path, split: Split, seed: u64) -> Result<NodeFiles> {
        let find = |pattern: &str| -> Result<Vec<PathBuf>> {
            let files = load_glob(&beside(base, pattern).to_string_lossy())?;
            match files.iter().find(|file| !records::is_record(file)) {
                Some(other) if choice.kind == FileKind::Record => bail!(
                    "{} is no record file; name its kind in [data], or make record files with synod import",
                    other.display()
                ),
                _ => Ok(files),
            }
        };
        let nodes = match &choice.files {
            FilePatterns::Divided { train, test } => pair(find(train)?, find(test)?)?,
            FilePatterns::Whole(whole) => find(whole)?.into_iter().map(Source::Whole).collect(),
        };
        Ok(NodeFiles {
            nodes,
            // Training files need no labels; if they have them, they are used.
            train: Table {
                label: None,
                ..choice.table.clone()
            },
            test: choice.table.clone(),
            split,
            seed,
        })
    }

    /// How the windows are divided, as a table names it.
    fn split(&self) -> String {
        match self.nodes.first() {
            Some(Source::Divided { .. }) => "given (train and test files)".to_owned(),
            _ => self.split.describe(),
        }
    }
}

/// Training and test files with the same name belong to the same node.
fn pair(train: Vec<PathBuf>, test: Vec<PathBuf>) -> Result<Vec<Source>> {
    let name = |p: &PathBuf| p.file_name().map(|n| n.to_string_lossy().into_owned());
    let mut nodes = vec![];
    for file in &train {
        let Some(other) = test.iter().find(|t| name(t) == name(file)) else {
            bail!("{} has no test file of the same name", file.display());
        };
        let (train, test) = (file.clone(), other.clone());
        nodes.push(Source::Divided { train, test });
    }
    if let Some(alone) = test.iter().find(|t| !train.iter().any(|f| name(f) == name(t))) {
        bail!("{} has no training file of the same name", alone.display());
    }
    Ok(nodes)
}

impl History for NodeFiles {
    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn node(&self, index: usize) -> synod_detect::Result<(Frame, Frame, Vec<String>)> {
        match &self.nodes[index] {
            Source::Divided { train, test } => {
                let label = self.test.label.clone();
                let excluded = Table {
                    exclude: self.train.exclude.iter().cloned().chain(label.clone()).collect(),
                    ..self.train.clone()
                };
                let labelled = Table {
                    label,
                    ..self.train.clone()
                };
                let first = labelled
                    .load(train)
                    .or_else(|_| excluded.load(train))
                    .map_err(Error::outside)?;
                let second = self.test.load(test).map_err(Error::outside)?;
                let notes = first.notes.into_iter().chain(second.notes).collect();
                Ok((first.frame, second.frame, notes))
            }
            Source::Whole(file) => {
                let whole = self.test.load(file).map_err(Error::outside)?;
                let (train, test) = self
                    .split
                    .apply(&whole.frame, self.seed.wrapping_add(index as u64))?;
                Ok((train, test, whole.notes))
            }
        }
    }
}
