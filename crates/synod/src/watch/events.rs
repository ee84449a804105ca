//! What a run of detectors writes into its log.

use serde::Serialize;
use synod_core::{Digest, Event};

/// Learning begins.
#[derive(Serialize)]
pub(super) struct Start<'a> {
    /// The configuration's text.
    pub(super) config: Digest,
    pub(super) detector: &'a str,
    pub(super) seed: u64,
    pub(super) nodes: usize,
    pub(super) split: &'a str,
}

/// Learning goes on after a crash.
#[derive(Serialize)]
pub(super) struct Resume {
    pub(super) nodes: usize,
}

/// All arms are judged.
#[derive(Serialize)]
pub(super) struct End {
    pub(super) arms: usize,
    pub(super) alarms: usize,
}

impl Event for Start<'_> {
    const NAME: &'static str = "start";
}

impl Event for Resume {
    const NAME: &'static str = "resume";
}

impl Event for End {
    const NAME: &'static str = "end";
}
