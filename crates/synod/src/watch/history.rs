//! Nodes' windows from files or from a synthetic cluster, one node at a time.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use synod_detect::{Error, History};
use synod_evaluate::{Split, SplitKind};
use synod_synthetic::{Cluster, ClusterOptions};
use synod_telemetry::sources::{Table, records};
use synod_telemetry::{Frame, Truth, load_glob};

use super::config::{Config, Judged, Kind, beside};
use crate::train::Misuse;

/// The history a configuration describes, and how its windows are divided; with another kind of split if one is given.
pub(crate) fn open(
    config: &Config,
    path: &Path,
    other: Option<SplitKind>,
) -> Result<(Box<dyn History>, String)> {
    let split = config.split.unwrap_or_default();
    let split = other.map_or(split, |kind| Split { kind, ..split });
    // Before hours of data are read or generated.
    split.check().map_err(|e| Misuse(e.to_string()))?;
    if config.data.get_ref().kind != Kind::Synthetic {
        let files = Files::of(config, path, split)?;
        let split = files.split();
        return Ok((Box::new(files), split));
    }
    let (data, usual) = (config.data.get_ref(), ClusterOptions::default());
    let options = ClusterOptions {
        nodes: data.nodes.unwrap_or(usual.nodes),
        days: data.days.unwrap_or(usual.days),
        seed: config.seed,
        anomalies: data.anomalies.unwrap_or(usual.anomalies),
        drift: data.drift.unwrap_or(usual.drift),
        heterogeneity: data.heterogeneity.unwrap_or(usual.heterogeneity),
        ..usual
    };
    let cluster = Cluster::new(options).map_err(|e| Misuse(e.to_string()))?;
    let seed = config.seed;
    let judged = data.truth;
    let history = Synthetic {
        cluster,
        split,
        seed,
        judged,
    };
    Ok((Box::new(history), split.describe()))
}

/// A cluster that is generated node by node as it is needed.
struct Synthetic {
    cluster: Cluster,
    split: Split,
    seed: u64,
    judged: Judged,
}

impl History for Synthetic {
    fn nodes(&self) -> usize {
        self.cluster.options().nodes
    }

    fn node(&self, index: usize) -> synod_detect::Result<(Frame, Frame, Vec<String>)> {
        let frame = self.cluster.node(index).map_err(Error::outside)?;
        let (train, mut test) = self.split.apply(&frame, self.seed.wrapping_add(index as u64))?;
        if self.judged == Judged::Exact {
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
struct Files {
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

impl Files {
    /// The files a configuration names.
    fn of(config: &Config, path: &Path, split: Split) -> Result<Files> {
        let data = config.data.get_ref();
        let find = |pattern: &str| -> Result<Vec<PathBuf>> {
            let files = load_glob(&beside(path, pattern).to_string_lossy())?;
            match files.iter().find(|file| !records::is_record(file)) {
                Some(other) if data.kind == Kind::Record => bail!(
                    "{} is no record file; name its kind in [data], or make record files with synod import",
                    other.display()
                ),
                _ => Ok(files),
            }
        };
        let table = Table {
            time: data.time.clone(),
            label: data.label.clone(),
            include: data.include.clone(),
            exclude: data.exclude.clone(),
            step: data.step,
        };
        let nodes = match (&data.train, &data.test, &data.path) {
            (Some(train), Some(test), _) => pair(find(train)?, find(test)?)?,
            (_, _, Some(whole)) => find(whole)?.into_iter().map(Source::Whole).collect(),
            _ => bail!("the configuration names no files"),
        };
        Ok(Files {
            nodes,
            // Training files need no labels; if they have them, they are used.
            train: Table {
                label: None,
                ..table.clone()
            },
            test: table,
            split,
            seed: config.seed,
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

impl History for Files {
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
