//! Inputs that are zero in every sample. Behind rectifiers units fall silent for whole batches, and pictures have margins:
//! the weights of such an input add nothing, have no gradient, and need not be read.

use std::mem::MaybeUninit;

use super::Dense;
use crate::vector::{MAX_LANES, Vector, load_up_to, store_up_to};

/// The most inputs of a layer that is looked at.
const INPUTS: usize = 1024;
/// The most samples: among many, hardly an input is zero in all.
const ROWS: usize = 64;

/// Room for the list of inputs that are not zero in every sample.
pub(super) struct Live {
    inputs: [MaybeUninit<u16>; INPUTS + MAX_LANES],
}

impl Live {
    pub(super) fn new() -> Live {
        Live {
            inputs: [MaybeUninit::uninit(); INPUTS + MAX_LANES],
        }
    }

    /// The inputs that are not zero in every sample, in order, if it pays to leave out the others.
    ///
    /// # Safety
    /// The CPU supports `V` and `x` has the samples of the shape.
    #[inline(always)]
    pub(super) unsafe fn find<V: Vector>(&mut self, shape: Dense, x: *const f32) -> Option<&[u16]> {
        let Dense { rows, inputs, .. } = shape;
        if !(2..=ROWS).contains(&rows) || !(MAX_LANES..=INPUTS).contains(&inputs) {
            return None;
        }
        let most = inputs - inputs / 8;
        let list = self.inputs.as_mut_ptr().cast::<u16>();
        // SAFETY: the samples exist, and the list has room for a register more than it can name.
        unsafe {
            // What is zero in every sample is zero in the first, which is soon looked at.
            if V::list_nonzero(x, inputs, list) > most {
                return None;
            }
            let mut sums = [MaybeUninit::<f32>::uninit(); INPUTS];
            let sums = sums.as_mut_ptr().cast::<f32>();
            for start in (0..inputs).step_by(V::LANES) {
                let count = (inputs - start).min(V::LANES);
                let mut sum = V::splat(0.0);
                for row in 0..rows {
                    sum = sum + load_up_to::<V>(x.add(row * inputs + start), count).abs();
                }
                store_up_to(sum, sums.add(start), count);
            }
            let count = V::list_nonzero(sums, inputs, list);
            (count <= most).then(|| std::slice::from_raw_parts(list, count))
        }
    }
}

/// The runs of inputs that a list leaves out.
pub(super) fn silent(list: &[u16], inputs: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let live = list.iter().map(|&input| usize::from(input));
    let starts = std::iter::once(0).chain(live.clone().map(|input| input + 1));
    let ends = live.chain(std::iter::once(inputs));
    starts
        .zip(ends)
        .map(|(start, end)| start..end)
        .filter(|run| !run.is_empty())
}

#[cfg(test)]
mod tests {
    use super::silent;

    #[test]
    fn silent_inputs_are_those_between_the_listed() {
        let runs = |list: &[u16], inputs| {
            silent(list, inputs)
                .map(|run| (run.start, run.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(runs(&[], 3), [(0, 3)]);
        assert_eq!(runs(&[0, 1, 4, 6], 9), [(2, 4), (5, 6), (7, 9)]);
        assert_eq!(runs(&[0, 1, 2], 3), []);
    }
}
