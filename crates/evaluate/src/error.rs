//! What can go wrong while detectors are judged.

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Scores, alarms and labels are not of the same windows.
    #[error("{scores} scores, {alarms} alarms and {truth} labels; give one of each per window")]
    Lengths {
        /// How many scores there are.
        scores: usize,
        /// How many alarms.
        alarms: usize,
        /// How many labels.
        truth: usize,
    },
    /// The distance between windows is no distance.
    #[error("a step of {0} s between windows; give the step in seconds, above zero")]
    Step(i64),
    /// A split leaves nothing on one of its sides.
    #[error("a training share of {0} leaves nothing to train on or to test; choose one between 0 and 1")]
    Share(f64),
    /// No node at all could be learnt; the message says why the first could not.
    #[error("no node could be learnt: {0}")]
    NothingLearnt(String),
    /// A node could not be read, or not be learnt.
    #[error(transparent)]
    Detect(#[from] synod_detect::Error),
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
