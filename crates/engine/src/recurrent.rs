//! What users write on sequences.

use crate::error::Site;
use crate::ops::{Lstm, LstmRole};
use crate::tensor::Tensor;
use crate::trace::emit;

impl Tensor {
    /// A long short-term memory over `self`, what its gates (input, forget, cell, output) get from outside,
    /// `[time, batch, 4 hidden]`, with the weights of the state `[hidden, 4 hidden]` and a state and a cell
    /// `[batch, hidden]` to start with: every state and every cell, `[time, batch, hidden]`.
    #[track_caller]
    pub fn lstm(&self, weights: &Tensor, state: &Tensor, cell: &Tensor) -> (Tensor, Tensor) {
        let role = LstmRole::Forward;
        let mut outs = emit(
            Lstm { role }.into(),
            &[self, weights, state, cell],
            Site::caller(),
        );
        outs.truncate(2);
        let cells = outs.pop().unwrap_or_else(|| self.clone());
        (outs.pop().unwrap_or_else(|| self.clone()), cells)
    }
}
