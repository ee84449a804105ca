//! Which windows teach and which test.

use serde::{Deserialize, Serialize};
use synod_telemetry::Frame;

use crate::error::{Error, Result};

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
                shuffle(&mut order, seed);
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

fn shuffle(order: &mut [usize], seed: u64) {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    for i in (1..order.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let j = ((state >> 33) as usize) % (i + 1);
        order.swap(i, j);
    }
}
