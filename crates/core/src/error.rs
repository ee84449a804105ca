//! What can go wrong with what every crate shares.

/// Every failure of this crate but those of files, which are [`std::io::Error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Windows that make no frame.
    #[error("node {node}: {problem}")]
    Frame {
        /// Whose windows.
        node: String,
        /// What is wrong with them, and what would not be.
        problem: String,
    },
    /// A text that names no node.
    #[error("{name:?} is no node's name: {problem}")]
    NodeId {
        /// The text, cut if it is long.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A text that is no time.
    #[error(
        "{0:?} is no time; write one like 2025-06-03, 2025-06-03T14:30:00Z or 2025-06-03 14:30+02:00, or as seconds since 1970"
    )]
    Timestamp(String),
    /// A text or a number that is no duration.
    #[error("{text:?} is no duration: {problem}; write one like 250ms, 30s, 15m, 1h, 1h30m, 2d or 1w")]
    Duration {
        /// The text.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A text that is no digest.
    #[error("{0:?} is no digest, which is 64 hexadecimal digits")]
    Digest(String),
}

/// This crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;
