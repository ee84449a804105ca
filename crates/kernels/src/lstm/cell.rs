//! What happens to the gates of one time, forward and backward.

use crate::{
    level::Kernel,
    math::{sigmoid_vector, tanh_vector},
    vector::{Vector, load_up_to, store_up_to},
};

/// `count` floats of a slice from `at` on.
///
/// # Safety
/// The CPU supports `V`, and so many floats lie inside the slice.
#[inline(always)]
unsafe fn read<V: Vector>(from: &[f32], at: usize, count: usize) -> V {
    // SAFETY: passed on from the caller.
    unsafe { load_up_to(from.as_ptr().add(at), count) }
}

/// The derivative of a sigmoid, from its value.
#[inline(always)]
fn slope<V: Vector>(gate: V) -> V {
    gate.neg_mul_add(gate, gate)
}

/// Applies the gates' functions in place and computes the next cells and states.
pub(super) struct Forward<'a> {
    pub(super) hidden: usize,
    /// `[batch, 4 hidden]`
    pub(super) gates: &'a mut [f32],
    /// `[batch, hidden]`, as all that follow.
    pub(super) before: &'a [f32],
    pub(super) cells: &'a mut [f32],
    pub(super) states: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let hidden = self.hidden;
        let len = self.before.len();
        assert!(self.gates.len() == 4 * len && self.cells.len() == len && self.states.len() == len);
        for start in (0..len).step_by(hidden.max(1)) {
            for first in (0..hidden).step_by(V::LANES) {
                let (at, count) = (start + first, (hidden - first).min(V::LANES));
                // SAFETY: `count` floats from `at` on, and from their place in each gate on, lie inside the slices.
                unsafe {
                    let gate = 4 * start + first;
                    let input = sigmoid_vector(read::<V>(self.gates, gate, count));
                    let forget = sigmoid_vector(read::<V>(self.gates, gate + hidden, count));
                    let cell = tanh_vector(read::<V>(self.gates, gate + 2 * hidden, count));
                    let output = sigmoid_vector(read::<V>(self.gates, gate + 3 * hidden, count));
                    for (i, value) in [input, forget, cell, output].into_iter().enumerate() {
                        store_up_to(value, self.gates.as_mut_ptr().add(gate + i * hidden), count);
                    }
                    let before = read::<V>(self.before, at, count);
                    let now = forget.mul_add(before, input * cell);
                    store_up_to(now, self.cells.as_mut_ptr().add(at), count);
                    let state = output * tanh_vector(now);
                    store_up_to(state, self.states.as_mut_ptr().add(at), count);
                }
            }
        }
    }
}

/// Turns the cotangents of one time's state and cell into those of its gates before their functions, and replaces the
/// cell's by what goes to the cell before.
pub(super) struct Backward<'a> {
    pub(super) hidden: usize,
    /// `[batch, 4 hidden]`
    pub(super) gates: &'a [f32],
    /// `[batch, hidden]`, as all that follow but the last.
    pub(super) cells: &'a [f32],
    pub(super) before: &'a [f32],
    /// What comes from outside.
    pub(super) d_states: &'a [f32],
    pub(super) d_cells: &'a [f32],
    /// What comes from the time after.
    pub(super) d_state: &'a [f32],
    pub(super) d_cell: &'a mut [f32],
    /// `[batch, 4 hidden]`
    pub(super) d_gates: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (hidden, len) = (self.hidden, self.cells.len());
        let same = [self.before, self.d_states, self.d_cells, self.d_state];
        assert!(same.iter().all(|x| x.len() == len) && self.d_cell.len() == len);
        assert!(self.gates.len() == 4 * len && self.d_gates.len() == 4 * len);
        for start in (0..len).step_by(hidden.max(1)) {
            for first in (0..hidden).step_by(V::LANES) {
                let (at, count) = (start + first, (hidden - first).min(V::LANES));
                // SAFETY: `count` floats from `at` on, and from their place in each gate on, lie inside the slices.
                unsafe {
                    let (one, gate) = (V::splat(1.0), 4 * start + first);
                    let input = read::<V>(self.gates, gate, count);
                    let forget = read::<V>(self.gates, gate + hidden, count);
                    let cell = read::<V>(self.gates, gate + 2 * hidden, count);
                    let output = read::<V>(self.gates, gate + 3 * hidden, count);
                    let squashed = tanh_vector(read::<V>(self.cells, at, count));
                    let d_state = read::<V>(self.d_state, at, count) + read(self.d_states, at, count);
                    let inner = d_state * output * squashed.neg_mul_add(squashed, one);
                    let d_cell = read::<V>(self.d_cell, at, count) + read(self.d_cells, at, count) + inner;
                    let d = [
                        d_cell * cell * slope(input),
                        d_cell * read(self.before, at, count) * slope(forget),
                        d_cell * input * cell.neg_mul_add(cell, one),
                        d_state * squashed * slope(output),
                    ];
                    for (i, d) in d.into_iter().enumerate() {
                        let to = self.d_gates.as_mut_ptr().add(gate + i * hidden);
                        store_up_to(d, to, count);
                    }
                    store_up_to(d_cell * forget, self.d_cell.as_mut_ptr().add(at), count);
                }
            }
        }
    }
}
