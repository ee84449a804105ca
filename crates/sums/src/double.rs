//! Numbers of twice the precision, for what would otherwise cancel.

use std::ops::{Add, Mul, Sub};

/// A number as the sum of two `f64`, the second below the rounding of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Double {
    pub(super) high: f64,
    pub(super) low: f64,
}

impl Double {
    pub(super) fn new(high: f64, low: f64) -> Double {
        Double { high, low }
    }

    pub(super) fn over(self, divisor: f64) -> Double {
        let first = self.high / divisor;
        let rest = self - Double::new(first, 0.0) * Double::new(divisor, 0.0);
        normal(first, rest.high / divisor)
    }

    pub(super) fn to_f64(self) -> f64 {
        self.high + self.low
    }
}

impl Add for Double {
    type Output = Double;
    fn add(self, other: Double) -> Double {
        let (sum, lost) = two_sum(self.high, other.high);
        normal(sum, lost + (self.low + other.low))
    }
}

impl Sub for Double {
    type Output = Double;
    fn sub(self, other: Double) -> Double {
        self + Double::new(-other.high, -other.low)
    }
}

impl Mul for Double {
    type Output = Double;
    fn mul(self, other: Double) -> Double {
        let product = self.high * other.high;
        let (a, b) = (halves(self.high), halves(other.high));
        let lost = ((a.0 * b.0 - product) + a.0 * b.1 + a.1 * b.0) + a.1 * b.1;
        normal(product, lost + (self.high * other.low + self.low * other.high))
    }
}

/// A sum and what its rounding lost, by Knuth.
#[inline]
pub(super) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

fn normal(high: f64, low: f64) -> Double {
    let sum = high + low;
    Double::new(sum, low - (sum - high))
}

/// A number as the sum of two of 26 bits, by Veltkamp.
fn halves(value: f64) -> (f64, f64) {
    let raised = 134_217_729.0 * value;
    let high = raised - (raised - value);
    (high, value - high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_quotients_keep_what_one_number_loses() {
        let third = Double::new(1.0, 0.0).over(3.0);
        let near = third * Double::new(3.0, 0.0) - Double::new(1.0, 0.0);
        assert!(near.to_f64().abs() < 1e-31, "{near:?}");
        let x = Double::new(1.0 + f64::EPSILON, 0.0);
        let rest = x * x - Double::new(1.0 + 2.0 * f64::EPSILON, 0.0);
        assert_eq!(rest.to_f64(), f64::EPSILON * f64::EPSILON);
    }
}
