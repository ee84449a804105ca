//! How few random cuts set a row apart from the others.

use serde::{Deserialize, Serialize};

use super::random::Random;
use super::{Detector, Parts, bounded};
use crate::rows::Rows;

/// How a forest is grown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Growth {
    /// Trees.
    pub trees: usize,
    /// Rows that each tree is grown from.
    pub samples: usize,
}

impl Default for Growth {
    fn default() -> Growth {
        Growth {
            trees: 100,
            samples: 256,
        }
    }
}

/// Trees and levels that a forest has at most.
const MOST_TREES: usize = 10_000;
const MOST_LEVELS: u32 = 12;

/// Trees that cut at random places. What lies apart is cut off early.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forest {
    /// Cuts from the root of a tree to its deepest leaf, at most.
    levels: u32,
    /// Rows each tree was grown from.
    samples: u32,
    /// The feature that each node cuts, or the number of features if it is a leaf. A tree is as long as if all its levels
    /// were full: the nodes below node `i` are `2 i + 1` and `2 i + 2`.
    features: Vec<u32>,
    /// Where each node cuts; up to and including this is on the first side.
    cuts: Vec<f32>,
    /// Training rows of the tree's sample that came to each node.
    counts: Vec<u32>,
    /// The median of each feature in training.
    medians: Vec<f32>,
}

impl Forest {
    /// Grows trees from rows.
    pub fn fit(rows: &Rows, growth: &Growth, seed: u64) -> Forest {
        let samples = growth.samples.clamp(2, 1 << MOST_LEVELS).min(rows.len()).max(1);
        let levels = levels(samples as u32);
        let nodes = (2 << levels) - 1;
        let trees = growth.trees.clamp(1, MOST_TREES);
        let mut forest = Forest {
            levels,
            samples: samples as u32,
            features: vec![rows.width() as u32; trees * nodes],
            cuts: vec![0.0; trees * nodes],
            counts: vec![0; trees * nodes],
            medians: (0..rows.width()).map(|f| median(rows, f)).collect(),
        };
        let mut random = Random::new(seed);
        let mut order: Vec<&[f32]> = rows.iter().collect();
        for root in (0..trees).map(|t| t * nodes) {
            for i in 0..samples.min(order.len()) {
                let other = i + random.below(order.len() - i);
                order.swap(i, other);
            }
            let mut sample: Vec<&[f32]> = order.iter().take(samples).copied().collect();
            forest.grow(root, 0, 0, &mut sample, &mut random);
        }
        forest
    }

    fn grow(&mut self, root: usize, node: usize, level: u32, sample: &mut [&[f32]], random: &mut Random) {
        self.counts[root + node] = sample.len() as u32;
        if level == self.levels || sample.len() < 2 {
            return;
        }
        let varying: Vec<(usize, f32, f32)> = (0..self.medians.len())
            .map(|f| {
                let values = sample.iter().map(|row| row[f]);
                let range = values.fold((f32::MAX, f32::MIN), |(lo, hi), x| (lo.min(x), hi.max(x)));
                (f, range.0, range.1)
            })
            .filter(|(_, lo, hi)| lo < hi)
            .collect();
        let Some(&(feature, lo, hi)) = varying.get(random.below(varying.len())) else {
            return;
        };
        let place = f64::from(lo) + random.uniform() * (f64::from(hi) - f64::from(lo));
        // Rounding must not leave the second side empty.
        let cut = Some(place as f32).filter(|c| *c < hi).unwrap_or(lo);
        (self.features[root + node], self.cuts[root + node]) = (feature as u32, cut);
        sample.sort_by_key(|row| row[feature] > cut);
        let edge = sample.partition_point(|row| row[feature] <= cut);
        let (first, second) = sample.split_at_mut(edge);
        self.grow(root, 2 * node + 1, level + 1, first, random);
        self.grow(root, 2 * node + 2, level + 1, second, random);
    }

    fn nodes(&self) -> usize {
        (2usize << self.levels.min(MOST_LEVELS)) - 1
    }

    pub(super) fn suits(&self, width: usize) -> bool {
        let lengths = [self.cuts.len(), self.counts.len()];
        self.medians.len() == width
            && (1..=1 << MOST_LEVELS).contains(&self.samples)
            && self.levels == levels(self.samples)
            && !self.features.is_empty()
            && self.features.len().is_multiple_of(self.nodes())
            && lengths == [self.features.len(); 2]
            && self.features.iter().all(|f| *f as usize <= width)
            && self.counts.iter().all(|c| *c <= self.samples)
    }

    /// Cuts that set a row apart, on average over trees: those on its way, and those that would have split its leaf.
    /// Calls `credit` for every cut with its feature and the cuts it saved: by how much fewer are to be expected after it.
    fn cuts_of(&self, row: &[f32], expected: &[f64], mut credit: impl FnMut(usize, f64)) -> f64 {
        let nodes = self.nodes();
        let expect = |at: usize| self.counts.get(at).and_then(|c| expected.get(*c as usize));
        let mut total = 0.0;
        for root in (0..self.features.len()).step_by(nodes) {
            let mut node = 0;
            let mut rest = expect(root).copied().unwrap_or(0.0);
            for _ in 0..self.levels {
                let Some(&x) = row.get(self.features[root + node] as usize) else {
                    break;
                };
                let side = if x <= self.cuts[root + node] { 1 } else { 2 };
                let feature = self.features[root + node] as usize;
                node = 2 * node + side;
                let after = expect(root + node).copied().unwrap_or(0.0);
                credit(feature, (rest - 1.0 - after).max(0.0));
                total += 1.0;
                rest = after;
            }
            total += rest;
        }
        total / (self.features.len() / nodes).max(1) as f64
    }

    /// The odds of the score of Liu, Ting and Zhou: about 1 for rows like any other, and more the fewer cuts it took.
    fn size(&self, cuts: f64, expected: &[f64]) -> f32 {
        let usual = expected.last().copied().unwrap_or(0.0).max(1.0);
        let score = (-cuts / usual).exp2().min(1.0 - 1e-6);
        bounded(score / (1.0 - score))
    }

    /// Cuts that set a row apart from others, to be expected for 0 rows in all, for 1, and so on.
    fn expected(&self) -> Vec<f64> {
        let mut harmonic = 0.0;
        let cuts = (0..=self.samples).map(|count| {
            let n = f64::from(count);
            if count > 1 {
                harmonic += 1.0 / (n - 1.0);
                2.0 * harmonic - 2.0 * (n - 1.0) / n
            } else {
                0.0
            }
        });
        cuts.collect()
    }
}

/// As many as it takes to set all rows apart if every cut halves them.
fn levels(samples: u32) -> u32 {
    samples.next_power_of_two().ilog2()
}

fn median(rows: &Rows, feature: usize) -> f32 {
    let mut values: Vec<f32> = rows.iter().filter_map(|row| row.get(feature)).copied().collect();
    values.sort_by(f32::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

impl Detector for Forest {
    fn sizes(&self, rows: &Rows) -> Vec<f32> {
        let expected = self.expected();
        let size = |row: &[f32]| self.size(self.cuts_of(row, &expected, |_, _| {}), &expected);
        rows.iter().map(size).collect()
    }

    /// A feature's share of the size is its share of the cuts that were saved; it is expected at its median.
    fn explain(&self, row: &[f32]) -> Parts {
        let expected = self.expected();
        let mut saved = vec![0.0f64; row.len()];
        let cuts = self.cuts_of(row, &expected, |feature, by| saved[feature] += by);
        let size = f64::from(self.size(cuts, &expected));
        let whole = saved.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        Parts {
            expected: self.medians.clone(),
            shares: saved.iter().map(|s| bounded(s / whole * size)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rows_take_one_cut_and_256_take_ten() {
        let line = Rows::new(1, (0..300).map(|i| i as f32).collect());
        let expected = Forest::fit(&line, &Growth::default(), 1).expected();
        assert_eq!(expected.len(), 257);
        assert_eq!(expected[..3], [0.0, 0.0, 1.0]);
        let approximate = 2.0 * (255f64.ln() + 0.577_215_664_9) - 2.0 * 255.0 / 256.0;
        assert!(
            (expected[256] - approximate).abs() < 0.01,
            "{} but {approximate}",
            expected[256]
        );
    }

    #[test]
    fn every_row_of_a_sample_is_on_one_side_of_every_cut() {
        let line = Rows::new(1, (0..40).map(|i| (i * i) as f32).collect());
        let growth = Growth {
            trees: 3,
            samples: 16,
        };
        let forest = Forest::fit(&line, &growth, 5);
        let nodes = forest.nodes();
        for tree in 0..3 {
            let at = |node: usize| tree * nodes + node;
            assert_eq!(forest.counts[at(0)], 16);
            for node in (0..nodes / 2).filter(|n| forest.features[at(*n)] == 0) {
                let sides = [1, 2].map(|side| forest.counts[at(2 * node + side)]);
                assert_eq!(forest.counts[at(node)], sides[0] + sides[1]);
                assert!(sides.iter().all(|count| *count > 0));
            }
        }
    }
}
