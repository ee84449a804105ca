//! Scores of classes: stable where naive formulas overflow, exact about ties, and flat where they should be.

mod common;

use common::differences::derivatives;
use common::{Rng, for_seeds};
use synod_engine::{Tensor, Type, grad, interpret, trace, value_and_gradient};

fn rows(values: &[f32], width: usize) -> Tensor {
    Tensor::new(values.to_vec(), [values.len() / width, width])
}

#[test]
fn softmax_and_its_logarithm_survive_scores_that_overflow() {
    let x = rows(&[1000.0, 1000.0, -1000.0, 0.0], 2);
    assert_eq!(x.softmax().values().unwrap(), [0.5, 0.5, 0.0, 1.0]);
    let log = x.log_softmax();
    let log = log.values().unwrap();
    assert!((log[0] + std::f32::consts::LN_2).abs() < 1e-6);
    assert_eq!(log[2], -1000.0);
}

#[test]
fn cross_entropy_of_sequences_is_the_mean_over_all_rows() {
    let logits = Tensor::new(vec![0.0, 0.0, 3.0, 1.0, -1.0, 2.0, 0.5, 0.5], [2, 2, 2]);
    let classes = Tensor::new(vec![0.0, 1.0, 1.0, 0.0], [2, 2]);
    let found = logits.cross_entropy(&classes).item().unwrap();
    let row = |x: f32, y: f32| (x.exp() + y.exp()).ln() - x;
    let wanted = (row(0.0, 0.0) + row(1.0, 3.0) + row(2.0, -1.0) + row(0.5, 0.5)) / 4.0;
    assert!((found - wanted).abs() < 1e-6, "{found} instead of {wanted}");
}

#[test]
fn scores_have_right_derivatives() {
    for_seeds(6, |rng| {
        let graph = trace(&[Type::tensor([2, 2, 3])], |s| {
            let classes = Tensor::new(vec![2.0, 0.0, 1.0, 1.0], [2, 2]);
            vec![s[0].softmax(), s[0].log_softmax(), s[0].cross_entropy(&classes)]
        });
        let args = [rng.apart(12)];
        derivatives(&graph.map_err(|e| e.to_string())?, &args, &[0], 1e-3)
    });
}

#[test]
fn the_slope_of_cross_entropy_is_probability_minus_truth() {
    let x = rows(&[0.5, -1.0, 2.0], 3);
    let class = Tensor::new(vec![1.0], [1]);
    let (_, slope) = value_and_gradient(|x| x[0].cross_entropy(&class), std::slice::from_ref(&x)).unwrap();
    let wanted = x.softmax() - class.one_hot(3);
    for (s, w) in slope[0].values().unwrap().iter().zip(wanted.values().unwrap()) {
        assert!((s - w).abs() < 1e-6);
    }
}

#[test]
fn argmax_is_the_first_of_equals_and_names_nothing_in_a_row_of_nan() {
    let x = rows(&[1.0, 3.0, 3.0, -5.0, -6.0, -7.0, 0.0, f32::NAN, 1.0], 3);
    assert_eq!(x.argmax().values().unwrap(), [1.0, 0.0, 3.0]);
    let error = Tensor::scalar(1.0).argmax().values().unwrap_err().to_string();
    assert!(error.contains("argmax") && error.contains("[]"), "{error}");
}

#[test]
fn an_index_outside_the_classes_is_hot_nowhere() {
    let hot = Tensor::new(vec![2.0, 0.0, 3.0], [3]).one_hot(3);
    assert_eq!(
        hot.values().unwrap(),
        [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    );
}

#[test]
fn the_top_k_are_the_k_first_of_the_order_by_score_and_place() {
    for_seeds(40, |rng| {
        let (n, k) = (1 + rng.below(6), 1 + rng.below(6));
        // Few different values, so that ties are common.
        let scores: Vec<f32> = (0..n).map(|_| rng.below(3) as f32).collect();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        for class in 0..n + 1 {
            let wanted = order.iter().take(k).any(|&c| c == class);
            let target = Tensor::new(vec![class as f32], [1]);
            let found = rows(&scores, n)
                .in_top_k(&target, k)
                .item()
                .map_err(|e| e.to_string())?;
            if found != f32::from(u8::from(wanted)) {
                return Err(format!("class {class} of {scores:?} in the top {k}: {found}"));
            }
        }
        Ok(())
    });
}

#[test]
fn what_counts_and_compares_has_gradient_zero() {
    let graph = trace(&[Type::tensor([2, 4])], |s| {
        let classes = Tensor::new(vec![1.0, 2.0], [2]);
        vec![s[0].argmax().sum_all() + s[0].in_top_k(&classes, 2).sum_all() + s[0].sum_all()]
    });
    let slope = grad(&graph.unwrap(), &[0]).unwrap();
    assert_eq!(interpret(&slope, &[Rng(3).apart(8)]).unwrap(), [[1.0; 8]]);
}
