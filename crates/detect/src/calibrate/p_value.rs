//! How seldom healthy windows score as high.

/// The split-conformal p-value of a score against n scores of training windows that the detector had not seen,
/// (1 + #{r ≥ s}) / (n + 1): if healthy windows are exchangeable with those, p ≤ α in at most a share α of them. None if there is
/// no reference or the score is NaN.
pub fn p_value(reference: &[f32], score: f32) -> Option<f64> {
    let known = reference.iter().filter(|r| !r.is_nan());
    let (count, higher) = known.fold((0usize, 0usize), |(n, h), r| {
        (n + 1, h + usize::from(*r >= score))
    });
    (count > 0 && !score.is_nan()).then(|| (1 + higher) as f64 / (count + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_rank_among_the_reference_and_never_zero() {
        let reference = [0.0, 1.0, f32::NAN, 2.0];
        assert_eq!(p_value(&reference, 3.0), Some(0.25));
        assert_eq!(p_value(&reference, 1.0), Some(0.75));
        assert_eq!(p_value(&reference, -1.0), Some(1.0));
        assert_eq!((p_value(&[], 1.0), p_value(&reference, f32::NAN)), (None, None));
    }
}
