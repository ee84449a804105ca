//! A tensor whose axes are reordered only when somebody needs them in order.
//!
//! ONNX keeps images as `[n, channels, height, width]` and sequences as `[time, batch, features]`, Synod the other way
//! round. A view remembers where the axes of the ONNX value lie in the stored tensor, so the orders that PyTorch's
//! exporter and Synod's ops ask for cancel wherever they meet.

use synod_engine::Tensor;

/// Axis `i` of the ONNX value is axis `order[i]` of the stored tensor.
#[derive(Clone, Debug)]
pub(super) struct View {
    stored: Tensor,
    order: Vec<usize>,
}

impl View {
    /// The value is stored as it is.
    pub(super) fn plain(stored: Tensor) -> View {
        let order = (0..stored.shape().rank()).collect();
        View { stored, order }
    }

    /// The value's axis `i` is the stored tensor's axis `order[i]`, a permutation of its axes.
    pub(super) fn stored(stored: Tensor, order: Vec<usize>) -> View {
        match order.len() == stored.shape().rank() {
            true => View { stored, order },
            // Only a tensor that carries an error has lost its rank.
            false => View::plain(stored),
        }
    }

    /// Images that are stored as `[n, height, width, channels]`.
    pub(super) fn images(stored: Tensor) -> View {
        View::stored(stored, vec![0, 3, 1, 2])
    }

    pub(super) fn rank(&self) -> usize {
        self.order.len()
    }

    /// The value's extents.
    pub(super) fn dims(&self) -> Vec<usize> {
        self.order
            .iter()
            .map(|&a| self.stored.shape().dims()[a])
            .collect()
    }

    pub(super) fn tensor(&self) -> &Tensor {
        &self.stored
    }

    /// Where the value's axis lies in the stored tensor.
    pub(super) fn place(&self, axis: usize) -> usize {
        self.order[axis]
    }

    /// Which of the value's axes lies at each place of the stored tensor.
    pub(super) fn places(&self) -> Vec<usize> {
        let mut places = vec![0; self.order.len()];
        self.order.iter().enumerate().for_each(|(i, &a)| places[a] = i);
        places
    }

    /// Another tensor with the same axes in the same places.
    pub(super) fn like(&self, stored: Tensor) -> View {
        View::stored(stored, self.order.clone())
    }

    /// The value's axes reordered: axis `i` of the result is axis `order[i]` of the value.
    pub(super) fn transposed(&self, order: &[usize]) -> View {
        let order = order.iter().map(|&a| self.order[a]).collect();
        View::stored(self.stored.clone(), order)
    }

    /// A tensor whose axis `i` is the value's axis `wanted[i]`.
    pub(super) fn arranged(&self, wanted: &[usize]) -> Tensor {
        let order: Vec<usize> = wanted.iter().map(|&a| self.order[a]).collect();
        if order.iter().copied().eq(0..order.len()) {
            return self.stored.clone();
        }
        let dims = self.stored.shape().dims();
        let moved: Vec<usize> = order.iter().copied().filter(|&a| dims[a] != 1).collect();
        match moved.is_sorted() {
            // Nothing but axes of extent 1 moves.
            true => self
                .stored
                .reshape(order.iter().map(|&a| dims[a]).collect::<Vec<_>>()),
            false => self.stored.transpose(&order),
        }
    }

    /// The value, its axes in order.
    pub(super) fn in_order(&self) -> Tensor {
        self.arranged(&(0..self.rank()).collect::<Vec<_>>())
    }

    /// The value with extents of 1 put in front until it has `rank` axes.
    pub(super) fn widened(&self, rank: usize) -> View {
        if self.rank() >= rank {
            return self.clone();
        }
        let dims = [vec![1; rank - self.rank()], self.dims()].concat();
        View::plain(self.in_order().reshape(dims))
    }

    /// Two values as tensors whose axes lie alike, ready for an elementwise op, and the view its result has.
    pub(super) fn paired(&self, other: &View) -> (Tensor, Tensor, View) {
        let size = |v: &View| v.tensor().shape().elements();
        let first = (self.rank(), size(self)) >= (other.rank(), size(other));
        let (leader, follower) = if first { (self, other) } else { (other, self) };
        let arranged = follower.widened(leader.rank()).arranged(&leader.places());
        match first {
            true => (leader.stored.clone(), arranged, leader.clone()),
            false => (arranged, leader.stored.clone(), leader.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(dims: &[usize]) -> Tensor {
        let n: usize = dims.iter().product();
        Tensor::new((0..n).map(|i| i as f32).collect::<Vec<_>>(), dims)
    }

    #[test]
    fn orders_that_cancel_leave_the_stored_tensor_untouched() -> synod_engine::Result<()> {
        let images = counted(&[2, 3, 4, 5]);
        let view = View::images(images.clone());
        assert_eq!(view.dims(), [2, 5, 3, 4]);
        assert_eq!(view.arranged(&[0, 2, 3, 1]).values()?, images.values()?);
        let back = view.transposed(&[0, 2, 3, 1]);
        assert_eq!(back.in_order().shape(), images.shape());
        assert_eq!(
            view.in_order().values()?,
            images.transpose(&[0, 3, 1, 2]).values()?
        );
        Ok(())
    }

    #[test]
    fn pairs_line_up_by_the_values_axes() -> synod_engine::Result<()> {
        let view = View::images(counted(&[2, 3, 4, 5]));
        let bias = View::plain(counted(&[5, 1, 1]));
        let (x, y, result) = bias.paired(&view);
        let sum = result.like(x + y).in_order();
        let wanted = view.in_order() + counted(&[1, 5, 1, 1]);
        assert_eq!(sum.values()?, wanted.values()?);
        Ok(())
    }
}
