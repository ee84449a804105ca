//! Models from and for other frameworks: ONNX files in both directions, and PyTorch's state dicts.
//!
//! An imported model is an ordinary [`Model`](synod_nn::Model): it predicts, is evaluated, trained on and stored. Images stay
//! in the file's order, `[channels, height, width]`, unless [`Import::channels_last`] is set; an exported file takes them in
//! Synod's order, `[batch, height, width, channels]`, unless [`Export::channels_first`] is set. Inside, reorderings of axes
//! are made only where an op needs them.
//!
//! ```
//! use std::path::Path;
//! use synod_nn::zoo;
//! use synod_onnx::{Export, Import};
//! let model = zoo::mlp(&[3, 4, 2], 1)?;
//! let bytes = Export::default().bytes(&model)?;
//! let again = Import::default().bytes(&bytes, Path::new("model.onnx"))?;
//! let (ours, theirs) = (model.predict(&[0.1, 0.2, 0.3])?, again.predict(&[0.1, 0.2, 0.3])?);
//! assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-6));
//! # Ok::<(), synod_onnx::Error>(())
//! ```
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
