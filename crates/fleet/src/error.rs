//! What can go wrong while nodes learn together.

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A recipe has members that are not fitted from sums.
    #[error(
        "only detectors that are fitted from sums learn with other nodes here: default, covariance, changes, focus, pca"
    )]
    NotFromSums,
    /// A recipe is not one network.
    #[error("only a single autoencoder is averaged over nodes; use kind = \"autoencoder\" or \"paper\"")]
    NotOneNetwork,
    /// Features are made in a way that sums cannot tell of.
    #[error("nodes share means and deviations; use scaling = \"standard\" and no detrend with a federation")]
    NotShared,
    /// A node's data cannot be learnt from; the message says why and what to do.
    #[error("node {node}: {problem}")]
    Node {
        /// The node.
        node: String,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// A node that has told nothing was asked for.
    #[error("there is no node {0}; ask for those of the history that was gathered")]
    NoNode(usize),
    /// A node could not be learnt when all were; the message says why.
    #[error("{0}")]
    NotLearnt(String),
    /// A node could not be read, or not be learnt.
    #[error(transparent)]
    Detect(#[from] synod_detect::Error),
    /// A network could not be trained on nodes.
    #[error(transparent)]
    Federation(#[from] synod_federate::Error),
}

impl From<Error> for synod_detect::Error {
    fn from(error: Error) -> synod_detect::Error {
        match error {
            Error::Detect(error) => error,
            other => synod_detect::Error::Outside(Box::new(other)),
        }
    }
}

/// This crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;
