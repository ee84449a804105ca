//! What every crate of Synod shares: a node's windows and name, times, random numbers, digests, whole files, work in
//! order on threads, events.
//!
//! It depends on no other crate of Synod and stays light, so that everything else may depend on it.
#![forbid(unsafe_code)]

pub mod config;
mod digest;
mod error;
mod event;
pub mod files;
mod frame;
mod node;
pub mod parallel;
pub mod random;
pub mod time;

pub use digest::{Digest, Hasher};
pub use error::{Error, Result};
pub use event::Event;
pub use frame::{Dropped, Frame, Truth};
pub use node::NodeId;
pub use random::Random;
