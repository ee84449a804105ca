//! How long each metric stays silent, or unchanged, when all is well.

use serde::{Deserialize, Serialize};

use crate::features::Prepared;

/// A metric measured in this share of the training windows is missed when it is not there.
const USUAL: f64 = 0.9;

/// A metric is absent when it has been silent for `LONGER` times as long as ever in training, and `SLACK` windows more.
const LONGER: usize = 2;
const SLACK: usize = 4;

/// A metric is stuck when it has repeated its value for `STILLER` times as long, and `PATIENCE` windows more. One that has
/// rested for longer than `RESTS` windows in training may rest for ever.
const STILLER: usize = 3;
const PATIENCE: usize = 8;
const RESTS: usize = 8;

/// What is usual of the presence and the movement of a node's metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Habits {
    /// Which metrics are always there.
    usual: Vec<bool>,
    /// The longest silence of every metric, in windows.
    silences: Vec<usize>,
    /// The longest time without a change of value, in windows.
    rests: Vec<usize>,
}

impl Habits {
    /// Learns from healthy training windows: a sensor that was once stuck, and known to be, is not in the habit of it.
    pub fn learn(prepared: &Prepared, healthy: &[bool], width: usize) -> Habits {
        let rows = prepared.len();
        let mut runs = Runs::new(width);
        let (mut silences, mut rests, mut present) = (vec![0; width], vec![0; width], vec![0usize; width]);
        for (row, well) in healthy.iter().enumerate().take(rows) {
            let there = prepared.present(row).iter();
            present
                .iter_mut()
                .zip(there)
                .for_each(|(p, t)| *p += usize::from(*t));
            if !well {
                runs = Runs::new(width);
                continue;
            }
            runs.push(prepared, row);
            for i in 0..width {
                silences[i] = silences[i].max(runs.silent[i] as usize);
                rests[i] = rests[i].max(runs.still[i] as usize);
            }
        }
        Habits {
            usual: present.iter().map(|p| *p as f64 >= USUAL * rows as f64).collect(),
            silences,
            rests,
        }
    }

    /// The longest silence and the longest rest of every metric, in windows.
    pub fn longest(&self) -> impl Iterator<Item = (usize, usize)> {
        self.silences.iter().copied().zip(self.rests.iter().copied())
    }

    /// Habits that allow at least as long a silence and as long a rest as others have had. If that is `settled`, they let a
    /// metric rest for ever only if theirs has rested for longer than it would be allowed to here.
    pub fn at_least(mut self, longest: impl IntoIterator<Item = (usize, usize)>, settled: bool) -> Habits {
        let own = self.silences.iter_mut().zip(&mut self.rests);
        for ((silence, rest), (others_silence, others_rest)) in own.zip(longest) {
            *silence = others_silence.max(*silence);
            let most = if settled && others_rest <= stuck_after(*rest) {
                RESTS
            } else {
                usize::MAX
            };
            *rest = others_rest.min(most).max(*rest);
        }
        self
    }

    /// Whether they are those of as many metrics.
    pub(crate) fn suits(&self, width: usize) -> bool {
        let lengths = [self.silences.len(), self.rests.len()];
        self.usual.len() == width && lengths == [width; 2]
    }

    /// How many metrics are always there.
    pub(crate) fn usual(&self) -> usize {
        self.usual.iter().filter(|u| **u).count()
    }

    /// Which metrics that are always there are missing in one window.
    pub(crate) fn missing(&self, prepared: &Prepared, row: usize) -> Vec<bool> {
        let pairs = prepared.present(row).iter().zip(&self.usual);
        pairs.map(|(present, usual)| *usual && !present).collect()
    }

    /// The share of the usual metrics that is missing in one window.
    pub(crate) fn silence(&self, prepared: &Prepared, row: usize) -> f32 {
        let pairs = prepared.present(row).iter().zip(&self.usual);
        let missing = pairs.filter(|(present, usual)| **usual && !**present).count();
        missing as f32 / self.usual().max(1) as f32
    }

    /// What is remembered before the first window.
    pub(crate) fn begin(&self) -> Runs {
        Runs::new(self.usual.len())
    }

    /// Marks the metrics that have by now been silent or unchanged for much longer than ever in training; whether there are any.
    pub(crate) fn broken(&self, runs: &Runs, broken: &mut Vec<bool>) -> bool {
        broken.clear();
        broken.extend((0..self.usual.len()).map(|i| self.breaks(runs, i)));
        broken.contains(&true)
    }

    fn breaks(&self, runs: &Runs, i: usize) -> bool {
        let absent = self.usual[i] && runs.silent[i] as usize > absent_after(self.silences[i]);
        absent || (self.rests[i] <= RESTS && runs.still[i] as usize > stuck_after(self.rests[i]))
    }
}

fn absent_after(longest: usize) -> usize {
    longest.saturating_mul(LONGER).saturating_add(SLACK)
}

fn stuck_after(longest: usize) -> usize {
    longest.saturating_mul(STILLER).saturating_add(PATIENCE)
}

/// For how many windows each metric has been silent, and how often it has repeated its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Runs {
    silent: Vec<u32>,
    still: Vec<u32>,
    last: Vec<f32>,
}

impl Runs {
    fn new(width: usize) -> Runs {
        Runs {
            silent: vec![0; width],
            still: vec![0; width],
            last: vec![f32::NAN; width],
        }
    }

    /// Whether they are those of as many metrics.
    pub(crate) fn suits(&self, width: usize) -> bool {
        [self.silent.len(), self.still.len(), self.last.len()] == [width; 3]
    }

    pub(crate) fn push(&mut self, prepared: &Prepared, row: usize) {
        for (i, (value, present)) in prepared.row(row).iter().zip(prepared.present(row)).enumerate() {
            self.silent[i] = if *present {
                0
            } else {
                self.silent[i].saturating_add(1)
            };
            // What is missing neither moves nor rests.
            if value.is_finite() {
                self.still[i] = if *value == self.last[i] {
                    self.still[i].saturating_add(1)
                } else {
                    0
                };
                self.last[i] = *value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{FeatureSettings, Features};
    use synod_core::Frame;

    /// A metric that moves, one that rests for up to six windows, and one that rests for days; the first is as said.
    fn frame(first: impl Fn(usize) -> f32) -> Frame {
        let rows = 600;
        let values = (0..rows)
            .flat_map(|i| [first(i), (i / 7) as f32 % 5.0, (i / 200) as f32])
            .collect();
        let metrics = ["moves", "pauses", "rests"].map(str::to_owned).to_vec();
        let times = (0..rows as i64).map(|i| i * 900).collect();
        Frame::new("n", 900, times, metrics, values).expect("a frame")
    }

    fn moving(i: usize) -> f32 {
        (i * 37 % 101) as f32
    }

    fn learnt() -> (Features, Habits) {
        let train = frame(|i| if (400..450).contains(&i) { 7.0 } else { moving(i) });
        let features = Features::fit(&train, &FeatureSettings::default()).expect("features");
        let mut healthy = vec![true; train.rows()];
        healthy[400..450].fill(false);
        let habits = Habits::learn(&features.prepare(&train), &healthy, features.width());
        (features, habits)
    }

    fn broken(first: impl Fn(usize) -> f32) -> Vec<usize> {
        let (features, habits) = learnt();
        let prepared = features.prepare(&frame(first));
        let (mut runs, mut marks) = (habits.begin(), vec![]);
        let broken = |row: &usize| {
            runs.push(&prepared, *row);
            habits.broken(&runs, &mut marks)
        };
        (0..prepared.len()).filter(broken).collect()
    }

    #[test]
    fn a_metric_that_always_moves_and_then_stands_still_breaks_its_habit_until_it_moves() {
        let stuck = broken(|i| if (100..150).contains(&i) { 5.5 } else { moving(i) });
        assert_eq!(
            stuck,
            (109..150).collect::<Vec<_>>(),
            "after more than 8 repetitions"
        );
    }

    #[test]
    fn what_rested_in_training_may_rest() {
        assert_eq!(broken(moving), Vec::<usize>::new());
    }

    #[test]
    fn others_lengthen_a_rest_but_make_it_endless_only_if_theirs_is_longer_than_allowed() {
        let habits = |rest: usize| Habits {
            usual: vec![true],
            silences: vec![0],
            rests: vec![rest],
        };
        let with = |own: usize, others: usize| habits(own).at_least([(0, others)], true).rests[0];
        assert_eq!([with(2, 1), with(2, 5), with(12, 3)], [2, 5, 12]);
        // Three times two and eight more are allowed: fourteen.
        assert_eq!([with(2, 9), with(2, 14), with(2, 15)], [RESTS, RESTS, 15]);
        assert_eq!([with(12, 20), with(12, 40), with(12, 60)], [12, 12, 60]);
        let hearsay = |own: usize, others: usize| habits(own).at_least([(0, others)], false).rests[0];
        assert_eq!([hearsay(2, 9), hearsay(12, 20), hearsay(12, 3)], [9, 20, 12]);
    }

    #[test]
    fn a_gap_is_no_rest_and_a_long_one_is_a_silence() {
        let gone = broken(|i| {
            if (300..320).contains(&i) {
                f32::NAN
            } else {
                moving(i)
            }
        });
        assert_eq!(gone, (304..320).collect::<Vec<_>>());
        let short = broken(|i| {
            if (300..304).contains(&i) {
                f32::NAN
            } else {
                moving(i)
            }
        });
        assert_eq!(short, Vec::<usize>::new());
    }

    #[test]
    fn the_last_window_names_the_metric_that_is_stuck() {
        let (features, habits) = learnt();
        let prepared = features.prepare(&frame(|i| if i > 500 { 1.0 } else { moving(i) }));
        let (mut runs, mut marks) = (habits.begin(), vec![]);
        (0..prepared.len()).for_each(|row| runs.push(&prepared, row));
        assert!(habits.broken(&runs, &mut marks));
        let pairs = features.names().zip(marks);
        let named: Vec<&str> = pairs.filter(|(_, b)| *b).map(|(n, _)| n).collect();
        assert_eq!(named, ["moves"]);
    }
}
