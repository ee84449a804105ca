//! What users write on batches of images `[n, height, width, channels]`.

use crate::error::Site;
use crate::ops::{BatchNorm, BatchNormRole, Conv, ConvRole, Pool, PoolRole, Slide, Window};
use crate::tensor::{Tensor, one};
use crate::trace::emit;

impl Tensor {
    /// The convolution with weights `[taps down, taps across, channels / groups, outputs]`.
    ///
    /// ```
    /// use synod_engine::Tensor;
    /// use synod_engine::ops::Slide;
    /// let image = Tensor::new((0..9).map(|i| i as f32).collect::<Vec<_>>(), [1, 3, 3, 1]);
    /// let sums = image.conv(&Tensor::full(1.0, [2, 2, 1, 1]), &Slide::by(1), 1);
    /// assert_eq!(sums.values()?, [8.0, 12.0, 20.0, 24.0]);
    /// # Ok::<(), synod_engine::Error>(())
    /// ```
    #[track_caller]
    pub fn conv(&self, weights: &Tensor, slide: &Slide, groups: usize) -> Tensor {
        let kernel = match *weights.shape().dims() {
            [p, q, _, _] => [p, q],
            _ => [1, 1],
        };
        let (role, window) = (ConvRole::Forward, over(self, slide, kernel));
        one(Conv { role, window, groups }, &[self, weights], Site::caller())
    }

    /// Every channel, the last axis, brought to mean 0 and variance 1, scaled and shifted; with `relu`, what is negative
    /// becomes zero. Also the mean and the biased variance of every channel.
    ///
    /// ```
    /// use synod_engine::Tensor;
    /// let x = Tensor::new([1.0, 10.0, 3.0, 10.0], [2, 2]);
    /// let (y, [mean, variance]) = x.batch_norm(&Tensor::full(2.0, [2]), &Tensor::zeros([2]), 0.0, false);
    /// assert_eq!([mean.values()?, variance.values()?], [[2.0, 10.0], [1.0, 0.0]]);
    /// assert_eq!(y.values()?[0], -2.0);
    /// # Ok::<(), synod_engine::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm(&self, scale: &Tensor, shift: &Tensor, eps: f32, relu: bool) -> (Tensor, [Tensor; 2]) {
        let role = BatchNormRole::Forward;
        let op = BatchNorm { role, eps, relu };
        let outs = emit(op.into(), &[self, scale, shift], Site::caller());
        let out = |i: usize| outs.get(i).unwrap_or(self).clone();
        (out(0), [out(1), out(2)])
    }

    /// The largest element of every window of `kernel` taps, channel by channel.
    #[track_caller]
    pub fn max_pool(&self, kernel: [usize; 2], slide: &Slide) -> Tensor {
        let (role, window) = (PoolRole::MaxPick, over(self, slide, kernel));
        one(Pool { role, window }, &[self, self], Site::caller())
    }

    /// The sum of every window, channel by channel.
    #[track_caller]
    pub fn sum_pool(&self, kernel: [usize; 2], slide: &Slide) -> Tensor {
        let (role, window) = (PoolRole::Sum, over(self, slide, kernel));
        one(Pool { role, window }, &[self], Site::caller())
    }

    /// The mean of every window, channel by channel; padding counts as zeros, or, with `count_padding` off, not at all.
    #[track_caller]
    pub fn average_pool(&self, kernel: [usize; 2], slide: &Slide, count_padding: bool) -> Tensor {
        let sum = self.sum_pool(kernel, slide);
        if sum.error().is_some() {
            return sum;
        }
        let window = over(self, slide, kernel);
        match (count_padding, window.coverage(), window.output()) {
            (false, Ok(counts), Ok([h, w])) if window.padding != [[0, 0]; 2] => {
                let shares: Vec<f32> = counts.iter().map(|&n| 1.0 / n.max(1) as f32).collect();
                sum * Tensor::new(shares, [h, w, 1])
            }
            _ => sum * (1.0 / (kernel[0] * kernel[1]) as f32),
        }
    }
}

/// The window over these images; whatever is wrong with them is for the op to say.
fn over(images: &Tensor, slide: &Slide, kernel: [usize; 2]) -> Window {
    let extents = match *images.shape().dims() {
        [_, h, w, _] => [h, w],
        _ => [0, 0],
    };
    slide.over(extents, kernel)
}
