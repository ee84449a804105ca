//! What training makes small.

use serde::{Deserialize, Serialize};
use synod_engine::{Shape, Tensor};

/// A scalar measure of how far outputs are from targets, averaged over the batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Mean squared error.
    Mse,
    /// Its root.
    Rmse,
    /// Mean absolute error.
    Mae,
    /// Squared below `delta`, linear above.
    Huber {
        /// Where it turns linear.
        delta: f32,
    },
    /// Binary cross-entropy of logits and targets in 0..=1.
    Bce,
    /// Cross-entropy of logits `[..., classes]` and as many class indices as there are rows of logits.
    CrossEntropy,
}

impl Loss {
    /// The loss of a batch.
    #[track_caller]
    pub fn apply(self, output: &Tensor, target: &Tensor) -> Tensor {
        match self {
            Loss::Mse => mse(output, target),
            // Below the smallest normal number the root has no usable slope.
            Loss::Rmse => mse(output, target).maximum(f32::MIN_POSITIVE).sqrt(),
            Loss::Mae => (output - target).abs().mean_all(),
            Loss::Huber { delta } => {
                let e = (output - target).abs();
                let square = &e * &e * 0.5;
                let line = (&e - 0.5 * delta) * delta;
                e.less(delta).select(square, line).mean_all()
            }
            // max(x, 0) - x·t + ln(1 + e^-|x|), which never overflows.
            Loss::Bce => {
                let soft = ((-output.abs()).exp() + 1.0).log();
                (output.relu() - output * target + soft).mean_all()
            }
            Loss::CrossEntropy => {
                let rows = output
                    .shape()
                    .dims()
                    .split_last()
                    .map_or(&[][..], |(_, rows)| rows);
                output.cross_entropy(&target.reshape(rows))
            }
        }
    }

    /// How many numbers of a target row the loss reads, given the shape of one result.
    pub fn target_width(self, output: &Shape) -> usize {
        match (self, output.dims()) {
            (Loss::CrossEntropy, [rows @ .., _]) => rows.iter().product(),
            _ => output.elements(),
        }
    }
}

#[track_caller]
fn mse(output: &Tensor, target: &Tensor) -> Tensor {
    let e = output - target;
    (&e * &e).mean_all()
}
