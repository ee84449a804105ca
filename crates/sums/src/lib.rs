//! Scaling and principal components from sums over clients.
//!
//! What a client tells of its rows is sums, never rows: [`ColumnMoments`] of each column, [`CrossMoments`] of every two, and
//! [`Histograms`] by edges that all share. Merged they give the statistics of all rows together, and from them come the same
//! [`ColumnScaling`] and the same principal [`Components`] for everyone.
//!
//! Neither the order of merging nor how rows are divided among clients can be told from the result. Floating-point sums depend on it, so sums are integers of 512 bits, in
//! units of 2^-192, to which every product of two `f32` values is added without rounding (below 1e-22 squares lose digits). A
//! server may therefore merge whoever reports next, and a repeated run gives the same bits. Reading them out, what cancels,
//! such as the square of a large mean, is computed with twice the precision of `f64`.
#![forbid(unsafe_code)]

mod columns;
mod components;
mod cross;
mod double;
pub mod eigen;
mod error;
mod exact;
mod histogram;
mod scaling;

pub use columns::ColumnMoments;
pub use components::Components;
pub use cross::CrossMoments;
pub use error::{Error, Result};
pub use histogram::{Edges, Histograms};
pub use scaling::ColumnScaling;
