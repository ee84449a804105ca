//! Which windows teach and which test.

use serde::{Deserialize, Serialize};
use synod_core::config::{Mistake, Section};
use synod_core::{Frame, Random};

use crate::error::{Error, Result};

/// The stream of random splits.
const SPLIT: u64 = 0x5eed;

/// How a node's windows are divided when the data do not come divided.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// In time or at random.
    pub kind: SplitKind,
    /// The share of the windows that teaches.
    pub train: f64,
}

/// How windows are divided.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SplitKind {
    /// The first windows teach, the later ones test: what a detector meets in use.
    #[default]
    Chronological,
    /// Windows teach or test by lot. Neighbours in time are nearly equal, so the test is much easier than use.
    Random,
}

impl Default for Split {
    fn default() -> Split {
        Split {
            kind: SplitKind::Chronological,
            train: 0.5,
        }
    }
}

impl Split {
    /// Whether it leaves windows to train on and to test.
    pub fn check(&self) -> Result<()> {
        match self.train > 0.0 && self.train < 1.0 {
            true => Ok(()),
            false => Err(Error::Share(self.train)),
        }
    }

    /// The training and the test windows, both in order of time.
    pub fn apply(&self, frame: &Frame, seed: u64) -> Result<(Frame, Frame)> {
        self.check()?;
        let rows = frame.rows();
        let count = (rows as f64 * self.train) as usize;
        Ok(match self.kind {
            SplitKind::Chronological => (frame.slice(0..count), frame.slice(count..rows)),
            SplitKind::Random => {
                let mut order: Vec<usize> = (0..rows).collect();
                Random::new(seed, &[SPLIT]).shuffle(&mut order);
                let mut teaches = vec![false; rows];
                order[..count].iter().for_each(|i| teaches[*i] = true);
                let tests: Vec<bool> = teaches.iter().map(|t| !t).collect();
                (frame.filter(&teaches), frame.filter(&tests))
            }
        })
    }

    /// The split as a table names it.
    pub fn describe(&self) -> String {
        let (kind, percent) = (format!("{:?}", self.kind).to_lowercase(), self.train * 100.0);
        format!("{kind}, {percent:.0} % train")
    }
}

impl Section for Split {
    const NAME: &'static str = "split";
    type Written = Split;

    fn check(split: Split) -> Result<Split, Mistake> {
        match Split::check(&split) {
            Ok(()) => Ok(split),
            Err(e) => Err(Mistake::at("train", e.to_string())),
        }
    }
}
