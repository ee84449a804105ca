//! How nodes come to their detectors.

use std::sync::Arc;

use synod_telemetry::Frame;

use crate::error::Result;
use crate::model::NodeModel;
use crate::recipe::Recipe;

/// Where nodes' windows come from, one node at a time: no more are in memory than are worked on.
pub trait History: Sync {
    /// How many nodes there are.
    fn nodes(&self) -> usize;

    /// Training and test windows of one node, with what a reader should know of how they were read.
    fn node(&self, index: usize) -> Result<(Frame, Frame, Vec<String>)>;
}

/// A way, or several ways beside each other, of learning nodes.
pub trait Learner: Sync {
    /// The detectors of a node, one for every way, from its training windows.
    fn learn(&self, index: usize, train: &Frame) -> Result<Vec<Arc<NodeModel>>>;
}

/// Every node from its own windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Alone(pub Recipe);

impl Learner for Alone {
    fn learn(&self, index: usize, train: &Frame) -> Result<Vec<Arc<NodeModel>>> {
        NodeModel::fit(train, &self.0.of_node(index)).map(|model| vec![Arc::new(model)])
    }
}
