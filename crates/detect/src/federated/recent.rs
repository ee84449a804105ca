//! Histories cut short, to see how much training data it takes.

use synod_telemetry::Frame;

use crate::error::Result;
use crate::learn::History;

/// How much of the training windows is kept: always the last ones.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Keep {
    /// One part of so many.
    Part(usize),
    /// So many seconds.
    Seconds(i64),
}

impl Keep {
    /// The last training windows; those of the test begin after them.
    pub fn of(&self, train: &Frame) -> Frame {
        let rows = train.rows();
        let kept = match self {
            Keep::Part(parts) => rows / (*parts).max(1),
            Keep::Seconds(seconds) => {
                let last = train.times().last().copied().unwrap_or(0) + train.step();
                rows - train.times().partition_point(|t| *t < last - seconds)
            }
        };
        train.slice(rows - kept..rows)
    }
}

/// Another history with less to learn from.
pub struct Recent<'a> {
    /// The whole.
    pub history: &'a dyn History,
    /// How much of it.
    pub keep: Keep,
}

impl History for Recent<'_> {
    fn nodes(&self) -> usize {
        self.history.nodes()
    }

    fn node(&self, index: usize) -> Result<(Frame, Frame, Vec<String>)> {
        let (train, test, notes) = self.history.node(index)?;
        Ok((self.keep.of(&train), test, notes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_windows_are_kept() {
        let times: Vec<i64> = (0..100)
            .map(|i| i * 900 + if i > 50 { 9000 } else { 0 })
            .collect();
        let values = (0..100).map(|i| i as f32).collect();
        let train = Frame::new("n", 900, times, vec!["m".to_owned()], values).expect("a frame");
        assert_eq!(Keep::Part(1).of(&train), train);
        assert_eq!(Keep::Part(8).of(&train).values()[0], 88.0);
        assert_eq!(Keep::Seconds(3600).of(&train).values(), [96.0, 97.0, 98.0, 99.0]);
        assert_eq!(Keep::Seconds(i64::MAX / 4).of(&train).rows(), 100);
    }
}
