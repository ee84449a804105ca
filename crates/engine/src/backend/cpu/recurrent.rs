//! Recurrent layers over whole sequences.

use synod_kernels::{self as kernels, LstmCotangents, LstmInputs};

use super::super::{CallFrame, KernelCall};
use super::Context;
use crate::error::{Error, Result};
use crate::ops::{Lstm, LstmExtents, LstmRole};

pub(super) fn lstm(c: &Context<'_>, op: Lstm) -> Result<KernelCall> {
    let extents = op.extents(c.graph.shape(c.node.args[0]));
    let LstmExtents { time, batch, hidden } = extents.map_err(Error::Internal)?;
    let kernel = kernels::Lstm { time, batch, hidden };
    let simd = c.simd;
    match op.role {
        LstmRole::Forward => {
            let mut task = c.task(move |frame: CallFrame<'_>| {
                let reads = [0, 1, 2, 3].map(|i| frame.arg(i));
                let writes = [frame.out(0), frame.out(1), frame.out(2), frame.scratch()];
                let (reads, [states, cells, gates, workspace]) = frame.memory.floats.views(reads, writes);
                let [inputs, weights, state, cell] = reads;
                let given = LstmInputs {
                    inputs,
                    weights,
                    state,
                    cell,
                };
                kernel.forward(simd, given, states, cells, gates, workspace);
            });
            task.scratch = kernel.forward_workspace();
            Ok(task)
        }
        LstmRole::Backward => {
            let mut task = c.task(move |frame: CallFrame<'_>| {
                let reads = [0, 1, 2, 3, 4, 5].map(|i| frame.arg(i));
                let writes = [frame.out(0), frame.out(1), frame.out(2), frame.scratch()];
                let (reads, [d_inputs, d_state, d_cell, workspace]) =
                    frame.memory.floats.views(reads, writes);
                let [gates, cells, weights, cell, d_states, d_cells] = reads;
                let given = LstmCotangents {
                    gates,
                    cells,
                    weights,
                    cell,
                    d_states,
                    d_cells,
                };
                kernel.backward(simd, given, d_inputs, d_state, d_cell, workspace);
            });
            task.scratch = kernel.backward_workspace();
            Ok(task)
        }
    }
}
