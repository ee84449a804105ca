//! Synod's deep-learning engine: one graph, gradients by graph transformation, eager and compiled modes.
//!
//! Everything on the model side is a function from graph to graph ([`grad`], [`vmap`], the [`passes`]) or a reader of a
//! graph ([`interpret`], [`compile`], cost, printing).
//!
//! ```
//! use synod_engine::{Tensor, Type, compile, trace, value_and_grad, Options, Session};
//! // loss(w) = mean((x·w)²), traced into a graph, differentiated and compiled.
//! let x = Tensor::new(vec![1.0, 2.0, 3.0, 4.0], [2, 2]);
//! let loss = trace(&[Type::tensor([2, 1])], |w| {
//!     let y = x.dot(&w[0]);
//!     vec![(&y * &y).mean_all()]
//! })?;
//! let program = compile(&value_and_grad(&loss, &[0])?, &Options::default())?;
//! let out = Session::new(program.into()).call(&[&[1.0, -1.0]])?;
//! assert_eq!(out, [vec![1.0], vec![-4.0, -6.0]]);
//! # Ok::<(), synod_engine::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod backend;
mod build;
mod classes;
pub mod control;
mod eager;
mod error;
mod grad;
mod graph;
mod images;
mod interpreter;
mod model_file;
pub mod ops;
pub mod passes;
pub mod plan;
mod print;
mod program;
mod recurrent;
mod stage;
mod template;
mod tensor;
mod trace;
mod types;
mod vmap;

pub use control::{branch, branch_named, repeat, repeat_named};
pub use eager::value_and_gradient;
pub use error::{Error, Result, Site};
pub use grad::{grad, pullback, value_and_grad};
pub use graph::{Builder, Graph, Node, Value};
pub use interpreter::{Real, interpret, random};
pub use model_file::{ModelFile, NamedTensor, sort_header};
pub use ops::Op;
pub use program::{Options, Program, Session, compile, compile_with};
pub use stage::{Mode, compiled_functions, mode, set_mode, staged};
pub use template::Template;
pub use tensor::{IntoTensor, Tensor};
pub use trace::{named as trace_named, trace};
pub use types::{MAX_ELEMENTS, Shape, Type};
pub use vmap::vmap;
