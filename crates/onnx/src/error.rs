//! What can go wrong while a model comes from, or goes into, another format.

use std::path::{Path, PathBuf};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read, written or understood.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the field where it is.
        problem: String,
    },
    /// The model needs ops that Synod does not import; all of them are named.
    #[error("{path}: these ops are not supported: {ops}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Each op, how often it occurs and in which nodes.
        ops: String,
    },
    /// One node of the model makes no sense, or uses an op in a way that Synod does not know.
    #[error("{path}: node {node}: {problem}")]
    Node {
        /// The file.
        path: PathBuf,
        /// The node's name and op.
        node: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A model's graph holds something that has no counterpart in ONNX.
    #[error("this model cannot be written as ONNX: {0}")]
    Export(String),
    /// The tensors of a state dict do not fit the model; all misfits are listed.
    #[error("{path}: {} tensors do not fit the model:\n  {}", .problems.len(), .problems.join("\n  "))]
    Misfits {
        /// The file.
        path: PathBuf,
        /// One line per tensor.
        problems: Vec<String>,
    },
    /// The model could not be built.
    #[error(transparent)]
    Model(#[from] synod_nn::Error),
}

/// This crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn fault(path: &Path, problem: impl Into<String>) -> Error {
    Error::File {
        path: path.to_owned(),
        problem: problem.into(),
    }
}
