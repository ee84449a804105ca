//! Statistics from sums over clients: the same as those of all rows together, in whatever order.

use proptest::prelude::*;
use synod_core::Random;
use synod_sums::{ColumnMoments, ColumnScaling, CrossMoments, Edges, Histograms};

/// Rows of columns that differ in size and offset, some values missing. The third hardly varies about a large mean.
fn rows(count: usize, missing: f64, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed, &[11]);
    let mut rows = Vec::new();
    for _ in 0..count {
        let common = random.normal();
        let row = [
            common,
            1e-6 * (common + random.normal()),
            1e6 + 0.5 * random.normal(),
            1e12 * random.uniform(),
            -3.0,
        ];
        rows.extend(row.map(|value| match random.uniform() < missing {
            true => f32::NAN,
            false => value as f32,
        }));
    }
    rows
}

const COLUMNS: usize = 5;

fn column(rows: &[f32], column: usize) -> Vec<f64> {
    let values = rows.iter().skip(column).step_by(COLUMNS);
    values.filter(|v| !v.is_nan()).map(|&v| f64::from(v)).collect()
}

/// Mean and population variance in two passes.
fn pooled(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n)
}

fn close(a: f64, b: f64, within: f64) -> bool {
    (a - b).abs() <= within * b.abs().max(1e-30)
}

#[test]
fn merged_moments_are_those_of_all_rows() {
    for missing in [0.0, 0.2] {
        let all = rows(5000, missing, 1);
        let mut merged = ColumnMoments::new(COLUMNS);
        for client in all.chunks(COLUMNS * 137) {
            merged
                .merge(&ColumnMoments::of(COLUMNS, client).unwrap())
                .unwrap();
        }
        for c in 0..COLUMNS {
            let values = column(&all, c);
            let (mean, variance) = pooled(&values);
            assert_eq!(merged.count(c), values.len() as u64);
            assert!(close(merged.mean(c).unwrap(), mean, 1e-9), "mean of {c}");
            assert!(
                close(merged.variance(c).unwrap(), variance, 1e-9) || c == 4,
                "variance of {c}"
            );
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert_eq!(merged.min(c).map(f64::from), Some(least));
            assert_eq!(merged.max(c).map(f64::from), Some(most));
        }
        assert_eq!(merged.centred_squares(4), Some(0.0));
    }
}

#[test]
fn a_small_spread_about_a_large_mean_is_not_lost() {
    // The squares of the values are 18 digits larger than the variance.
    let values: Vec<f32> = (0..10_000).map(|i| 16_777_000.0 + (i % 3) as f32).collect();
    let moments = ColumnMoments::of(1, &values).unwrap();
    let shifted: Vec<f64> = values.iter().map(|&v| f64::from(v) - 16_777_000.0).collect();
    let (mean, variance) = pooled(&shifted);
    assert!(close(moments.mean(0).unwrap() - 16_777_000.0, mean, 1e-8));
    assert!(close(moments.variance(0).unwrap(), variance, 1e-12));
}

proptest! {
    #[test]
    fn neither_order_nor_division_changes_a_bit(
        seed in any::<u64>(),
        cuts in prop::collection::vec(1usize..40, 1..8),
        missing in prop::sample::select(vec![0.0, 0.3]),
    ) {
        let all = rows(cuts.iter().sum(), missing, seed);
        let mut left = all.as_slice();
        let mut clients: Vec<&[f32]> = cuts.iter().map(|cut| {
            let (own, others) = left.split_at(cut * COLUMNS);
            left = others;
            own
        }).collect();
        let expected = ColumnMoments::of(COLUMNS, &all).unwrap();
        let mut cross = Vec::new();
        for shuffle in 0..3 {
            Random::new(seed, &[shuffle]).shuffle(&mut clients);
            let mut merged = ColumnMoments::new(COLUMNS);
            let mut crossed = CrossMoments::new(COLUMNS);
            for client in &clients {
                merged.merge(&ColumnMoments::of(COLUMNS, client).unwrap()).unwrap();
                crossed.merge(&CrossMoments::of(COLUMNS, client).unwrap()).unwrap();
            }
            prop_assert_eq!(&merged, &expected);
            prop_assert_eq!(crossed.moments(), &expected);
            cross.push(crossed);
        }
        prop_assert_eq!(&cross[0], &cross[1]);
        prop_assert_eq!(&cross[0], &cross[2]);
    }

    #[test]
    fn a_refined_quantile_is_within_its_tolerance(
        values in prop::collection::vec(-1000i32..1000, 1..300),
        of in 0.0f64..=1.0,
        cubed in any::<bool>(),
    ) {
        let values: Vec<f32> = values.iter().map(|&v| if cubed { (v as f32).powi(3) } else { v as f32 }).collect();
        let all = refined(&[&values], &[of], 8, 1e-4);
        let mut sorted: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
        sorted.sort_by(f64::total_cmp);
        let range = sorted[sorted.len() - 1] - sorted[0];
        let quantile = all.quantile(0, of).unwrap();
        prop_assert!((quantile - interpolated(&sorted, of)).abs() <= 1e-4 * range + 1e-9);
    }
}

/// A quantile of sorted values, by linear interpolation.
fn interpolated(sorted: &[f64], of: f64) -> f64 {
    let position = of * (sorted.len() - 1) as f64;
    let low = position.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * (position - low as f64)
}

/// Passes over clients of one column until quantiles are known to a tolerance.
fn refined(clients: &[&[f32]], quantiles: &[f64], bins: usize, tolerance: f64) -> Histograms {
    let mut moments = ColumnMoments::new(1);
    for client in clients {
        moments.merge(&ColumnMoments::of(1, client).unwrap()).unwrap();
    }
    let mut edges = Edges::even(&moments, bins).unwrap();
    for _pass in 0..60 {
        let mut all = Histograms::new(edges);
        for client in clients {
            let mut own = Histograms::new(all.edges().clone());
            own.add(client).unwrap();
            all.merge(&own).unwrap();
        }
        match all.refine(quantiles, bins, tolerance) {
            Some(finer) => edges = finer,
            None => return all,
        }
    }
    panic!("still not refined after 60 passes");
}

#[test]
fn covariances_of_complete_rows_are_those_of_all_rows() {
    let all = rows(3000, 0.0, 2);
    let mut merged = CrossMoments::new(COLUMNS);
    for client in all.chunks(COLUMNS * 501) {
        merged.merge(&CrossMoments::of(COLUMNS, client).unwrap()).unwrap();
    }
    let columns: Vec<Vec<f64>> = (0..COLUMNS).map(|c| column(&all, c)).collect();
    let covariances = merged.covariances();
    for i in 0..COLUMNS {
        for j in 0..COLUMNS {
            let ((a, va), (b, vb)) = (pooled(&columns[i]), pooled(&columns[j]));
            let products = columns[i].iter().zip(&columns[j]).map(|(x, y)| (x - a) * (y - b));
            let expected = products.sum::<f64>() / 3000.0;
            let off = (covariances[i * COLUMNS + j] - expected).abs();
            assert!(off <= 1e-9 * (va * vb).sqrt(), "{i} {j}: {off}");
            assert_eq!(merged.count(i, j), 3000);
        }
    }
}

#[test]
fn covariances_with_missing_values_are_over_the_rows_that_have_both() {
    let all = rows(2000, 0.3, 5);
    let mut merged = CrossMoments::new(COLUMNS);
    for client in all.chunks(COLUMNS * 99) {
        merged.merge(&CrossMoments::of(COLUMNS, client).unwrap()).unwrap();
    }
    for i in 0..COLUMNS {
        for j in 0..COLUMNS {
            let pairs: Vec<(f64, f64)> = all
                .chunks(COLUMNS)
                .map(|row| (f64::from(row[i]), f64::from(row[j])))
                .filter(|(x, y)| !x.is_nan() && !y.is_nan())
                .collect();
            let (a, va) = pooled(&pairs.iter().map(|p| p.0).collect::<Vec<_>>());
            let (b, vb) = pooled(&pairs.iter().map(|p| p.1).collect::<Vec<_>>());
            let expected = pairs.iter().map(|(x, y)| (x - a) * (y - b)).sum::<f64>() / pairs.len() as f64;
            assert_eq!(merged.count(i, j), pairs.len() as u64);
            let off = (merged.covariance(i, j).unwrap() - expected).abs();
            assert!(off <= 1e-9 * (va * vb).sqrt(), "{i} {j}: {off}");
        }
    }
}

#[test]
fn columns_that_never_meet_have_no_covariance() {
    let rows = [1.0, f32::NAN, f32::NAN, 2.0];
    let moments = CrossMoments::of(2, &rows).unwrap();
    assert_eq!((moments.count(0, 1), moments.covariance(0, 1)), (0, None));
    assert!(moments.covariances()[1].is_nan());
    assert_eq!((moments.count(0, 2), moments.covariance(2, 0)), (0, None));
}

#[test]
fn a_quantile_is_within_one_bin() {
    let mut random = Random::new(3, &[]);
    let values: Vec<f32> = (0..4001).map(|_| random.normal().exp() as f32).collect();
    let moments = ColumnMoments::of(1, &values).unwrap();
    let mut histograms = Histograms::new(Edges::even(&moments, 200).unwrap());
    histograms.add(&values).unwrap();
    let mut sorted: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
    sorted.sort_by(f64::total_cmp);
    let bin = (sorted[4000] - sorted[0]) / 200.0;
    for of in [0.0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.999, 1.0] {
        let off = (histograms.quantile(0, of).unwrap() - interpolated(&sorted, of)).abs();
        assert!(off <= bin * 1.000_001, "{of}: {off}");
    }
    assert_eq!(histograms.quantile(0, 0.0), Some(sorted[0]));
    assert_eq!(histograms.quantile(0, 1.0), Some(sorted[4000]));
    assert_eq!(histograms.counts(0).iter().sum::<u64>(), 4001);
}

#[test]
fn a_second_pass_finds_quantiles_in_spite_of_an_outlier() {
    let mut values: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    values.push(1e9);
    let (first, second) = values.split_at(333);
    let all = refined(&[first, second], &[0.25, 0.5, 0.75], 64, 1e-9);
    assert!((all.quantile(0, 0.5).unwrap() - 500.0).abs() <= 1.0);
    let (centre, scale) = ColumnScaling::robust(&all).columns().next().unwrap();
    assert!(
        (centre - 500.0).abs() <= 1.0 && (scale - 500.0).abs() <= 2.0,
        "{centre} {scale}"
    );
}

#[test]
fn scaled_columns_are_what_they_are_called_and_come_back() {
    let original = rows(800, 0.1, 7);
    let moments = ColumnMoments::of(COLUMNS, &original).unwrap();
    let mut standard = original.clone();
    ColumnScaling::standard(&moments).apply(&mut standard).unwrap();
    let after = ColumnMoments::of(COLUMNS, &standard).unwrap();
    for c in 0..4 {
        assert!(after.mean(c).unwrap().abs() < 1e-6);
        assert!((after.variance(c).unwrap() - 1.0).abs() < 1e-5);
        assert_eq!(after.count(c), moments.count(c));
    }
    assert_eq!((after.min(4), after.max(4)), (Some(0.0), Some(0.0)));
    let mut ranged = original.clone();
    let scaling = ColumnScaling::min_max(&moments);
    scaling.apply(&mut ranged).unwrap();
    let after = ColumnMoments::of(COLUMNS, &ranged).unwrap();
    assert!((0..4).all(|c| (after.min(c), after.max(c)) == (Some(0.0), Some(1.0))));
    scaling.undo(&mut ranged).unwrap();
    for (place, (back, value)) in ranged.iter().zip(&original).enumerate() {
        let (least, most) = (moments.min(place % COLUMNS), moments.max(place % COLUMNS));
        let rounding = 2e-7 * (most.unwrap() - least.unwrap() + value.abs());
        assert!(
            (back.is_nan() && value.is_nan()) || (back - value).abs() <= rounding,
            "{place}"
        );
    }
}

#[test]
fn a_column_without_values_stays_as_it_is() {
    let mut row = [f32::NAN, 2.0];
    let moments = ColumnMoments::of(2, &row).unwrap();
    assert_eq!(
        (moments.mean(0), moments.variance(0), moments.min(0)),
        (None, None, None)
    );
    let histograms = Histograms::new(Edges::even(&moments, 4).unwrap());
    assert_eq!(histograms.quantile(0, 0.5), None);
    ColumnScaling::standard(&moments).apply(&mut row).unwrap();
    ColumnScaling::robust(&histograms).apply(&mut row).unwrap();
    assert!(row[0].is_nan() && row[1] == 0.0);
}

#[test]
fn the_two_zeros_are_one() {
    let (a, b) = (
        ColumnMoments::of(1, &[0.0]).unwrap(),
        ColumnMoments::of(1, &[-0.0]).unwrap(),
    );
    assert_eq!(
        serde_json::to_string(&a).unwrap(),
        serde_json::to_string(&b).unwrap()
    );
}

#[test]
fn what_cannot_be_added_says_why_and_changes_nothing() {
    let mut moments = ColumnMoments::of(2, &[1.0, 2.0]).unwrap();
    let before = moments.clone();
    let why = moments
        .add(&[1.0, 1.0, 3.0, f32::INFINITY])
        .unwrap_err()
        .to_string();
    assert!(why.contains("row 1, column 1"), "{why}");
    assert!(moments.add(&[1.0]).is_err());
    assert!(moments.merge(&ColumnMoments::new(3)).is_err());
    assert_eq!(moments, before);
    assert!(Edges::even(&moments, 0).is_err());
    let mut one = Histograms::new(Edges::even(&moments, 4).unwrap());
    let other = Histograms::new(Edges::even(&moments, 5).unwrap());
    assert!(
        one.merge(&other).is_ok(),
        "both columns are constant: one bin each"
    );
    moments.add(&[3.0, 9.0]).unwrap();
    assert!(
        one.merge(&Histograms::new(Edges::even(&moments, 4).unwrap()))
            .is_err()
    );
}

#[test]
fn messages_come_back_and_impossible_ones_are_refused() {
    let cross = CrossMoments::of(COLUMNS, &rows(50, 0.2, 1)).unwrap();
    let text = serde_json::to_string(&cross).unwrap();
    assert_eq!(serde_json::from_str::<CrossMoments>(&text).unwrap(), cross);
    let mut histograms = Histograms::new(Edges::even(cross.moments(), 7).unwrap());
    histograms.add(&rows(50, 0.2, 1)).unwrap();
    let text = serde_json::to_string(&histograms).unwrap();
    assert_eq!(serde_json::from_str::<Histograms>(&text).unwrap(), histograms);

    let good = serde_json::to_value(ColumnMoments::of(1, &[1.0, 2.0]).unwrap()).unwrap();
    let damaged: [fn(&mut serde_json::Value); 5] = [
        |column| column["count"] = 0.into(),
        |column| column["count"] = u64::MAX.into(),
        |column| column["range"] = serde_json::json!([2.0, 1.0]),
        |column| column["range"] = serde_json::Value::Null,
        |column| column["squares"][7] = u64::MAX.into(),
    ];
    for damage in damaged {
        let mut value = good.clone();
        damage(&mut value[0]);
        assert!(
            serde_json::from_value::<ColumnMoments>(value.clone()).is_err(),
            "{value}"
        );
    }
    assert!(serde_json::from_str::<Edges>("[[1.0, 0.5]]").is_err());
    assert!(serde_json::from_str::<Edges>("[[1.0]]").is_err());
    let short = r#"{ "edges": [[0.0, 1.0, 2.0]], "counts": [[1]] }"#;
    assert!(serde_json::from_str::<Histograms>(short).is_err());
}
