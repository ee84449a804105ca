//! Numbers of a file, brought to a scale that training likes.

use serde_json::{Value, json};

use super::config::{DataConfig, Standardise};
use super::data::Rows;

/// What turns numbers of the file into numbers for the model: minus mean, over deviation.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    /// One number, or one for each column.
    mean: Vec<f32>,
    deviation: Vec<f32>,
}

impl Scale {
    /// Learns from the training rows what the configuration asks for.
    pub(super) fn new(config: &DataConfig, train: &Rows) -> Scale {
        let (mean, deviation) = match config.standardise {
            None => (vec![0.0], vec![config.divide_by.unwrap_or(1.0)]),
            Some(Standardise::All) => moments(&train.inputs, 1),
            Some(Standardise::Columns) => moments(&train.inputs, train.width),
        };
        Scale { mean, deviation }
    }

    /// Brings rows to scale, in place.
    pub(super) fn apply(&self, rows: &mut [f32]) {
        if let ([mean], [deviation]) = (&self.mean[..], &self.deviation[..]) {
            rows.iter_mut().for_each(|x| *x = (*x - mean) / deviation);
            return;
        }
        for row in rows.chunks_mut(self.mean.len().max(1)) {
            for ((x, mean), deviation) in row.iter_mut().zip(&self.mean).zip(&self.deviation) {
                *x = (*x - mean) / deviation;
            }
        }
    }

    /// For the summary: whoever uses the model needs it.
    pub(super) fn to_json(&self) -> Value {
        json!({ "mean": self.mean, "deviation": self.deviation })
    }
}

/// Mean and deviation of each column; a column that does not vary keeps its numbers, moved to zero.
fn moments(values: &[f32], width: usize) -> (Vec<f32>, Vec<f32>) {
    let rows = (values.len() / width.max(1)).max(1) as f64;
    let (mut sum, mut squares) = (vec![0.0f64; width], vec![0.0f64; width]);
    for row in values.chunks_exact(width.max(1)) {
        sum.iter_mut().zip(row).for_each(|(s, x)| *s += f64::from(*x));
    }
    let mean: Vec<f64> = sum.iter().map(|s| s / rows).collect();
    for row in values.chunks_exact(width.max(1)) {
        for ((s, x), m) in squares.iter_mut().zip(row).zip(&mean) {
            *s += (f64::from(*x) - m).powi(2);
        }
    }
    let deviation = squares.iter().map(|s| match (s / rows).sqrt() as f32 {
        d if d > 0.0 => d,
        _ => 1.0,
    });
    (mean.iter().map(|m| *m as f32).collect(), deviation.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standardised_columns_have_mean_zero_and_unit_deviation() {
        let (mean, deviation) = moments(&[1.0, 7.0, 3.0, 7.0, 5.0, 7.0, 7.0, 7.0], 2);
        assert_eq!(mean, [4.0, 7.0]);
        assert_eq!(
            deviation,
            [5.0f32.sqrt(), 1.0],
            "a constant column is not divided by zero"
        );
        let scale = Scale { mean, deviation };
        let mut row = [4.0, 9.0];
        scale.apply(&mut row);
        assert_eq!(row, [0.0, 2.0]);
    }
}
