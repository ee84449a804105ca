//! What a node's principal components are made of, by sums over all windows in one place.

use synod_core::{Frame, Truth};
use synod_detect::Recipe;
use synod_detect::features::View;
use synod_evaluate::NodeResult;
use synod_fleet::Together;

use crate::site::{Site, frames, three};

/// Rows that count as one each, and rows of others that count less.
struct Weighed(Vec<(f64, Vec<f64>)>);

impl Weighed {
    fn add(&mut self, weight: f64, rows: impl Iterator<Item = Vec<f64>>) {
        self.0.extend(rows.map(|row| (weight, row)));
    }

    fn mean(&self) -> Vec<f64> {
        let all: f64 = self.0.iter().map(|(weight, _)| weight).sum();
        let column = |i: usize| self.0.iter().map(|(weight, row)| weight * row[i]).sum::<f64>();
        (0..self.0[0].1.len()).map(|i| column(i) / all).collect()
    }

    /// How the rows vary in a direction together with each column.
    fn along(&self, direction: &[f64]) -> Vec<f64> {
        let (mean, mut sums, mut all) = (self.mean(), vec![0.0; direction.len()], 0.0);
        for (weight, row) in &self.0 {
            let away: Vec<f64> = row.iter().zip(&mean).map(|(x, m)| x - m).collect();
            let length = product(&away, direction);
            sums.iter_mut()
                .zip(&away)
                .for_each(|(s, a)| *s += weight * length * a);
            all += weight;
        }
        sums.iter().map(|sum| sum / all).collect()
    }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The healthy training windows of a node as its detector sees them.
fn rows_of(node: &NodeResult, frame: &Frame) -> Vec<Vec<f64>> {
    let features = node.model.features();
    let rows = features.view(&features.prepare(frame), View::Values);
    let healthy = rows
        .iter()
        .zip(frame.truth())
        .filter(|(_, truth)| **truth != Truth::Anomalous);
    healthy
        .map(|(row, _)| row.iter().map(|x| f64::from(*x)).collect())
        .collect()
}

/// The mean of a fitted plane, and its directions.
fn plane(node: &NodeResult) -> (Vec<f64>, Vec<Vec<f64>>) {
    let stored = serde_json::to_value(&node.model).expect("a document");
    let list = |name: &str| -> Vec<f64> {
        let list = stored["members"][0]["fitted"]["pca"][name]
            .as_array()
            .expect("a plane");
        list.iter().map(|x| x.as_f64().expect("a number")).collect()
    };
    let (mean, plane) = (list("mean"), list("plane"));
    let directions = plane.chunks_exact(mean.len()).map(<[f64]>::to_vec).collect();
    (mean, directions)
}

/// How far directions are from principal axes of rows, as a share of the first variance; and the variance along each.
fn astray(rows: &Weighed, directions: &[Vec<f64>]) -> (f64, Vec<f64>) {
    let images: Vec<Vec<f64>> = directions.iter().map(|d| rows.along(d)).collect();
    let variances: Vec<f64> = images
        .iter()
        .zip(directions)
        .map(|(i, d)| product(i, d))
        .collect();
    let off = images
        .iter()
        .zip(directions)
        .zip(&variances)
        .map(|((image, direction), variance)| {
            let parts = image
                .iter()
                .zip(direction)
                .map(|(i, d)| (i - variance * d).powi(2));
            parts.sum::<f64>().sqrt()
        });
    (off.fold(0.0, f64::max) / variances[0], variances)
}

#[test]
fn a_plane_is_fitted_to_the_nodes_own_windows_and_to_those_of_the_others_at_a_quarter_of_a_node() {
    let (site, recipe) = (Site::new(4, 20), Recipe::named("pca", 1).expect("a recipe"));
    let fleet = Together::gather(&recipe, &site, 2, &|| {}).expect("gathered");
    let [_, together, _] = three(2, &site, &fleet, &|| {});
    let found = together.nodes;
    let names = |node: usize| found[node].model.features().names();
    assert!((1..4).all(|node| names(node).eq(names(0))));
    let rows: Vec<_> = found
        .iter()
        .zip(frames(4))
        .map(|(node, frame)| rows_of(node, &frame))
        .collect();
    for (i, node) in found.iter().enumerate() {
        let mut all = Weighed(vec![]);
        all.add(1.0, rows[i].iter().cloned());
        let own = Weighed(all.0.clone());
        for (_, other) in rows.iter().enumerate().filter(|(j, _)| *j != i) {
            let mut one = Weighed(vec![]);
            one.add(1.0, other.iter().cloned());
            let mean = one.mean();
            let centred = |row: &Vec<f64>| row.iter().zip(&mean).map(|(x, m)| x - m).collect();
            all.add(0.25 / 3.0, other.iter().map(centred));
        }
        let (mean, directions) = plane(node);
        // Means are rounded once; products are summed in single precision and directions found in it: dozens of roundings
        // of 6e-8.
        let off = mean
            .iter()
            .zip(all.mean())
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        assert!(off < 1e-6, "{off}");
        let (off, variances) = astray(&all, &directions);
        assert!(off < 1e-5, "{off}");
        let alone = astray(&own, &directions).0;
        assert!(alone > 1e-3, "the others are not in it: {alone}");
        assert!(variances.is_sorted_by(|a, b| a >= b), "{variances:?}");
        let unit = |i: usize| {
            (0..mean.len())
                .map(|j| f64::from(u8::from(i == j)))
                .collect::<Vec<_>>()
        };
        let whole: f64 = (0..mean.len()).map(|i| all.along(&unit(i))[i]).sum();
        let share = |count: usize| variances[..count].iter().sum::<f64>() / whole;
        let count = variances.len();
        assert!(
            share(count) >= 0.9 - 1e-5 && share(count - 1) < 0.9,
            "{variances:?} of {whole}"
        );
    }
}
