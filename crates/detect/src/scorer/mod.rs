//! A node's windows scored one after the other, as they come.

mod explain;
mod memory;
mod recent;

use std::sync::Arc;

use synod_core::Frame;

pub use explain::Contribution;
pub(crate) use memory::{Memory, Work};
use recent::{EXPLAINED, Recent};

use crate::error::{Error, Result};
use crate::model::NodeModel;

/// What is said of one window.
#[derive(Copy, Clone, Debug)]
pub struct Scored<'a> {
    /// Its start, in seconds since 1970.
    pub at: i64,
    /// How unusual the node has been up to it: about 0 for the usual, 1 for what one training window in fifty reaches.
    pub score: f32,
    /// The same without what silence added.
    pub measured: f32,
    /// How unusual the window is by itself.
    pub instant: f32,
    /// The share of the usual metrics that is missing.
    pub silence: f32,
    model: &'a NodeModel,
    recent: &'a Recent,
}

impl Scored<'_> {
    /// The distance between two windows, in seconds.
    pub fn step(&self) -> i64 {
        self.model.step()
    }

    /// The scores of the detector's training windows, as if they had not been seen.
    pub fn reference(&self) -> &[f32] {
        self.model.reference()
    }

    /// Which of the latest windows from `since` on is the most unusual by itself: how many windows ago it was, its start and
    /// its score.
    pub fn worst_since(&self, since: i64) -> (usize, i64, f32) {
        let ago = |back: usize| self.recent.ago(back).map(|kept| (back, kept.at, kept.instant));
        let late = (0..EXPLAINED).filter_map(ago).filter(|(_, at, _)| *at >= since);
        late.max_by(|a, b| a.2.total_cmp(&b.2))
            .unwrap_or((0, self.at, self.instant))
    }
}

/// A detector at work on one node: scores windows as they come, each from itself and those before it. All at once or one by one,
/// the scores are the same to the bit.
#[derive(Debug)]
pub struct Scorer {
    model: Arc<NodeModel>,
    memory: Memory,
    places: Vec<Option<usize>>,
    metrics: usize,
    work: Work,
}

impl Scorer {
    /// Before the first window. Rows hold the model's metrics in its order unless [`Scorer::reads`] says otherwise.
    pub fn new(model: Arc<NodeModel>) -> Scorer {
        let memory = Memory::begin(&model);
        Scorer::with(model, memory)
    }

    /// Goes on from what was remembered.
    pub(crate) fn with(model: Arc<NodeModel>, memory: Memory) -> Scorer {
        let metrics = model.features.width();
        Scorer {
            places: (0..metrics).map(Some).collect(),
            metrics,
            model,
            memory,
            work: Work::default(),
        }
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The detector.
    pub fn model(&self) -> &Arc<NodeModel> {
        &self.model
    }

    /// The start of the last window, if there was one.
    pub fn last(&self) -> Option<i64> {
        self.memory.last()
    }

    /// Says which metrics rows hold from now on. Those that the model does not know are passed over, those that are not there are
    /// silent.
    pub fn reads(&mut self, metrics: &[String]) {
        self.places = self.model.features.places(metrics);
        self.metrics = metrics.len();
    }

    /// Scores the next window: a value per metric, NaN where nothing was measured. Windows come in order of time.
    pub fn push(&mut self, at: i64, row: &[f32]) -> Result<Scored<'_>> {
        if row.len() != self.metrics {
            return Err(Error::Width {
                given: row.len(),
                wanted: self.metrics,
            });
        }
        self.one(at, row)
    }

    /// Scores a window of which nothing came: that a node is silent is a finding.
    pub fn no_window(&mut self, at: i64) -> Result<Scored<'_>> {
        self.one(at, &[])
    }

    fn one(&mut self, at: i64, row: &[f32]) -> Result<Scored<'_>> {
        self.follows(at)?;
        let mut said = (0.0, 0.0, 0.0, 0.0);
        let Scorer {
            model,
            memory,
            places,
            work,
            ..
        } = self;
        memory.score(model, work, places, &[at], row, &mut |scored| {
            said = (scored.score, scored.measured, scored.instant, scored.silence);
        });
        let (score, measured, instant, silence) = said;
        Ok(Scored {
            at,
            score,
            measured,
            instant,
            silence,
            model,
            recent: self.memory.recent(),
        })
    }

    /// Scores the windows of a frame, whose metrics are told by their names, and calls `each` with what can be said of every one.
    /// Windows that the frame leaves out are left out.
    pub fn advance(&mut self, frame: &Frame, each: &mut dyn FnMut(&Scored<'_>)) -> Result<()> {
        if let Some(first) = frame.times().first() {
            self.follows(*first)?;
        }
        let places = self.model.features.places(frame.metrics());
        self.memory
            .advance(&self.model, &mut self.work, &places, frame, each);
        Ok(())
    }

    fn follows(&self, at: i64) -> Result<()> {
        match self.last() {
            Some(last) if at <= last => Err(Error::Order { at, last }),
            _ => Ok(()),
        }
    }
}
