//! A node under watch: its windows scored, its alarms told, and all of it stored and taken up again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use synod_core::{Digest, Frame};

use crate::calibrate::{Calibrator, Policy, Verdict};
use crate::episodes::{Change, Episodes};
use crate::error::{Error, Result};
use crate::model::NodeModel;
use crate::scorer::{Memory, Scored, Scorer};

/// What a stored state begins with: its kind and its version.
const KIND: &[u8] = b"synod state 1\n";

/// What a window came to.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// Its score, and the metrics behind it if asked for.
    pub scored: &'a Scored<'a>,
    /// What the policy said of it.
    pub verdict: Verdict,
    /// What it changed about the node's alarm.
    pub change: Option<Change>,
}

/// A scorer and the alarms that come of it.
#[derive(Debug)]
pub struct Monitor<P = Calibrator> {
    scorer: Scorer,
    episodes: Episodes<P>,
}

/// What is stored, as it is written.
#[derive(Serialize)]
struct Written<'a, P> {
    node: &'a str,
    model: Digest,
    memory: &'a Memory,
    episodes: &'a Episodes<P>,
}

/// What is stored, as it is read.
#[derive(Deserialize)]
struct Read<P> {
    node: String,
    model: Digest,
    memory: Memory,
    episodes: Episodes<P>,
}

impl Monitor {
    /// No state is larger, in bytes.
    pub const LARGEST: u64 = 1 << 30;
}

impl<P: Policy> Monitor<P> {
    /// Of a node, before its first window.
    pub fn new(node: impl Into<String>, model: Arc<NodeModel>, policy: P) -> Monitor<P> {
        Monitor {
            scorer: Scorer::new(model),
            episodes: Episodes::new(node, policy),
        }
    }

    /// The node.
    pub fn node(&self) -> &str {
        self.episodes.node()
    }

    /// The start of the last window, if there was one.
    pub fn last(&self) -> Option<i64> {
        self.scorer.last()
    }

    /// The node's alarms.
    pub fn episodes(&self) -> &Episodes<P> {
        &self.episodes
    }

    /// See [`Scorer::reads`].
    pub fn reads(&mut self, metrics: &[String]) {
        self.scorer.reads(metrics);
    }

    /// The next window: its score, and what it changed about the node's alarm.
    pub fn push(&mut self, at: i64, row: &[f32]) -> Result<(Scored<'_>, Option<Change>)> {
        let scored = self.scorer.push(at, row)?;
        let change = self.episodes.push(&scored);
        Ok((scored, change))
    }

    /// The next window, of which nothing came.
    pub fn no_window(&mut self, at: i64) -> Result<(Scored<'_>, Option<Change>)> {
        let scored = self.scorer.no_window(at)?;
        let change = self.episodes.push(&scored);
        Ok((scored, change))
    }

    /// The windows of a frame; calls `each` with what every one came to.
    pub fn advance(&mut self, frame: &Frame, each: &mut dyn FnMut(Judged<'_>)) -> Result<()> {
        let Monitor { scorer, episodes } = self;
        scorer.advance(frame, &mut |scored| {
            let change = episodes.push(scored);
            let verdict = episodes.verdict();
            each(Judged {
                scored,
                verdict,
                change,
            });
        })
    }

    /// All that the next windows depend on, with its version, a digest, and the names of the node and of the detector.
    pub fn save(&self) -> Result<Vec<u8>> {
        let written = Written {
            node: self.node(),
            model: self.scorer.model().digest()?,
            memory: self.scorer.memory(),
            episodes: &self.episodes,
        };
        let payload =
            postcard::to_allocvec(&written).map_err(|e| Error::State(format!("cannot be written: {e}")))?;
        let digest = Digest::of(&payload);
        Ok([KIND, digest.as_bytes(), &payload].concat())
    }

    /// Goes on from what [`Monitor::save`] gave, with the detector that was at work then. The node must be the one named.
    pub fn resume(node: &str, model: Arc<NodeModel>, bytes: &[u8]) -> Result<Monitor<P>> {
        let bad = |problem: String| Err(Error::State(problem));
        let Some(rest) = bytes
            .strip_prefix(KIND)
            .filter(|_| bytes.len() as u64 <= Monitor::LARGEST)
        else {
            return bad("is no state of this version".into());
        };
        let Some((digest, payload)) = rest.split_at_checked(32) else {
            return bad("breaks off".into());
        };
        if Digest::of(payload).as_bytes() != digest {
            return bad("is damaged".into());
        }
        let read: Read<P> = match postcard::from_bytes(payload) {
            Ok(read) => read,
            Err(e) => return bad(format!("is of another kind: {e}")),
        };
        if read.node != node || read.episodes.node() != node {
            return bad(format!("is that of node {}", read.node));
        }
        if read.model != model.digest()? {
            return bad("is of another detector than the one that is there now".into());
        }
        if !read.memory.suits(&model) {
            return bad("does not fit its detector".into());
        }
        Ok(Monitor {
            scorer: Scorer::with(model, read.memory),
            episodes: read.episodes,
        })
    }
}
