//! The same principal components on every client.

use serde::{Deserialize, Serialize};

use super::CrossMoments;
use super::columns::check_rows;
use super::eigen::{dot, largest};
use crate::{Error, Result};

/// The directions in which rows vary most, and the mean from which they start.
///
/// They depend on nothing but the sums, to the bit and on every machine. The entry of a direction that is largest in magnitude is
/// positive; where two are as large, the first.
///
/// ```
/// use synod_sums::{Components, CrossMoments};
///
/// // Two clients, whose rows lie about the line y = 2x.
/// let mut all = CrossMoments::of(2, &[1.0, 2.0, 3.0, 6.0])?;
/// all.merge(&CrossMoments::of(2, &[2.0, 4.0])?)?;
/// let components = Components::of(&all, 1)?;
/// assert!((components.shares()[0] - 1.0).abs() < 1e-12);
/// let projected = components.apply(&[2.0, 4.0, 3.0, 6.0])?;
/// assert!(projected[0].abs() < 1e-6 && (projected[1] - 5f32.sqrt()).abs() < 1e-6);
/// # Ok::<(), synod_sums::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Components(Parts);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Parts {
    mean: Vec<f64>,
    directions: Vec<Vec<f64>>,
    /// The share of all variance along each direction.
    shares: Vec<f64>,
}

impl Components {
    /// The first `k` principal components of the rows that the sums are of.
    ///
    /// With values missing, covariances are over different rows, and the directions only nearly the best.
    pub fn of(moments: &CrossMoments, k: usize) -> Result<Components> {
        let columns = moments.columns();
        if !(1..=columns).contains(&k) {
            return Err(Error::Setting(format!(
                "{columns} columns have from 1 to {columns} principal components, not {k}"
            )));
        }
        let covariances = moments.covariances();
        if let Some(place) = covariances.iter().position(|c| !c.is_finite()) {
            return Err(Error::Data(format!(
                "columns {} and {} have no row in common, so that they have no covariance: leave one out",
                place / columns,
                place % columns
            )));
        }
        let all: f64 = (0..columns).map(|c| covariances[c * columns + c]).sum();
        let found = largest(&covariances, columns, k);
        let share = |value: &f64| {
            if all > 0.0 {
                (value / all).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        let mean = (0..columns).map(|c| moments.moments().mean(c).unwrap_or(0.0));
        Ok(Components(Parts {
            mean: mean.collect(),
            directions: found.vectors.chunks_exact(columns).map(facing).collect(),
            shares: found.values.iter().map(share).collect(),
        }))
    }

    /// The mean of each column.
    pub fn mean(&self) -> &[f64] {
        &self.0.mean
    }

    /// The directions: unit vectors that are orthogonal to each other, that of the largest variance first.
    pub fn directions(&self) -> &[Vec<f64>] {
        &self.0.directions
    }

    /// The share of all columns' variance along each direction; zeros if nothing varies.
    pub fn shares(&self) -> &[f64] {
        &self.0.shares
    }

    /// How far each row, one after another, is from the mean along each direction. Where a value is missing, all are.
    pub fn apply(&self, rows: &[f32]) -> Result<Vec<f32>> {
        let columns = self.0.mean.len();
        check_rows(columns, rows)?;
        let mut projected = Vec::with_capacity(rows.len() / columns * self.0.directions.len());
        let mut centred = vec![0.0; columns];
        for row in rows.chunks_exact(columns) {
            for ((centred, &value), mean) in centred.iter_mut().zip(row).zip(&self.0.mean) {
                *centred = f64::from(value) - mean;
            }
            let along = |direction: &Vec<f64>| dot(&centred, direction) as f32;
            projected.extend(self.0.directions.iter().map(along));
        }
        Ok(projected)
    }
}

/// Of a direction and its opposite, the one whose largest entry is positive.
fn facing(direction: &[f64]) -> Vec<f64> {
    let most = direction.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    // Entries that differ only by rounding count as alike, so that the first of them decides.
    let first = direction.iter().find(|x| x.abs() >= most * (1.0 - 1e-9));
    let sign = first.map_or(1.0, |x| x.signum());
    direction.iter().map(|x| sign * x).collect()
}

impl TryFrom<Parts> for Components {
    type Error = Error;

    fn try_from(parts: Parts) -> Result<Components> {
        let columns = parts.mean.len();
        let count = parts.directions.len();
        let good = (1..=columns).contains(&count)
            && parts.shares.len() == count
            && parts.directions.iter().all(|d| d.len() == columns);
        match good {
            true => Ok(Components(parts)),
            false => Err(Error::Malformed(format!(
                "{count} principal components of {columns} columns do not fit together"
            ))),
        }
    }
}

impl From<Components> for Parts {
    fn from(components: Components) -> Parts {
        components.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::eigen::diagonalise;
    use super::*;
    use synod_core::Random;

    /// Rows whose columns go together in several ways and differ in size.
    fn rows(count: usize, columns: usize, seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed, &[5]);
        let mut rows = vec![];
        for _ in 0..count {
            let common = [random.normal(), random.normal()];
            let value = |c: usize| common[c % 2] * (c + 1) as f64 + 100.0;
            rows.extend((0..columns).map(|c| (value(c) + random.normal()) as f32));
        }
        rows
    }

    #[test]
    fn two_columns_have_the_components_of_the_closed_form() {
        let rows = rows(500, 2, 1);
        let moments = CrossMoments::of(2, &rows).expect("sums");
        let [a, b, _, d] = moments.covariances()[..] else {
            panic!("four covariances")
        };
        let root = ((a - d).powi(2) / 4.0 + b * b).sqrt();
        let larger = (a + d) / 2.0 + root;
        let length = (b * b + (larger - a).powi(2)).sqrt();
        let components = Components::of(&moments, 2).expect("components");
        assert!((components.shares()[0] - larger / (a + d)).abs() < 1e-14);
        assert!((components.shares().iter().sum::<f64>() - 1.0).abs() < 1e-14);
        let along = components.directions()[0][0] * b + components.directions()[0][1] * (larger - a);
        assert!((along.abs() / length - 1.0).abs() < 1e-14);
    }

    #[test]
    fn components_are_the_eigenvectors_that_brute_force_finds() {
        for columns in [3, 8, 45] {
            let rows = rows(300, columns, columns as u64);
            let moments = CrossMoments::of(columns, &rows).expect("sums");
            let mut covariances = moments.covariances();
            let vectors = diagonalise(&mut covariances, columns, 1e-28);
            let mut order: Vec<usize> = (0..columns).collect();
            let value = |i: usize| covariances[i * columns + i];
            order.sort_by(|&a, &b| value(b).total_cmp(&value(a)));
            let all: f64 = (0..columns).map(value).sum();
            let components = Components::of(&moments, 3).expect("components");
            for (i, direction) in components.directions().iter().enumerate() {
                let along = dot(direction, &vectors[order[i] * columns..][..columns]);
                assert!((along.abs() - 1.0).abs() < 1e-12, "{columns}: {i}: {along}");
                assert!((components.shares()[i] - value(order[i]) / all).abs() < 1e-13);
                let most = direction.iter().fold(0.0f64, |m, x| m.max(x.abs()));
                assert!(direction.contains(&most), "the largest entry is positive");
            }
        }
    }

    #[test]
    fn projected_rows_have_the_variances_and_no_covariance() {
        let rows = rows(400, 6, 9);
        let moments = CrossMoments::of(6, &rows).expect("sums");
        let components = Components::of(&moments, 6).expect("components");
        let after = CrossMoments::of(6, &components.apply(&rows).expect("projected")).expect("sums");
        let all: f64 = (0..6).filter_map(|c| moments.covariance(c, c)).sum();
        for i in 0..6 {
            assert!(after.moments().mean(i).expect("a mean").abs() < 1e-6);
            for j in 0..6 {
                let want = if i == j { components.shares()[i] * all } else { 0.0 };
                let got = after.covariance(i, j).expect("a covariance");
                assert!((got - want).abs() < 1e-5 * all, "{i}, {j}: {got} for {want}");
            }
        }
    }

    #[test]
    fn neither_division_nor_order_of_clients_changes_a_bit() {
        let rows = rows(1000, 7, 4);
        let whole = Components::of(&CrossMoments::of(7, &rows).expect("sums"), 4).expect("components");
        for (seed, own) in [(1, 1), (2, 33), (3, 400)] {
            let mut clients: Vec<&[f32]> = rows.chunks(7 * own).collect();
            Random::new(seed, &[]).shuffle(&mut clients);
            let mut merged = CrossMoments::new(7);
            for client in clients {
                let told = CrossMoments::of(7, client).expect("sums");
                merged.merge(&told).expect("merged");
            }
            assert_eq!(Components::of(&merged, 4).expect("components"), whole, "{own}");
        }
    }

    #[test]
    fn what_has_no_components_says_why() {
        let moments = CrossMoments::of(2, &[1.0, f32::NAN, f32::NAN, 2.0]).expect("sums");
        let why = |k| Components::of(&moments, k).expect_err("refused").to_string();
        assert!(why(0).contains("from 1 to 2") && why(3).contains("not 3"));
        assert!(why(1).contains("columns 0 and 1 have no row in common"));
        let still = CrossMoments::of(2, &[1.0, 5.0, 1.0, 5.0]).expect("sums");
        let still = Components::of(&still, 2).expect("components");
        assert_eq!(still.shares(), [0.0, 0.0]);
        assert_eq!(still.apply(&[1.0, 5.0]).expect("projected"), [0.0, 0.0]);
        assert!(still.apply(&[1.0, f32::NAN]).expect("projected")[1].is_nan());
    }

    #[test]
    fn components_come_back_from_a_file_and_impossible_ones_are_refused() {
        let moments = CrossMoments::of(3, &rows(50, 3, 2)).expect("sums");
        let components = Components::of(&moments, 2).expect("components");
        let text = serde_json::to_string(&components).expect("text");
        assert_eq!(
            serde_json::from_str::<Components>(&text).expect("the same"),
            components
        );
        let bad = r#"{ "mean": [0.0], "directions": [[1.0, 0.0]], "shares": [1.0] }"#;
        assert!(serde_json::from_str::<Components>(bad).is_err());
    }
}
