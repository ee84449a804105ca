//! Models from and for other frameworks: ONNX files in both directions, and PyTorch's state dicts.
#![forbid(unsafe_code)]

mod error;
mod export;
mod import;
mod literal;
mod proto;
pub mod state_dict;

pub use error::{Error, Result};
pub use export::Export;
pub use import::Import;
