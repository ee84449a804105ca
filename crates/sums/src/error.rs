//! What can go wrong with sums over clients.

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// The rows cannot be summed, or their sums not be used, as asked.
    #[error("{0}")]
    Data(String),
    /// Sums from outside do not hold what they must.
    #[error("{0}")]
    Malformed(String),
}

/// This crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;
