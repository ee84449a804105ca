//! What measures how unusual a row of features is.

mod autoencoder;
mod covariance;
mod focus;
mod pca;

use serde::{Deserialize, Serialize};

pub use autoencoder::{Autoencoder, Training};
pub use covariance::Covariance;
pub use focus::Focus;
pub use pca::Pca;

use crate::eigen::Directions;
use crate::error::Result;
use crate::moments::Moments;
use crate::rows::Rows;

/// Something that has learnt what rows usually look like.
pub trait Detector {
    /// How unusual every row is: 0 or more, in no particular unit.
    fn sizes(&self, rows: &Rows) -> Vec<f32>;

    /// What the detector would have expected instead of a row, and each feature's part of the row's size.
    fn explain(&self, row: &[f32]) -> Parts;
}

/// Why a row is unusual.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// The row as it was expected.
    pub expected: Vec<f32>,
    /// Each feature's part of the size; not negative.
    pub shares: Vec<f32>,
}

/// A kind of detector with its settings, not yet fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The distance from the mean in terms of a shrunk covariance.
    Covariance {
        /// What is added to every variance, as a multiple of their mean.
        ridge: f64,
    },
    /// The largest deviations of single features from what the others foretell.
    Focus {
        /// What is added to every variance, as a multiple of their mean.
        ridge: f64,
        /// How many of the largest count.
        top: usize,
    },
    /// The distance from the plane of the largest variances.
    Pca {
        /// The share of variance in the plane.
        share: f64,
    },
    /// The error of a network that reproduces healthy rows.
    Autoencoder(Training),
}

/// A fitted detector of any kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fitted {
    /// See [`Kind::Covariance`].
    Covariance(Covariance),
    /// See [`Kind::Focus`].
    Focus(Focus),
    /// See [`Kind::Pca`].
    Pca(Pca),
    /// See [`Kind::Autoencoder`].
    Autoencoder(Autoencoder),
}

/// A fitted detector and what it would have said of its training rows, had it not seen them.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The detector.
    pub fitted: Fitted,
    /// The size of every training row.
    pub sizes: Vec<f32>,
    /// The first row whose size comes from a detector that had not seen it; those before it were trained on.
    pub unseen_from: usize,
}

/// Blocks of time for which cheap detectors are fitted without them, to see how they do on unseen rows.
const BLOCKS: usize = 4;

/// The share of the rows, the last ones, that a network is not trained on.
const UNSEEN: f64 = 0.2;

impl Kind {
    /// Fits a detector to rows in order of time, of which those not to `keep` are left out of the fit.
    pub fn fit(&self, rows: &Rows, keep: &[bool], seed: u64) -> Result<Trial> {
        match self {
            Kind::Covariance { ridge } => Ok(blocked(rows, keep, |moments, start| {
                let (fitted, start) = Covariance::from_moments(moments, *ridge, start);
                (Fitted::Covariance(fitted), start)
            })),
            Kind::Focus { ridge, top } => Ok(blocked(rows, keep, |moments, start| {
                let (fitted, start) = Focus::from_moments(moments, *ridge, *top, start);
                (Fitted::Focus(fitted), start)
            })),
            Kind::Pca { share } => Ok(blocked(rows, keep, |moments, start| {
                let (fitted, start) = Pca::from_moments(moments, *share, start);
                (Fitted::Pca(fitted), start)
            })),
            Kind::Autoencoder(training) => {
                let seen = rows.len() - (rows.len() as f64 * UNSEEN) as usize;
                let fitted = Autoencoder::fit(&rows.slice(0..seen).filter(keep), training, seed)?;
                let sizes = fitted.sizes(rows);
                let fitted = Fitted::Autoencoder(fitted);
                Ok(Trial {
                    fitted,
                    sizes,
                    unseen_from: seen,
                })
            }
        }
    }
}

/// Fits from sums: once from all blocks, and for each block from the others.
fn blocked(
    rows: &Rows,
    keep: &[bool],
    fit: impl Fn(&Moments, Option<&Directions>) -> (Fitted, Directions),
) -> Trial {
    let count = rows.len();
    let edge = |b: usize| b * count / BLOCKS;
    let ranges: Vec<_> = (0..BLOCKS).map(|b| edge(b)..edge(b + 1)).collect();
    let part = |r: &std::ops::Range<usize>| Moments::of(&rows.slice(r.clone()).filter(&keep[r.clone()]));
    let parts: Vec<Moments> = ranges.iter().map(part).collect();
    let sum = |without: Option<usize>| {
        let mut sum = Moments::empty(rows.width());
        let others = parts.iter().enumerate().filter(|(b, _)| Some(*b) != without);
        others.for_each(|(_, p)| sum.add(p));
        sum
    };
    let (fitted, start) = fit(&sum(None), None);
    let mut sizes = Vec::with_capacity(count);
    for (b, range) in ranges.iter().enumerate() {
        let others = sum(Some(b));
        // Too few other rows to fit anything: better to have seen them than to have no answer.
        let one = if others.count() > 1.0 {
            fit(&others, Some(&start)).0
        } else {
            fitted.clone()
        };
        sizes.extend(one.sizes(&rows.slice(range.clone())));
    }
    Trial {
        fitted,
        sizes,
        unseen_from: 0,
    }
}

impl Fitted {
    /// Whether its parts fit together and rows of a width.
    pub(crate) fn suits(&self, width: usize) -> bool {
        match self {
            Fitted::Covariance(d) => d.suits(width),
            Fitted::Focus(d) => d.suits(width),
            Fitted::Pca(d) => d.suits(width),
            Fitted::Autoencoder(d) => d.suits(width),
        }
    }
}

impl Detector for Fitted {
    fn sizes(&self, rows: &Rows) -> Vec<f32> {
        match self {
            Fitted::Covariance(d) => d.sizes(rows),
            Fitted::Focus(d) => d.sizes(rows),
            Fitted::Pca(d) => d.sizes(rows),
            Fitted::Autoencoder(d) => d.sizes(rows),
        }
    }

    fn explain(&self, row: &[f32]) -> Parts {
        match self {
            Fitted::Covariance(d) => d.explain(row),
            Fitted::Focus(d) => d.explain(row),
            Fitted::Pca(d) => d.explain(row),
            Fitted::Autoencoder(d) => d.explain(row),
        }
    }
}
