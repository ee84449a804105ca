//! What scoring remembers from one window to the next, and the work of one window.

use serde::{Deserialize, Serialize};
use synod_core::Frame;

use super::Scored;
use super::recent::Recent;
use crate::detector::{BATCH, Detector};
use crate::features::{Past, Prepared, View};
use crate::habits::Runs;
use crate::model::{BROKEN, NodeModel, Quiet, SILENCE, together};
use crate::rows::Rows;
use crate::smooth::Average;

/// What is remembered of one member's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Words {
    average: Average,
    /// The latest rows, if the next one's size depends on them.
    rows: Vec<f32>,
}

/// All that the scores of the next windows depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    past: Past,
    runs: Runs,
    members: Vec<Words>,
    quiet: Quiet,
    recent: Recent,
}

/// Room to work in, which remembers nothing.
#[derive(Debug, Default)]
pub(crate) struct Work {
    prepared: Prepared,
    values: Rows,
    changes: Rows,
    followed: Rows,
    sizes: Vec<Vec<f32>>,
    words: Vec<(f32, f32)>,
    broken: Vec<bool>,
    space: Vec<f32>,
}

impl Memory {
    /// Before the first window.
    pub(crate) fn begin(model: &NodeModel) -> Memory {
        let members = model.members.iter().map(|judge| Words {
            average: judge.begin(),
            rows: vec![],
        });
        Memory {
            past: model.features.begin(),
            runs: model.habits.begin(),
            members: members.collect(),
            quiet: Quiet::begin(&model.members),
            recent: Recent::begin(model.look_back()),
        }
    }

    /// The time of the last window.
    pub(super) fn last(&self) -> Option<i64> {
        self.past.last()
    }

    pub(super) fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Whether it is one of a model's, as it may not be if it comes from a file.
    pub(crate) fn suits(&self, model: &NodeModel) -> bool {
        let (begun, width) = (Memory::begin(model), model.features.width());
        let mut pairs = self.members.iter().zip(&begun.members).zip(&model.members);
        model.features.suits(&self.past)
            && self.runs.suits(width)
            && self.members.len() == begun.members.len()
            && pairs.all(|((own, begun), judge)| {
                own.average.is_like(&begun.average) && own.rows.len() <= judge.fitted.look_back() * width
            })
            && self.quiet.is_like(&begun.quiet)
            && self.recent.suits(&model.features, &begun.recent)
    }

    /// Scores the windows of a frame, some at once, and calls `each` with what can be said of each of them.
    pub(crate) fn advance(
        &mut self,
        model: &NodeModel,
        work: &mut Work,
        places: &[Option<usize>],
        frame: &Frame,
        each: &mut dyn FnMut(&Scored<'_>),
    ) {
        let width = frame.width();
        for (i, times) in frame.times().chunks(BATCH).enumerate() {
            let from = i * BATCH * width;
            let rows = &frame.values()[from..from + times.len() * width];
            self.score(model, work, places, times, rows, each);
        }
    }

    /// Scores windows that follow the last one.
    pub(super) fn score(
        &mut self,
        model: &NodeModel,
        work: &mut Work,
        places: &[Option<usize>],
        times: &[i64],
        rows: &[f32],
        each: &mut dyn FnMut(&Scored<'_>),
    ) {
        let prepared = &mut work.prepared;
        model
            .features
            .prepare_next(&mut self.past, times, rows, places, prepared);
        self.size(model, work);
        for (row, at) in times.iter().enumerate() {
            let (score, measured, instant, silence) = self.hear(model, work, row);
            let (prepared, broken) = (&work.prepared, &work.broken);
            self.recent.push(prepared, row, instant, broken);
            each(&Scored {
                at: *at,
                score,
                measured,
                instant,
                silence,
                model,
                recent: &self.recent,
            });
        }
    }

    /// What every member makes of the prepared windows.
    fn size(&mut self, model: &NodeModel, work: &mut Work) {
        let (width, count) = (model.features.width(), work.prepared.len());
        for (view, rows) in [
            (View::Values, &mut work.values),
            (View::Changes, &mut work.changes),
        ] {
            if model.members.iter().any(|judge| judge.view == view) {
                model.features.view_onto(&work.prepared, view, rows.refill(width));
            }
        }
        work.sizes.resize_with(model.members.len(), Vec::new);
        for ((judge, words), sizes) in model.members.iter().zip(&mut self.members).zip(&mut work.sizes) {
            let rows = match judge.view {
                View::Values => &work.values,
                View::Changes => &work.changes,
            };
            sizes.resize(count, 0.0);
            let look_back = judge.fitted.look_back() * width;
            if look_back == 0 {
                judge.fitted.judge(rows, &mut work.space, sizes);
                continue;
            }
            let followed = work.followed.refill(width);
            followed.extend_from_slice(&words.rows);
            followed.extend_from_slice(rows.values());
            words.rows.clear();
            let from = followed.len().saturating_sub(look_back);
            words.rows.extend_from_slice(&followed[from..]);
            judge.fitted.judge(&work.followed, &mut work.space, sizes);
        }
    }

    /// What all of it says of one of the prepared windows: the score, the score without what silence adds, the score of the
    /// window by itself, and the share of the usual metrics that is missing.
    fn hear(&mut self, model: &NodeModel, work: &mut Work, row: usize) -> (f32, f32, f32, f32) {
        let Work {
            prepared,
            words,
            broken,
            sizes,
            ..
        } = work;
        words.clear();
        let members = model.members.iter().zip(&mut self.members).zip(&*sizes);
        words.extend(members.map(|((judge, words), sizes)| judge.word(&mut words.average, sizes[row])));
        let averaged = together(&model.members, words.iter().map(|(averaged, _)| *averaged));
        let instant = together(&model.members, words.iter().map(|(_, instant)| *instant));
        let silence = model.habits.silence(prepared, row);
        let measured = model.unit.apply(averaged);
        self.runs.push(prepared, row);
        let breaks = model.habits.broken(&self.runs, broken);
        if !model.silence {
            return (measured, measured, model.unit.apply(instant), silence);
        }
        let silent = |score: f32| if breaks { score.max(0.0) + BROKEN } else { score };
        let score = silent(model.unit.apply(averaged + self.quiet.push(silence)));
        let instant = silent(model.unit.apply(instant + SILENCE * silence));
        (score, measured, instant, silence)
    }
}
