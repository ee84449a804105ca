//! Models from and for other frameworks: ONNX files in both directions, and PyTorch's state dicts.
#![forbid(unsafe_code)]

mod error;
mod import;
mod literal;
mod proto;

pub use error::{Error, Result};
pub use import::Import;
