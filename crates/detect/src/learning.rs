//! How nodes come to their detectors, and what ways of learning are made of.
//!
//! A way of learning is a [`Learner`]; [`Alone`] is the plainest. Others fit a [`Draft`] as they like, may tell what it
//! [`Found`] its members and scores to be, and finish it by itself or by the [`Marks`] that others set.

use std::sync::Arc;

use synod_core::Frame;

pub use crate::habits::Habits;
pub use crate::model::{Draft, Fit, Found, Mark, Marks, Spread, healthy};

use crate::detector::Covariance;
use crate::error::Result;
use crate::model::NodeModel;
use crate::moments::Moments;
use crate::recipe::Recipe;
use crate::rows::Rows;

/// Where nodes' windows come from, one node at a time: no more are in memory than are worked on.
pub trait History: Sync {
    /// How many nodes there are.
    fn nodes(&self) -> usize;

    /// Training and test windows of one node, with what a reader should know of how they were read.
    fn node(&self, index: usize) -> Result<(Frame, Frame, Vec<String>)>;
}

/// A way, or several ways beside each other, of learning nodes.
pub trait Learner: Sync {
    /// The detectors of a node, one for every way, from its training windows.
    fn learn(&self, index: usize, train: &Frame) -> Result<Vec<Arc<NodeModel>>>;
}

/// Every node from its own windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Alone(pub Recipe);

impl Learner for Alone {
    fn learn(&self, index: usize, train: &Frame) -> Result<Vec<Arc<NodeModel>>> {
        NodeModel::fit(train, &self.0.of_node(index)).map(|model| vec![Arc::new(model)])
    }
}

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

/// How unlikely rows are for a Gaussian of some moments, with a multiple of their mean added to every variance: the mean of
/// minus the logarithm of their density per feature, less a constant.
pub fn surprise(moments: &Moments, ridge: f64, rows: &Rows) -> f64 {
    Covariance::from_moments(moments, ridge, None).0.surprise(rows)
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
