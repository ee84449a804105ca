//! Nodes' models in a run, and what made them.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use synod_core::{Digest, Event, Hasher, NodeId};

use super::{Folder, Log};
use crate::error::{Error, Result};

pub(super) const FOLDER: &str = "models";
pub(super) const INDEX: &str = "models.json";

/// By what a node's model is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEntry {
    /// The model file.
    pub file: Digest,
    /// The text of the configuration that made it.
    pub config: Digest,
    /// The metrics of the node, as of [`metrics_digest`].
    pub metrics: Digest,
}

/// The models of a run that is over: `models.json`, with an entry for every node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Models {
    /// By name of the node.
    pub nodes: BTreeMap<String, ModelEntry>,
}

impl Models {
    /// Reads the index of a run.
    pub fn read(run: impl AsRef<Path>) -> Result<Models> {
        let path = run.as_ref().join(INDEX);
        let bytes = fs::read(&path).map_err(Error::io("read the index of models", &path))?;
        serde_json::from_slice(&bytes).map_err(|_| Error::Damaged {
            path,
            problem: "is no index of models; train them again".into(),
        })
    }

    /// The file of a node's model, which is made sure to be the one that the run stored.
    pub fn file(&self, run: impl AsRef<Path>, node: &str) -> Result<PathBuf> {
        let path = model_path(run.as_ref(), node)?;
        let damaged = |problem: &str| Error::Damaged {
            path: path.clone(),
            problem: problem.into(),
        };
        let entry = self.nodes.get(node);
        let entry = entry.ok_or_else(|| damaged("is no model of this run; train one"))?;
        let found = Digest::of_file(&path).map_err(Error::io("read", &path))?;
        match found == entry.file {
            true => Ok(path),
            false => Err(damaged("is not the model that the run stored; train it again")),
        }
    }
}

/// The file of a node's model. A name is a name, not a way out of the folder.
pub(crate) fn model_path(run: &Path, node: &str) -> Result<PathBuf> {
    let path = run.join(FOLDER).join(format!("{node}.safetensors"));
    match NodeId::new(node) {
        Ok(_) => Ok(path),
        Err(e) => Err(Error::Refused {
            folder: run.to_owned(),
            problem: e.to_string(),
        }),
    }
}

/// The digest of metrics' names, in whatever order they come.
pub fn metrics_digest<'a>(names: impl IntoIterator<Item = &'a str>) -> Digest {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    let mut hasher = Hasher::new();
    for name in names {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    hasher.finish()
}

/// A node's model was stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Learnt {
    node: String,
    #[serde(flatten)]
    entry: ModelEntry,
    /// The windows that taught it.
    data: Digest,
}

impl Event for Learnt {
    const NAME: &'static str = "learnt";
}

/// Models of a run while it goes on. What is stored survives a crash, and is not learnt again.
#[derive(Debug)]
pub struct NodeModels<'a> {
    folder: &'a Folder,
    log: Log,
    config: Digest,
    /// What an earlier process stored.
    before: BTreeMap<String, Learnt>,
    now: Mutex<BTreeMap<String, ModelEntry>>,
}

impl<'a> NodeModels<'a> {
    /// The models of a run that has begun or goes on, made by a configuration.
    pub fn new(folder: &'a Folder, log: &Log, config: Digest) -> Result<NodeModels<'a>> {
        let path = folder.path().join(FOLDER);
        fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
        let past: Vec<Learnt> = log.past()?;
        let ours = past.into_iter().filter(|learnt| learnt.entry.config == config);
        Ok(NodeModels {
            folder,
            log: log.clone(),
            config,
            before: ours.map(|learnt| (learnt.node.clone(), learnt)).collect(),
            now: Mutex::default(),
        })
    }

    /// The model of a node, if an earlier process stored it, whole, from the same metrics and windows.
    pub fn stored(&self, node: &str, metrics: Digest, data: Digest) -> Option<PathBuf> {
        let learnt = self.before.get(node)?;
        let path = model_path(self.folder.path(), node).ok()?;
        let same = learnt.entry.metrics == metrics && learnt.data == data;
        let whole = same && Digest::of_file(&path).is_ok_and(|found| found == learnt.entry.file);
        whole.then(|| {
            self.enter(node, learnt.entry.clone());
            path
        })
    }

    /// Stores a node's model, which `save` writes to a path.
    pub fn store<E: From<Error>>(
        &self,
        node: &str,
        metrics: Digest,
        data: Digest,
        save: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = model_path(self.folder.path(), node)?;
        save(&path)?;
        let entry = ModelEntry {
            file: Digest::of_file(&path).map_err(Error::io("read", &path))?,
            config: self.config,
            metrics,
        };
        let learnt = Learnt {
            node: node.to_owned(),
            entry: entry.clone(),
            data,
        };
        self.log
            .write(&learnt)
            .map_err(Error::io("write", self.log.path()))?;
        self.enter(node, entry);
        Ok(())
    }

    /// Writes the index, and removes models of nodes that are no longer there.
    pub fn finish(self) -> Result<()> {
        let nodes = self.now.into_inner().unwrap_or_else(PoisonError::into_inner);
        for learnt in self.before.keys().filter(|node| !nodes.contains_key(*node)) {
            let path = model_path(self.folder.path(), learnt)?;
            match fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::io("remove", &path)(e)),
                _ => {}
            }
        }
        let path = self.folder.path().join(INDEX);
        let text = serde_json::to_string_pretty(&Models { nodes });
        let text = text.map_err(|e| Error::io("write", &path)(e.into()))?;
        self.folder.write(INDEX, &(text + "\n"))
    }

    fn enter(&self, node: &str, entry: ModelEntry) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.insert(node.to_owned(), entry);
    }
}
