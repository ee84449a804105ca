//! Models of bytes: calibrated after training, or trained to bear the rounding.
//!
//! A model's inference graph is read as a few steps that integers can compute; normalisations are folded into the products
//! before them. Weights become signed bytes with a scale per output, activations unsigned bytes with a scale and a zero
//! point, whose range is observed on examples. The kernels' sums are exact.
//!
//! ```
//! use synod_nn::{quantise::{self, Quantised}, zoo};
//! let model = zoo::mlp(&[16, 64, 4], 1)?;
//! let rows: Vec<f32> = (0..16 * 50).map(|i| (i * 37 % 101) as f32 / 101.0).collect();
//! let bytes = Quantised::calibrated(&model, &rows)?;
//! let (exact, found) = (model.predict(&rows)?, bytes.predict(&rows)?);
//! assert!(exact.iter().zip(&found).all(|(x, y)| (x - y).abs() < 0.05));
//! // An ordinary model that feels the rounding: train it on, then turn it into bytes.
//! let aware = quantise::aware(&model, &rows)?;
//! let bytes = Quantised::from_aware(&aware)?;
//! # Ok::<(), synod_nn::Error>(())
//! ```

mod bytes;
mod calibrate;
mod constants;
mod emit;
mod grid;
mod network;
mod pool;
mod read;
mod store;
#[cfg(test)]
mod tests;

pub use bytes::Quantised;

use crate::error::Result;
use crate::model::Model;

/// The model without its normalisations, which become part of the weights before them; for the rest the same function.
/// What only acts in training, such as dropout, is gone.
pub fn fold(model: &Model) -> Result<Model> {
    let reading = read::read(model)?;
    emit::model_of(&reading.network, &reading.layers, None)
}

/// The folded model with weights and activations rounded to the levels that bytes would give them, calibrated on rows of
/// `inputs`. It is trained like any other: the gradient goes straight through the rounding, weights' scales follow the
/// weights, activations' ranges stay.
pub fn aware(model: &Model, inputs: &[f32]) -> Result<Model> {
    let reading = read::read(model)?;
    let grids = calibrate::calibrated(&reading, inputs)?.own_grids();
    emit::model_of(&reading.network, &reading.layers, Some(&grids))
}
