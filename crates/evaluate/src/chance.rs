//! Whether a node has more false alarms than its budget, or merely bad luck.

/// How seldom chance gives so many alarms that another reason is sought.
const SELDOM: f64 = 0.01;

/// Whether so many alarms are more than chance gives, but for one time in a hundred, where `allowed` are expected.
pub fn beyond_chance(found: usize, allowed: f64) -> bool {
    allowed >= 0.0 && at_least(found, allowed) < SELDOM
}

/// The chance of so many events or more, if they fall independently and `expected` of them on average.
fn at_least(count: usize, expected: f64) -> f64 {
    let mut term = (-expected).exp();
    let mut fewer = 0.0;
    for i in 0..count {
        fewer += term;
        term *= expected / (i + 1) as f64;
    }
    1.0 - fewer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_that_of_the_poisson_distribution() {
        assert_eq!(at_least(0, 3.0), 1.0);
        assert!((at_least(1, 1.0) - 0.632_120_56).abs() < 1e-8);
        assert!((at_least(5, 1.0) - 0.003_659_85).abs() < 1e-8);
        assert!((at_least(12, 10.0) - 0.303_224).abs() < 1e-6);
    }

    #[test]
    fn five_alarms_where_one_is_allowed_are_no_chance_and_four_may_be() {
        assert!(beyond_chance(5, 1.0) && !beyond_chance(4, 1.0));
        assert!(!beyond_chance(5, 2.0) && beyond_chance(1, 0.0));
        assert!(!beyond_chance(0, 0.0) && !beyond_chance(9, f64::NAN));
    }
}
