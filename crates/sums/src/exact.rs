//! Sums without rounding: long integers, which add up to the same in any order.

use serde::{Deserialize, Serialize};

use super::double::Double;

/// The value of the lowest bit, as a power of two. Finite `f32` values are whole multiples of it; so are their products but for
/// what is below 2^-192, which is cut off.
pub(super) const UNIT: i32 = -192;
const LIMBS: usize = 8;

/// A sum as a signed integer of 512 bits, the lowest first. 2^63 products of any two `f32` values fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Exact([u64; LIMBS]);

impl Exact {
    /// Adds a number below 2^300 in magnitude, as sums of products of `f32` values are.
    pub(super) fn add(&mut self, value: f64) {
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i32;
        let hidden = u64::from(exponent != 0) << 52;
        let mantissa = bits & ((1 << 52) - 1) | hidden;
        let shift = exponent.max(1) - 1075 - UNIT;
        let (mantissa, shift) = match u32::try_from(shift) {
            Ok(shift) => (mantissa, shift as usize),
            Err(_) => (mantissa.checked_shr(shift.unsigned_abs()).unwrap_or(0), 0),
        };
        let wide = u128::from(mantissa) << (shift % 64);
        let words = [wide as u64, (wide >> 64) as u64];
        let from = &mut self.0[(shift / 64).min(LIMBS)..];
        match value.is_sign_negative() {
            false => carry(from, &words, u64::overflowing_add),
            true => carry(from, &words, u64::overflowing_sub),
        }
    }

    pub(super) fn merge(&mut self, other: &Exact) {
        carry(&mut self.0, &other.0, u64::overflowing_add);
    }

    pub(super) fn minus(mut self, other: &Exact) -> Exact {
        carry(&mut self.0, &other.0, u64::overflowing_sub);
        self
    }

    fn is_negative(&self) -> bool {
        self.0[LIMBS - 1] >> 63 == 1
    }

    /// The nearest `f64`.
    pub(super) fn to_f64(self) -> f64 {
        if self.is_negative() {
            return -Exact::default().minus(&self).to_f64();
        }
        let Some(top) = self.0.iter().rposition(|&limb| limb != 0) else {
            return 0.0;
        };
        let low = top.saturating_sub(2);
        // Bits below the upper 128 matter only to a tie.
        let below = u128::from(self.0[..low].iter().any(|&limb| limb != 0));
        let (value, limb) = match top {
            0 => (u128::from(self.0[0]), 0),
            _ => (
                u128::from(self.0[top]) << 64 | u128::from(self.0[top - 1]),
                top - 1,
            ),
        };
        let spare = value.leading_zeros().min(63);
        let next = if limb > 0 { self.0[limb - 1] } else { 0 };
        let (filled, rest) = match spare {
            0 => (value, next),
            spare => (value << spare | u128::from(next >> (64 - spare)), next << spare),
        };
        let sticky = below | u128::from(rest != 0);
        let exponent = 64 * limb as i32 - spare as i32 + UNIT;
        (filled | sticky) as f64 * power(exponent)
    }

    /// The nearest sum of two `f64`.
    pub(super) fn to_double(self) -> Double {
        let high = self.to_f64();
        let mut rest = self;
        rest.add(-high);
        Double::new(high, rest.to_f64())
    }
}

fn carry(into: &mut [u64], words: &[u64], op: fn(u64, u64) -> (u64, bool)) {
    let mut carried = false;
    let (near, far) = into.split_at_mut(words.len().min(into.len()));
    for (limb, &word) in near.iter_mut().zip(words) {
        let (once, first) = op(*limb, word);
        let (twice, second) = op(once, u64::from(carried));
        *limb = twice;
        carried = first | second;
    }
    for limb in far {
        if !carried {
            return;
        }
        (*limb, carried) = op(*limb, 1);
    }
}

/// Two to a power from -1022 to 1023.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use synod_core::Random;

    #[test]
    fn what_rounding_loses_is_kept() {
        let mut sum = Exact::default();
        for value in [
            1e30,
            1.0,
            -1e30,
            1e-30,
            f64::from(f32::MAX).powi(2),
            -f64::from(f32::MAX).powi(2),
        ] {
            sum.add(value);
        }
        assert_eq!(sum.to_f64(), 1.0);
        assert_eq!(sum.to_double(), Double::new(1.0, 1e-30));
    }

    #[test]
    fn any_order_makes_the_same_bits() {
        let mut random = Random::new(1, &[]);
        let mut values: Vec<f64> = (0..500)
            .map(|i| random.normal() * 10f64.powi(i % 60 - 30))
            .collect();
        let sum = |values: &[f64]| {
            let mut sum = Exact::default();
            values.iter().for_each(|&value| sum.add(value));
            sum
        };
        let expected = sum(&values);
        for _ in 0..10 {
            random.shuffle(&mut values);
            let (mut first, second) = (sum(&values[..200]), sum(&values[200..]));
            first.merge(&second);
            assert_eq!(first, expected);
        }
    }

    proptest! {
        #[test]
        fn one_value_comes_back(mantissa in -1.0f64..1.0, exponent in -130i32..250) {
            let value = mantissa * power(exponent);
            let mut sum = Exact::default();
            sum.add(value);
            let cut = power(UNIT);
            prop_assert!((sum.to_f64() - value).abs() < cut);
            if value.abs() > power(UNIT + 53) {
                prop_assert_eq!(sum.to_f64(), value);
            }
            sum.add(-value);
            prop_assert_eq!(sum, Exact::default());
        }

        #[test]
        fn integers_round_as_integers_do(values in prop::collection::vec(any::<i64>(), 0..9)) {
            let mut sum = Exact::default();
            for &value in &values {
                let high = value >> 32 << 32;
                sum.add(high as f64);
                sum.add((value - high) as f64);
            }
            let expected: i128 = values.iter().map(|&value| i128::from(value)).sum();
            prop_assert_eq!(sum.to_f64(), expected as f64);
        }
    }
}
