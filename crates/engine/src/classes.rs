//! What users write on scores of classes, which run along the last axis.

use crate::error::Site;
use crate::tensor::Tensor;
use crate::trace::mistake;

impl Tensor {
    /// `e^x` over its sum along the last axis, safe for large values.
    #[track_caller]
    pub fn softmax(&self) -> Tensor {
        let e = (self - self.keep_last(&self.max(&self.last_axis()))).exp();
        let total = self.keep_last(&e.sum(&self.last_axis()));
        e / total
    }

    /// The logarithm of [`Tensor::softmax`], safe for large values.
    #[track_caller]
    pub fn log_softmax(&self) -> Tensor {
        let shifted = self - self.keep_last(&self.max(&self.last_axis()));
        let total = self.keep_last(&shifted.exp().sum(&self.last_axis()));
        shifted - total.log()
    }

    /// The mean over all rows of the cross-entropy of these logits `[..., classes]` and class indices `[...]`.
    #[track_caller]
    pub fn cross_entropy(&self, classes: &Tensor) -> Tensor {
        let hot = classes.one_hot(self.class_count());
        let picked = hot.select(self.log_softmax(), 0.0);
        -picked.sum(&self.last_axis()).mean_all()
    }

    /// The index of the largest element along the last axis, the first of equals. A row with a NaN has none and gives the
    /// axis' extent. Its gradient is zero.
    #[track_caller]
    pub fn argmax(&self) -> Tensor {
        let (last, count) = (self.last_axis(), self.class_count());
        if last.is_empty() || count == 0 {
            let problem = format!(
                "argmax needs at least one element along the last axis of {}",
                self.shape()
            );
            return Tensor::poisoned(mistake(problem, Site::caller()));
        }
        let largest = self.equals(self.keep_last(&self.max(&last)));
        largest.select(iota(count), count as f32).min(&last)
    }

    /// 1 at the class each index names and 0 elsewhere, along a new last axis; all 0 for an index that names none. Its
    /// gradient is zero.
    #[track_caller]
    pub fn one_hot(&self, classes: usize) -> Tensor {
        let dims = [self.shape().dims(), &[1]].concat();
        self.reshape(dims).equals(iota(classes))
    }

    /// 1 where the named class has one of the `k` highest scores, else 0; of equal scores the first ranks higher. Scores
    /// are `[..., classes]`, classes `[...]`. The mean is the top-k accuracy; its gradient is zero.
    #[track_caller]
    pub fn in_top_k(&self, classes: &Tensor, k: usize) -> Tensor {
        let (last, count) = (self.last_axis(), self.class_count());
        let hot = classes.one_hot(count);
        let score = self.keep_last(&hot.select(self, 0.0).sum(&last));
        let before = iota(count).less(classes.reshape(self.keep_dims()));
        let above = self.greater(&score);
        let tie = self.equals(&score).select(before, 0.0);
        let ranks = (above + tie).sum(&last);
        // A class that does not exist, or has no score that compares, is in no top.
        let ranked = self.equals(&score).select(&hot, 0.0).sum(&last);
        ranks.less(k as f32).select(ranked, 0.0)
    }

    fn class_count(&self) -> usize {
        self.shape().dims().last().copied().unwrap_or(0)
    }

    fn last_axis(&self) -> Vec<usize> {
        self.shape().rank().checked_sub(1).into_iter().collect()
    }

    fn keep_dims(&self) -> Vec<usize> {
        let mut dims = self.shape().dims().to_vec();
        dims.iter_mut().last().into_iter().for_each(|d| *d = 1);
        dims
    }

    /// A tensor reduced along the last axis of this one, with that axis back at extent 1.
    #[track_caller]
    fn keep_last(&self, reduced: &Tensor) -> Tensor {
        reduced.reshape(self.keep_dims())
    }
}

/// `0, 1, 2, ...`
fn iota(n: usize) -> Tensor {
    Tensor::new((0..n).map(|i| i as f32).collect::<Vec<_>>(), [n])
}
