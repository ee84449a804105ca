//! Configuration files.

mod document;
mod fault;
mod kind;
mod nearest;

pub use document::Document;
pub use kind::RunKind;
