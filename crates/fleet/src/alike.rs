//! Whether other nodes are of one kind with a node.

use synod_detect::detector::Prior;
use synod_detect::learning::surprise;
use synod_detect::{Moments, Rows};

/// The share of the rows, the last ones, on which others are put to the test.
const HELD_OUT: f64 = 0.25;

/// What is added to every variance in the test, as a multiple of their mean.
const RIDGE: f64 = 0.3;

/// How much better a node's last rows are foretold by its earlier rows leaning on others than by these alone: the gain in
/// log density per feature and row. No labels are needed, and no row is told to anyone.
pub(super) fn gain(rows: &Rows, keep: &[bool], prior: &Prior) -> f64 {
    let cut = (rows.len() as f64 * (1.0 - HELD_OUT)) as usize;
    let part = |range: std::ops::Range<usize>| rows.slice(range.clone()).filter(&keep[range]);
    let (before, after) = (part(0..cut), part(cut..rows.len()));
    if before.is_empty() || after.is_empty() {
        return 0.0;
    }
    let alone = Moments::of(&before);
    let mut leaning = alone.clone();
    leaning.lean(prior.worth, &prior.covariance);
    surprise(&alone, RIDGE, &after) - surprise(&leaning, RIDGE, &after)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thirty features that follow twelve causes, in one of two ways.
    fn rows(count: usize, seed: u64, other: bool) -> Rows {
        let mut random = synod_core::Random::from_state(seed);
        let mut noise = move || random.uniform() as f32 - 0.5;
        let follows = |cause: usize, f: usize| {
            let way = if other { f * f } else { 3 * f };
            if (7 * cause + way + cause * f) % 5 < 2 {
                1.0
            } else {
                -1.0
            }
        };
        let mut values = vec![];
        for _ in 0..count {
            let causes: [f32; 12] = std::array::from_fn(|_| noise());
            values.extend((0..30).map(|f| {
                let followed = causes.iter().enumerate().map(|(c, size)| size * follows(c, f));
                followed.sum::<f32>() + 0.2 * noise()
            }));
        }
        Rows::new(30, values)
    }

    fn prior(rows: &Rows) -> Prior {
        Prior {
            worth: 1000.0,
            covariance: Moments::of(rows).covariance(),
        }
    }

    #[test]
    fn a_node_with_few_rows_tells_its_like_from_others() {
        for seed in 0..8 {
            let (own, keep) = (rows(40, seed, false), [true; 40]);
            let of_kind = |other| gain(&own, &keep, &prior(&rows(2000, 100 + seed, other)));
            let (like, unlike) = (of_kind(false), of_kind(true));
            assert!(unlike < -0.05 && like > unlike + 0.05, "{seed}: {like} {unlike}");
        }
    }

    #[test]
    fn no_rows_to_test_on_are_no_reason_to_refuse() {
        assert_eq!(
            gain(&rows(40, 1, false), &[false; 40], &prior(&rows(40, 2, true))),
            0.0
        );
    }
}
