//! Models that stay in the run's folder as soon as they are learnt.

use std::sync::Arc;

use synod_core::{Digest, Frame, Hasher};
use synod_detect::{Error, Learner, NodeModel, Result};
use synod_runs::{Error as Unstored, NodeModels, metrics_digest};

/// A way of learning whose models are stored node by node, so that a run which is killed does not learn them again.
pub(super) struct Kept<'a> {
    pub(super) learner: &'a dyn Learner,
    pub(super) models: &'a NodeModels<'a>,
    /// Which of a node's models is stored, where there are several ways.
    pub(super) way: usize,
    /// Whether a node's windows and the configuration alone decide its model, so that a stored one stands for it.
    pub(super) alone: bool,
}

impl Learner for Kept<'_> {
    fn learn(&self, index: usize, train: &Frame) -> Result<Vec<Arc<NodeModel>>> {
        let metrics = metrics_digest(train.metrics().iter().map(String::as_str));
        let data = taught_by(index, train);
        if self.alone
            && let Some(path) = self.models.stored(train.node(), metrics, data)
            && let Ok(model) = NodeModel::load(path)
        {
            return Ok(vec![Arc::new(model)]);
        }
        let learnt = self.learner.learn(index, train)?;
        let Some(model) = learnt.get(self.way) else {
            return Ok(learnt);
        };
        let stored = self.models.store(train.node(), metrics, data, |path| {
            model.save(path).map_err(Failure::Model)
        });
        stored.map_err(Failure::of_learning)?;
        Ok(learnt)
    }
}

/// The digest of what decides a node's model but for the configuration: its windows, and its place among the nodes.
fn taught_by(index: usize, train: &Frame) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update(&(index as u64).to_le_bytes());
    hasher.update(&train.step().to_le_bytes());
    for metric in train.metrics() {
        hasher.update(&(metric.len() as u64).to_le_bytes());
        hasher.update(metric.as_bytes());
    }
    let mut bytes = vec![];
    for (row, (time, truth)) in train.times().iter().zip(train.truth()).enumerate() {
        bytes.clear();
        bytes.extend(time.to_le_bytes());
        bytes.push(*truth as u8);
        bytes.extend(train.row(row).iter().flat_map(|value| value.to_le_bytes()));
        hasher.update(&bytes);
    }
    hasher.finish()
}

/// Why a model was not stored.
enum Failure {
    Model(Error),
    Folder(Unstored),
}

impl From<Unstored> for Failure {
    fn from(error: Unstored) -> Failure {
        Failure::Folder(error)
    }
}

impl Failure {
    fn of_learning(self) -> Error {
        match self {
            Failure::Model(error) => error,
            Failure::Folder(error) => Error::outside(error),
        }
    }
}
