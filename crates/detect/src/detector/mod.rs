//! What measures how unusual a row of features is.

mod autoencoder;
mod covariance;
mod focus;
mod lstm;
mod outside;
mod pca;

use serde::{Deserialize, Serialize};

pub use autoencoder::hide;
pub use autoencoder::{Autoencoder, Training};
pub(crate) use covariance::BATCH;
pub use covariance::Covariance;
pub use focus::Focus;
pub use lstm::{Lstm, Sequences};
pub use outside::{ByMethod, Guest, Method, Outside};
pub use pca::Pca;

use crate::eigen::Directions;
use crate::error::{Error, Result};
use crate::moments::Moments;
use crate::rows::Rows;

/// Something that has learnt what rows usually look like.
pub trait Detector {
    /// How many rows before one its size depends on; where there are fewer, it makes do with those.
    fn look_back(&self) -> usize {
        0
    }

    /// How unusual the last rows are, as many as `sizes` has places: 0 or more, in no particular unit. A row's size depends on it
    /// and on [`Detector::look_back`] rows before it alone, to the bit, however many are asked about at once. `space` is room to
    /// work in, which is kept from call to call.
    fn judge(&self, rows: &Rows, space: &mut Vec<f32>, sizes: &mut [f32]);

    /// What the detector would have expected instead of the last of rows, and each feature's part of its size.
    fn explain(&self, rows: &Rows) -> Parts;

    /// How unusual every row is.
    fn sizes(&self, rows: &Rows) -> Vec<f32> {
        let mut sizes = vec![0.0; rows.len()];
        self.judge(rows, &mut vec![], &mut sizes);
        sizes
    }
}

/// The last rows of some, as many as asked for.
fn last(rows: &Rows, count: usize) -> &[f32] {
    &rows.values()[(rows.len() - count.min(rows.len())) * rows.width()..]
}

/// The first places of a room, which grows if it has fewer.
fn room(space: &mut Vec<f32>, places: usize) -> &mut [f32] {
    if space.len() < places {
        space.resize(places, 0.0);
    }
    &mut space[..places]
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
#[derive(Clone, Debug, PartialEq)]
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
    /// The error of a network that reproduces healthy sequences of rows.
    LstmAutoencoder(Sequences),
    /// Whatever somebody outside has made.
    Outside(ByMethod),
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
    /// See [`Kind::LstmAutoencoder`].
    LstmAutoencoder(Lstm),
    /// See [`Kind::Outside`].
    Outside(Outside),
}

/// A fitted detector and what it would have said of its training rows, had it not seen them.
#[derive(Clone, Debug)]
pub struct FittedOnTrial {
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

/// How rows of other nodes vary, and how many rows of one's own that is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    /// Rows.
    pub worth: f64,
    /// The covariance, row-major.
    pub covariance: Vec<f64>,
}

impl Kind {
    /// Whether it is fitted from sums, and so can lean on those of others.
    pub fn leans(&self) -> bool {
        matches!(
            self,
            Kind::Covariance { .. } | Kind::Focus { .. } | Kind::Pca { .. }
        )
    }

    /// Fits a detector to rows in order of time, of which those not to `keep` are left out of the fit.
    /// Unless `spare`, networks learn from all of them, and say nothing of unseen ones.
    pub fn fit(&self, rows: &Rows, keep: &[bool], spare: bool, seed: u64) -> Result<FittedOnTrial> {
        self.fit_leaning(rows, keep, None, spare, seed)
    }

    /// The same, leaning on what others know. What is not fitted from sums does not.
    pub fn fit_leaning(
        &self,
        rows: &Rows,
        keep: &[bool],
        prior: Option<&Prior>,
        spare: bool,
        seed: u64,
    ) -> Result<FittedOnTrial> {
        match self {
            Kind::Covariance { ridge } => Ok(blocked(rows, keep, prior, |moments, start| {
                let (fitted, start) = Covariance::from_moments(moments, *ridge, start);
                (Fitted::Covariance(fitted), start)
            })),
            Kind::Focus { ridge, top } => Ok(blocked(rows, keep, prior, |moments, start| {
                let (fitted, start) = Focus::from_moments(moments, *ridge, *top, start);
                (Fitted::Focus(fitted), start)
            })),
            Kind::Pca { share } => Ok(blocked(rows, keep, prior, |moments, start| {
                let (fitted, start) = Pca::from_moments(moments, *share, start);
                (Fitted::Pca(fitted), start)
            })),
            Kind::Autoencoder(training) => held_out(rows, keep, spare, |seen, keep| {
                let fitted = Autoencoder::fit(&seen.filter(keep), training, seed)?;
                Ok(Fitted::Autoencoder(fitted))
            }),
            Kind::LstmAutoencoder(sequences) => held_out(rows, keep, spare, |seen, keep| {
                let fitted = Lstm::fit(seen, keep, sequences, seed)?;
                Ok(Fitted::LstmAutoencoder(fitted))
            }),
            Kind::Outside(ByMethod(method)) => held_out(rows, keep, spare, |seen, keep| {
                let guest = method.fit(seen, keep, seed)?;
                Ok(Fitted::Outside(Outside::new(method.name(), guest)))
            }),
        }
    }
}

/// How many rows a network learns from: all but the last, or all if none are to be spared.
pub fn learnt_from(rows: usize, spare: bool) -> usize {
    match spare {
        true => rows - (rows as f64 * UNSEEN) as usize,
        false => rows,
    }
}

/// Fits to all but the last rows, or to all if none are to be spared.
pub fn held_out(
    rows: &Rows,
    keep: &[bool],
    spare: bool,
    fit: impl FnOnce(&Rows, &[bool]) -> Result<Fitted>,
) -> Result<FittedOnTrial> {
    let seen = learnt_from(rows.len(), spare);
    let keep = &keep[..seen.min(keep.len())];
    if !keep.contains(&true) {
        return Err(Error::Setting(
            "none of the windows to train on is healthy; train on another or a longer time".into(),
        ));
    }
    let fitted = fit(&rows.slice(0..seen), keep)?;
    let sizes = fitted.sizes(rows);
    Ok(FittedOnTrial {
        fitted,
        sizes,
        unseen_from: seen,
    })
}

/// A size that stays a number, whatever it was computed from.
fn bounded(size: f64) -> f32 {
    match size {
        s if s.is_nan() => f32::MAX,
        s => s.clamp(0.0, f64::from(f32::MAX)) as f32,
    }
}

/// Fits from sums: once from all blocks, and for each block from the others.
fn blocked(
    rows: &Rows,
    keep: &[bool],
    prior: Option<&Prior>,
    fit: impl Fn(&Moments, Option<&Directions>) -> (Fitted, Directions),
) -> FittedOnTrial {
    let count = rows.len();
    let edge = |b: usize| b * count / BLOCKS;
    let ranges: Vec<_> = (0..BLOCKS).map(|b| edge(b)..edge(b + 1)).collect();
    let part = |r: &std::ops::Range<usize>| Moments::of(&rows.slice(r.clone()).filter(&keep[r.clone()]));
    let parts: Vec<Moments> = ranges.iter().map(part).collect();
    let sum = |without: Option<usize>| {
        let mut sum = Moments::empty(rows.width());
        let others = parts.iter().enumerate().filter(|(b, _)| Some(*b) != without);
        others.for_each(|(_, p)| sum.add(p));
        if let Some(prior) = prior {
            sum.lean(prior.worth, &prior.covariance);
        }
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
    FittedOnTrial {
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
            Fitted::LstmAutoencoder(d) => d.suits(width),
            Fitted::Outside(d) => d.suits(width),
        }
    }

    fn detector(&self) -> &dyn Detector {
        match self {
            Fitted::Covariance(d) => d,
            Fitted::Focus(d) => d,
            Fitted::Pca(d) => d,
            Fitted::Autoencoder(d) => d,
            Fitted::LstmAutoencoder(d) => d,
            Fitted::Outside(d) => d,
        }
    }
}

impl Detector for Fitted {
    fn look_back(&self) -> usize {
        self.detector().look_back()
    }

    fn judge(&self, rows: &Rows, space: &mut Vec<f32>, sizes: &mut [f32]) {
        self.detector().judge(rows, space, sizes);
    }

    fn explain(&self, rows: &Rows) -> Parts {
        self.detector().explain(rows)
    }
}
