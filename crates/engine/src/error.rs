//! What can go wrong, and what to do about it.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The place in the user's source that created a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Site {
    /// Source file as the compiler names it; empty when unknown.
    pub file: Cow<'static, str>,
    /// One-based line.
    pub line: u32,
}

impl Site {
    /// The caller of the function that is marked `#[track_caller]`.
    #[track_caller]
    pub fn caller() -> Site {
        let at = std::panic::Location::caller();
        Site {
            file: Cow::Borrowed(at.file()),
            line: at.line(),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.is_empty() {
            f.write_str("unknown source")
        } else {
            write!(f, "{}:{}", self.file, self.line)
        }
    }
}

/// Every failure of the engine. The first group is the caller's mistake, the last is ours.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// An op was applied to arguments it does not take.
    #[error("{site}: `{op}` cannot take {arguments}: {problem}")]
    Op {
        /// The op's name.
        op: String,
        /// The argument types, as printed in a graph.
        arguments: String,
        /// What is wrong with them.
        problem: String,
        /// Where the op was written.
        site: Site,
    },
    /// A traced function did something that cannot become part of a graph.
    #[error("{site}: {problem}")]
    Trace {
        /// What was done and what to do instead.
        problem: String,
        /// Where.
        site: Site,
    },
    /// A graph was called with the wrong values.
    #[error("calling the graph: {0}")]
    Call(String),
    /// A transform does not apply to a graph.
    #[error("{transform}: {problem}")]
    Transform {
        /// `grad`, `vmap`, a pass or a backend.
        transform: &'static str,
        /// Why it does not apply, and what to do instead.
        problem: String,
    },
    /// A model file could not be written, read or understood.
    #[error("model file {path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A graph breaks an invariant: a defect in Synod, not in the user's program.
    #[error("internal error (please report it): {0}")]
    Internal(String),
}

/// The engine's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn transform(transform: &'static str, problem: impl Into<String>) -> Error {
    Error::Transform {
        transform,
        problem: problem.into(),
    }
}
