//! Changes of telemetry.

use super::{Augmentation, Draws, image::Extent};

/// A change of a window of telemetry. NaN, which is what missing values are, stays NaN unless it is masked.
#[derive(Clone, Debug, PartialEq)]
pub enum Series {
    /// Adds normal noise to every value.
    Jitter {
        /// Standard deviation of the noise.
        sigma: f32,
    },
    /// Multiplies every channel by a number near 1, the same at all steps.
    Scale {
        /// Standard deviation of the number.
        sigma: f32,
    },
    /// Replaces a share of the values.
    Mask {
        /// The probability of each value to be replaced.
        share: f32,
        /// What by; NaN for missing.
        fill: f32,
    },
    /// Moves the window by up to `most` steps either way; the first or last step is repeated.
    TimeShift {
        /// The most steps to move by.
        most: usize,
    },
}

impl Augmentation for Series {
    fn problem(&self, [steps, ..]: Extent) -> Option<String> {
        match self {
            Series::Jitter { sigma } | Series::Scale { sigma } if !(*sigma >= 0.0 && sigma.is_finite()) => {
                Some(format!("{sigma} is not a standard deviation"))
            }
            Series::Mask { share, .. } if !(0.0..=1.0).contains(share) => {
                Some(format!("{share} is not a share; it should lie between 0 and 1"))
            }
            Series::TimeShift { most } if *most >= steps.max(1) => Some(format!(
                "a shift by {most} may lose a whole window of {steps} steps"
            )),
            _ => None,
        }
    }

    fn change(&self, [steps, _, channels]: Extent, draws: &mut Draws, values: &mut [f32], _: &mut Vec<f32>) {
        if values.is_empty() {
            return;
        }
        match *self {
            Series::Jitter { sigma } => values.iter_mut().for_each(|v| *v += sigma * draws.normal()),
            Series::Scale { sigma } => {
                for c in 0..channels {
                    let factor = 1.0 + sigma * draws.normal();
                    values[c..]
                        .iter_mut()
                        .step_by(channels)
                        .for_each(|v| *v *= factor);
                }
            }
            Series::Mask { share, fill } => {
                for value in values {
                    if draws.uniform() < share {
                        *value = fill;
                    }
                }
            }
            Series::TimeShift { most } => {
                let later = draws.below(2 * most + 1) as isize - most as isize;
                let (by, last) = (later.unsigned_abs() * channels, (steps - 1) * channels);
                if later > 0 {
                    values.copy_within(..values.len() - by, by);
                    for step in 1..later as usize {
                        values.copy_within(..channels, step * channels);
                    }
                } else if later < 0 {
                    values.copy_within(by.., 0);
                    for step in values.len() / channels - later.unsigned_abs()..steps - 1 {
                        values.copy_within(last.., step * channels);
                    }
                }
            }
        }
    }
}
