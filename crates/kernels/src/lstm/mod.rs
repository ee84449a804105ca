//! A long short-term memory over a whole sequence, forward and backward: the weights are packed once, every time is one
//! product and one pass over its gates. Gates stand in the order input, forget, cell, output.

mod cell;
mod product;

use crate::level::Simd;
use product::Product;

/// The sizes of a sequence.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Lstm {
    /// Steps.
    pub time: usize,
    /// Sequences side by side.
    pub batch: usize,
    /// Numbers of a state.
    pub hidden: usize,
}

/// What the forward pass reads.
#[derive(Copy, Clone, Debug)]
pub struct LstmInputs<'a> {
    /// What the gates get from outside, `[time, batch, 4 hidden]`.
    pub inputs: &'a [f32],
    /// What they get from the state, `[hidden, 4 hidden]`.
    pub weights: &'a [f32],
    /// The state before the first time, `[batch, hidden]`.
    pub state: &'a [f32],
    /// The cell before the first time, `[batch, hidden]`.
    pub cell: &'a [f32],
}

/// What the backward pass reads: results of the forward pass and the cotangents of two of them.
#[derive(Copy, Clone, Debug)]
pub struct LstmCotangents<'a> {
    /// Gates after their functions, `[time, batch, 4 hidden]`.
    pub gates: &'a [f32],
    /// Cells, `[time, batch, hidden]`.
    pub cells: &'a [f32],
    /// The weights of the forward pass.
    pub weights: &'a [f32],
    /// The cell before the first time.
    pub cell: &'a [f32],
    /// Cotangents of the states, `[time, batch, hidden]`.
    pub d_states: &'a [f32],
    /// Cotangents of the cells, `[time, batch, hidden]`.
    pub d_cells: &'a [f32],
}

impl Lstm {
    fn ahead(&self) -> Product {
        Product {
            rows: self.batch,
            depth: self.hidden,
            columns: 4 * self.hidden,
        }
    }

    fn back(&self) -> Product {
        Product {
            rows: self.batch,
            depth: 4 * self.hidden,
            columns: self.hidden,
        }
    }

    /// Elements of a state and of all states.
    fn lens(&self) -> [usize; 2] {
        let state = self.batch * self.hidden;
        [state, self.time * state]
    }

    /// The floats of workspace that [`Lstm::forward`] needs.
    pub fn forward_workspace(&self) -> usize {
        self.ahead().packed_len() + self.ahead().turned_len()
    }

    /// Every state, every cell and every gate, the last after their functions.
    pub fn forward(
        &self,
        simd: Simd,
        given: LstmInputs<'_>,
        states: &mut [f32],
        cells: &mut [f32],
        gates: &mut [f32],
        workspace: &mut [f32],
    ) {
        let ([state, all], product) = (self.lens(), self.ahead());
        assert!(
            given.inputs.len() == 4 * all
                && gates.len() == 4 * all
                && states.len() == all
                && cells.len() == all,
            "{self:?}: inputs, states, cells or gates of another length"
        );
        assert!(
            given.state.len() == state && given.cell.len() == state,
            "{self:?}: first state or cell of another length"
        );
        if state == 0 {
            return;
        }
        let (panels, turned) = workspace.split_at_mut(product.packed_len());
        product.pack(simd, given.weights, false, panels);
        for t in 0..self.time {
            let (past, now) = states.split_at_mut(t * state);
            let (past_cells, now_cells) = cells.split_at_mut(t * state);
            let previous = |past: &'_ [f32]| t.checked_sub(1).map(|t| t * state..past.len());
            let h = previous(past).map_or(given.state, |range| &past[range]);
            let c = previous(past_cells).map_or(given.cell, |range| &past_cells[range]);
            let gates = &mut gates[4 * t * state..4 * (t + 1) * state];
            let inputs = &given.inputs[4 * t * state..4 * (t + 1) * state];
            product.run(simd, h, panels, Some(inputs), gates, turned);
            simd.run(cell::Forward {
                hidden: self.hidden,
                gates,
                before: c,
                cells: &mut now_cells[..state],
                states: &mut now[..state],
            });
        }
    }

    /// The floats of workspace that [`Lstm::backward`] needs.
    pub fn backward_workspace(&self) -> usize {
        self.back().packed_len() + self.back().turned_len()
    }

    /// The cotangents of the inputs, of the first state and of the first cell.
    pub fn backward(
        &self,
        simd: Simd,
        given: LstmCotangents<'_>,
        d_inputs: &mut [f32],
        d_state: &mut [f32],
        d_cell: &mut [f32],
        workspace: &mut [f32],
    ) {
        let ([state, all], product) = (self.lens(), self.back());
        let sequences = [given.cells, given.d_states, given.d_cells];
        assert!(
            sequences.iter().all(|x| x.len() == all)
                && given.gates.len() == 4 * all
                && d_inputs.len() == 4 * all,
            "{self:?}: gates, cells or cotangents of another length"
        );
        assert!(
            given.cell.len() == state && d_state.len() == state && d_cell.len() == state,
            "{self:?}: first cell or its cotangents of another length"
        );
        d_state.fill(0.0);
        d_cell.fill(0.0);
        if state == 0 {
            return;
        }
        let (panels, turned) = workspace.split_at_mut(product.packed_len());
        product.pack(simd, given.weights, true, panels);
        for t in (0..self.time).rev() {
            let now = t * state..(t + 1) * state;
            let wide = 4 * t * state..4 * (t + 1) * state;
            let before = t
                .checked_sub(1)
                .map_or(given.cell, |t| &given.cells[t * state..now.start]);
            simd.run(cell::Backward {
                hidden: self.hidden,
                gates: &given.gates[wide.clone()],
                cells: &given.cells[now.clone()],
                before,
                d_states: &given.d_states[now.clone()],
                d_cells: &given.d_cells[now],
                d_state,
                d_cell,
                d_gates: &mut d_inputs[wide.clone()],
            });
            product.run(simd, &d_inputs[wide], panels, None, d_state, turned);
        }
    }
}
