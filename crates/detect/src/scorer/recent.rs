//! The latest windows, kept to be explained.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::features::{Features, Prepared};

/// Windows of late that can be explained.
pub(super) const EXPLAINED: usize = 10;

/// One window as it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) at: i64,
    /// Its score by itself.
    pub(super) instant: f32,
    values: Vec<f32>,
    trend: Vec<f32>,
    present: Vec<bool>,
    /// Metrics that had broken a habit by then.
    pub(super) broken: Vec<bool>,
}

/// The latest windows, the oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Recent {
    most: usize,
    windows: VecDeque<Kept>,
}

impl Recent {
    /// Room for windows that can be explained and for those that their features depend on.
    pub(super) fn begin(look_back: usize) -> Recent {
        Recent {
            most: EXPLAINED + look_back + 1,
            windows: VecDeque::new(),
        }
    }

    /// Whether they are windows of some features, and as many as of others.
    pub(super) fn suits(&self, features: &Features, other: &Recent) -> bool {
        let width = features.width();
        let trend = if features.detrends() { width } else { 0 };
        let suits = |kept: &Kept| {
            [kept.values.len(), kept.present.len(), kept.broken.len()] == [width; 3]
                && kept.trend.len() == trend
        };
        self.most == other.most && self.windows.len() <= self.most && self.windows.iter().all(suits)
    }

    /// Takes in a window in place of the oldest.
    pub(super) fn push(&mut self, prepared: &Prepared, row: usize, instant: f32, broken: &[bool]) {
        let oldest = if self.windows.len() < self.most {
            None
        } else {
            self.windows.pop_front()
        };
        let mut kept = oldest.unwrap_or_default();
        (kept.at, kept.instant) = (prepared.times()[row], instant);
        refill(&mut kept.values, prepared.row(row));
        refill(&mut kept.trend, prepared.trends(row));
        refill(&mut kept.present, prepared.present(row));
        refill(&mut kept.broken, broken);
        self.windows.push_back(kept);
    }

    /// The window so many windows ago; 0 is the latest.
    pub(super) fn ago(&self, back: usize) -> Option<&Kept> {
        let place = self.windows.len().checked_sub(back + 1)?;
        self.windows.get(place)
    }

    /// That window and so many before it, as far as they are known.
    pub(super) fn prepared(&self, back: usize, look_back: usize, width: usize) -> Prepared {
        let last = self.windows.len().saturating_sub(back + 1);
        let first = last.saturating_sub(look_back);
        let before = first.checked_sub(1).and_then(|i| self.windows.get(i));
        let mut prepared = Prepared::following(width, before.map(|kept| (kept.at, kept.values.as_slice())));
        for kept in self.windows.range(first..self.windows.len().min(last + 1)) {
            prepared.push(kept.at, &kept.values, &kept.trend, &kept.present);
        }
        prepared
    }
}

fn refill<T: Copy>(place: &mut Vec<T>, with: &[T]) {
    place.clear();
    place.extend_from_slice(with);
}
