//! What can go wrong between windows and alarms.

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting or an argument makes no sense; the message says which and what would.
    #[error("{0}")]
    Setting(String),
}

/// This crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;
