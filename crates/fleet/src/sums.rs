//! What nodes tell each other: sums over their windows, added up. Whoever adds sees each node's sums, and no window.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use synod_detect::Moments;
use synod_detect::features::View;
use synod_detect::learning::{Found, Mark, Spread};

/// How a metric's longest silences and rests are counted, in windows; the last place is for all longer ones.
const LONGEST: usize = 64;

/// How the metrics of one node vary together, and its habits.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub(super) metrics: Vec<String>,
    /// The healthy windows behind it.
    pub(super) windows: f64,
    /// For values and for changes, the sums of products of deviations from the node's own mean, row-major.
    pub(super) products: [Vec<f64>; 2],
    /// The longest silence and the longest rest of every metric.
    pub(super) longest: Vec<(usize, usize)>,
}

impl Shape {
    pub(super) fn new(metrics: Vec<String>, values: &Moments, changes: &Moments) -> Shape {
        let sums = |moments: &Moments| {
            let covariance = moments.covariance().into_iter();
            covariance.map(|c| c * moments.count()).collect()
        };
        Shape {
            metrics,
            windows: values.count(),
            products: [sums(values), sums(changes)],
            longest: vec![],
        }
    }
}

pub(super) fn place(view: View) -> usize {
    match view {
        View::Values => 0,
        View::Changes => 1,
    }
}

/// Sums over the shapes of nodes, whose metrics need not be the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shapes {
    places: BTreeMap<String, usize>,
    /// For each pair of metrics: nodes and windows that have both, and the sums of products in both views.
    pairs: Vec<Vec<Pair>>,
    /// For each metric, how many nodes have which longest silence and rest.
    silences: Vec<Vec<f64>>,
    rests: Vec<Vec<f64>>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Pair {
    nodes: f64,
    windows: f64,
    products: [f64; 2],
}

impl Shapes {
    /// Adds a node.
    pub fn add(&mut self, shape: &Shape) {
        self.merge(shape, 1.0);
    }

    /// Takes back a node that was added.
    pub fn remove(&mut self, shape: &Shape) {
        self.merge(shape, -1.0);
    }

    fn merge(&mut self, shape: &Shape, sign: f64) {
        let places: Vec<usize> = shape.metrics.iter().map(|m| self.place(m)).collect();
        let width = places.len();
        for (i, a) in places.iter().enumerate() {
            for (j, b) in places.iter().enumerate() {
                let pair = &mut self.pairs[*a][*b];
                pair.nodes += sign;
                pair.windows += sign * shape.windows;
                for view in 0..2 {
                    pair.products[view] += sign * shape.products[view][i * width + j];
                }
            }
        }
        for (place, (silence, rest)) in places.iter().zip(&shape.longest) {
            self.silences[*place][(*silence).min(LONGEST - 1)] += sign;
            self.rests[*place][(*rest).min(LONGEST - 1)] += sign;
        }
    }

    fn place(&mut self, metric: &str) -> usize {
        if let Some(place) = self.places.get(metric) {
            return *place;
        }
        let place = self.places.len();
        self.places.insert(metric.to_owned(), place);
        self.pairs.iter_mut().for_each(|row| row.push(Pair::default()));
        self.pairs.push(vec![Pair::default(); place + 1]);
        self.silences.push(vec![0.0; LONGEST]);
        self.rests.push(vec![0.0; LONGEST]);
        place
    }

    /// How some metrics vary together within nodes, and the windows that an average node has of them. Where no node has
    /// both metrics of a pair, `own` stands.
    pub(super) fn covariance(&self, metrics: &[String], view: View, own: &[f64]) -> (Vec<f64>, f64) {
        let places: Vec<Option<usize>> = metrics.iter().map(|m| self.places.get(m).copied()).collect();
        let mut covariance = own.to_vec();
        let (mut windows, mut nodes) = (0.0, 0.0);
        for (i, a) in places.iter().enumerate() {
            for (j, b) in places.iter().enumerate() {
                let pair = a.and_then(|a| b.map(|b| self.pairs[a][b])).unwrap_or_default();
                if pair.nodes > 0.5 && pair.windows > 1.0 {
                    covariance[i * metrics.len() + j] = pair.products[place(view)] / pair.windows;
                    windows += pair.windows;
                    nodes += pair.nodes;
                }
            }
        }
        (covariance, if nodes > 0.0 { windows / nodes } else { 0.0 })
    }

    /// What the middle node has as longest silence and as longest rest, metric by metric.
    pub(super) fn longest(&self, metrics: &[String]) -> Vec<(usize, usize)> {
        let of = |metric: &String| {
            let place = self.places.get(metric);
            place.map_or((0, 0), |p| (middle(&self.silences[*p]), middle(&self.rests[*p])))
        };
        metrics.iter().map(of).collect()
    }
}

/// The median of what was counted.
fn middle(counts: &[f64]) -> usize {
    let half = counts.iter().sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let at = counts.iter().position(|count| {
        sum += count;
        sum > 0.0 && sum >= half
    });
    at.unwrap_or(0)
}

/// Sums over what nodes found some quantity to be: where its middle lies and where its 98th percentile, and how sure they
/// are of the latter.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpreadSums {
    nodes: f64,
    middles: f64,
    highs: f64,
    squared_highs: f64,
    doubts: f64,
    doubts_by_windows: f64,
}

impl SpreadSums {
    pub(super) fn add(&mut self, found: &Found) {
        self.merge(found, 1.0);
    }

    pub(super) fn remove(&mut self, found: &Found) {
        self.merge(found, -1.0);
    }

    fn merge(&mut self, found: &Found, sign: f64) {
        let high = f64::from(found.spread.middle) + f64::from(found.spread.distance);
        self.nodes += sign;
        self.middles += sign * f64::from(found.spread.middle);
        self.highs += sign * high;
        self.squared_highs += sign * high * high;
        self.doubts += sign * found.doubt;
        self.doubts_by_windows += sign * found.doubt * found.windows;
    }

    /// The mean over nodes, with a 98th percentile so many deviations between nodes above that of most; and how much the
    /// own finding of a node with some windows counts against it: the more, the more nodes differ beyond their doubts.
    pub(super) fn mark(&self, above: f64, windows: f64) -> Option<Mark> {
        if self.nodes < 0.5 {
            return None;
        }
        let (middle, high) = (self.middles / self.nodes, self.highs / self.nodes);
        let variance = (self.squared_highs / self.nodes - high * high).max(0.0);
        let differ = (variance - self.doubts / self.nodes).max(0.0);
        let doubt = self.doubts_by_windows / self.nodes / windows.max(1.0);
        let spread = Spread::new(middle as f32, (high + above * variance.sqrt() - middle) as f32);
        let own = if differ > 0.0 {
            differ / (differ + doubt)
        } else {
            0.0
        };
        Some(Mark {
            spread,
            own: own as f32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_detect::Rows;

    /// Rows on a grid of sixteenths: their sums of products are exact in single precision.
    fn rows(width: usize, count: usize, seed: u64) -> Rows {
        let mut random = synod_core::Random::from_state(seed);
        let values = (0..width * count).map(|_| random.below(65) as f32 / 16.0 - 2.0);
        Rows::new(width, values.collect())
    }

    fn names(metrics: &str) -> Vec<String> {
        metrics.split(' ').map(str::to_owned).collect()
    }

    fn shape(metrics: &str, count: usize, seed: u64) -> (Shape, Rows) {
        let metrics = names(metrics);
        let rows = rows(metrics.len(), count, seed);
        let changes = Rows::new(rows.width(), rows.values().iter().map(|v| v * 0.5).collect());
        let shape = Shape::new(metrics, &Moments::of(&rows), &Moments::of(&changes));
        (shape, rows)
    }

    fn column(rows: &Rows, i: usize) -> Vec<f64> {
        rows.iter().map(|r| f64::from(r[i])).collect()
    }

    /// The covariance of two metrics within nodes, as if all windows of all nodes that have both were in one place.
    fn pooled(nodes: &[(Shape, Rows)], a: &str, b: &str) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for (shape, rows) in nodes {
            let at = |m: &str| shape.metrics.iter().position(|n| n == m);
            let (Some(i), Some(j)) = (at(a), at(b)) else {
                continue;
            };
            let (x, y) = (column(rows, i), column(rows, j));
            let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
            let (mx, my) = (mean(&x), mean(&y));
            sum += x.iter().zip(&y).map(|(x, y)| (x - mx) * (y - my)).sum::<f64>();
            count += x.len() as f64;
        }
        sum / count
    }

    #[test]
    fn sums_give_what_pooled_windows_would_whatever_metrics_nodes_have() {
        let nodes = [
            shape("a b c", 300, 1),
            shape("c a", 128, 2),
            shape("b d a", 77, 3),
        ];
        let mut shapes = Shapes::default();
        nodes.iter().for_each(|(s, _)| shapes.add(s));
        let metrics = names("d a b");
        let own = vec![-7.0; 9];
        let (covariance, windows) = shapes.covariance(&metrics, View::Values, &own);
        for (i, a) in metrics.iter().enumerate() {
            for (j, b) in metrics.iter().enumerate() {
                let expected = pooled(&nodes, a, b);
                let found = covariance[i * 3 + j];
                assert!((found - expected).abs() < 1e-9, "{a} {b}: {found} {expected}");
            }
        }
        assert!(windows > 77.0 && windows < 300.0, "{windows}");
        let (unknown, none) = shapes.covariance(&names("x y"), View::Changes, &own[..4]);
        assert_eq!((unknown, none), (own[..4].to_vec(), 0.0));
    }

    #[test]
    fn who_is_taken_back_leaves_no_trace() {
        let [first, second] = [shape("a b", 50, 1).0, shape("b c", 60, 2).0];
        let mut alone = Shapes::default();
        alone.add(&first);
        let mut both = alone.clone();
        both.add(&second);
        both.remove(&second);
        let metrics = names("a b");
        for view in [View::Values, View::Changes] {
            let (a, b) = (
                alone.covariance(&metrics, view, &[0.0; 4]),
                both.covariance(&metrics, view, &[0.0; 4]),
            );
            a.0.iter()
                .zip(&b.0)
                .for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
            assert_eq!(a.1, b.1);
        }
    }

    #[test]
    fn the_middle_node_says_how_long_a_metric_rests() {
        let mut shapes = Shapes::default();
        for rest in [1, 2, 2, 3, 60_000] {
            let mut one = shape("a", 20, 1).0;
            one.longest = vec![(0, rest)];
            shapes.add(&one);
        }
        assert_eq!(shapes.longest(&names("a z")), [(0, 2), (0, 0)]);
    }

    fn found(middle: f32, distance: f32, doubt: f64) -> Found {
        Found {
            spread: Spread::new(middle, distance),
            doubt,
            windows: 100.0,
        }
    }

    #[test]
    fn spreads_are_averaged_over_nodes() {
        let mut sums = SpreadSums::default();
        assert_eq!(sums.mark(0.0, 10.0), None);
        sums.add(&found(0.0, 1.0, 0.5));
        sums.add(&found(2.0, 3.0, 0.5));
        let mean = |sums: &SpreadSums, above| sums.mark(above, 10.0).map(|m| m.spread);
        assert_eq!(mean(&sums, 0.0), Some(Spread::new(1.0, 2.0)));
        assert_eq!(mean(&sums, 1.0), Some(Spread::new(1.0, 4.0)), "highs are 1 and 5");
        sums.remove(&found(2.0, 3.0, 0.5));
        assert_eq!(mean(&sums, 1.0), Some(Spread::new(0.0, 1.0)));
    }

    #[test]
    fn nodes_that_differ_beyond_their_doubts_keep_to_themselves_and_the_more_so_the_longer_they_have_watched()
    {
        let own = |highs: [f32; 3], doubt, windows| {
            let mut sums = SpreadSums::default();
            highs.iter().for_each(|h| sums.add(&found(0.0, *h, doubt)));
            sums.mark(0.0, windows).map_or(f32::NAN, |m| m.own)
        };
        assert_eq!(own([1.0, 1.1, 1.2], 0.5, 100.0), 0.0, "no difference but doubt");
        let differing = [1.0, 5.0, 9.0];
        assert!(own(differing, 0.1, 100.0) > 0.9);
        assert!(own(differing, 0.1, 1.0) < own(differing, 0.1, 100.0));
    }
}
