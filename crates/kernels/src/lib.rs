//! Synod's compute on plain slices of `f32`: dense layers, matrix products, convolutions, pooling, optimiser steps,
//! elementwise chains and reductions, each written once over a vector type and compiled for every instruction set in [`Level`].
//!
//! Every kernel takes a [`Simd`] token first, checks its slices' lengths (a mismatch is a bug of the caller and
//! panics), allocates nothing on one thread (a [`ByteWorkspace`] grows), and adds in a fixed order: the same level gives the same bits every time, whatever
//! the number of threads. Different levels may differ in the last bits.
//!
//! This is the only crate of the workspace with `unsafe` in it.

mod activation;
pub mod buffer;
pub mod chain;
pub mod conv;
pub mod dense;
pub mod exact;
pub mod flat;
pub mod gemm;
pub mod int8;
pub mod layout;
mod level;
pub mod lstm;
pub mod map;
pub mod math;
mod norm;
pub mod pool;
pub mod reduce;
mod share;
pub mod update;
mod vector;
mod workers;

pub use buffer::{Buffer, Span};
pub use chain::{Access, Binary, Chain, ChainError, Instr, Reg, Source, Unary};
pub use conv::{Conv, ConvEpilogue, ConvWeights, Geometry, GeometryError};
pub use dense::{Activation, Dense, Gate};
pub use gemm::{Bias, Epilogue, Matrix, Sum, gemm, gemm_workspace};
pub use int8::{ByteFilter, ByteResults, ByteWorkspace, Requantise, add_bytes, dequantise, quantise};
pub use layout::{Ahead, gather_rows, transpose};
pub use level::{Level, LevelError, Simd};
pub use lstm::{Lstm, LstmCotangents, LstmInputs};
pub use map::Map;
pub use norm::{BatchNorm, BatchNormGiven};
pub use pool::{Divisor, Pool, PoolGeometry};
pub use reduce::{Reduction, reduce, reduce_shared};
pub(crate) use share::even_parts;
pub use update::{Hyper, Rule, bias_update, update, update_shared};
