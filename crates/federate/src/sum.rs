//! Sums that do not depend on the order of what is added.

use synod_kernels::{
    Simd,
    exact::{add_split, largest_magnitude},
};

use crate::error::{Error, Result};

/// The largest magnitude of one weighted value, and how many may be added.
const LARGEST: f64 = (1u64 << 40) as f64;
const MOST: u64 = 1 << 20;

/// Each limb holds whole multiples of its quantum, 2⁸, 2⁻²⁴ and 2⁻⁵⁶, and has room for `MOST` additions without rounding, so
/// any order gives the same bits.
const BIG: [f64; 3] = [1.5 * (1u64 << 60) as f64, 1.5 * (1u64 << 28) as f64, 1.5 / 16.0];

/// A vector of sums of weighted values: the same bits for any order of additions and any division among threads.
///
/// Every value is rounded to a multiple of 2⁻⁵⁶ once; after that nothing is rounded until [`ExactSum::totals`].
#[derive(Clone, Debug, PartialEq)]
pub struct ExactSum {
    limbs: [Vec<f64>; 3],
    count: u64,
}

impl ExactSum {
    /// Sums of nothing, for vectors of `len` values.
    pub fn new(len: usize) -> ExactSum {
        ExactSum {
            limbs: [vec![0.0; len], vec![0.0; len], vec![0.0; len]],
            count: 0,
        }
    }

    /// How many vectors were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The length of the vectors.
    pub fn len(&self) -> usize {
        self.limbs[0].len()
    }

    /// True for vectors of no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `weight` times every value; refuses, and changes nothing, what is not finite or far too large.
    pub fn add(&mut self, weight: f64, values: &[f32]) -> Result<()> {
        let largest = largest(values);
        self.check(values.len(), weight * f64::from(largest))?;
        let [high, middle, low] = &mut self.limbs;
        add_split(Simd::best(), [high, middle, low], BIG, weight, values);
        self.count += 1;
        Ok(())
    }

    /// [`ExactSum::add`] for numbers of double precision, with a weight of 1.
    pub(crate) fn add_numbers(&mut self, values: &[f64]) -> Result<()> {
        let largest = values
            .iter()
            .fold(0.0, |most: f64, x| if x.abs() <= most { most } else { x.abs() });
        self.check(values.len(), largest)?;
        let [high, middle, low] = &mut self.limbs;
        for (((h, m), l), &x) in high.iter_mut().zip(middle).zip(low).zip(values) {
            let coarse = (x + BIG[0]) - BIG[0];
            let fine = (x - coarse + BIG[1]) - BIG[1];
            *h += coarse;
            *m += fine;
            *l += ((x - coarse - fine) + BIG[2]) - BIG[2];
        }
        self.count += 1;
        Ok(())
    }

    fn check(&self, len: usize, largest: f64) -> Result<()> {
        if len != self.len() {
            return Err(Error::Malformed(format!(
                "{len} values where {} are summed",
                self.len()
            )));
        }
        // The comparison is false for NaN.
        if largest.abs() <= LARGEST && self.count < MOST {
            return Ok(());
        }
        Err(match self.count < MOST {
            true => Error::Malformed("a value is not finite or too large to be a model's".into()),
            false => Error::Round(format!("more than {MOST} updates in one sum")),
        })
    }

    /// Adds what another has summed, as if it had been added here.
    pub fn merge(&mut self, other: &ExactSum) -> Result<()> {
        if other.len() != self.len() || self.count + other.count > MOST {
            return Err(Error::Round("two sums do not fit together".into()));
        }
        for (mine, theirs) in self.limbs.iter_mut().zip(&other.limbs) {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        }
        self.count += other.count;
        Ok(())
    }

    /// The sums, each rounded once.
    pub fn totals(&self) -> impl Iterator<Item = f64> + '_ {
        let [high, middle, low] = &self.limbs;
        let limbs = high.iter().zip(middle).zip(low);
        limbs.map(|((h, m), l)| {
            // Where high and middle cancel, their sum is exact; what is rounded off otherwise goes to the low one.
            let sum = h + m;
            let part = sum - h;
            let rest = (h - (sum - part)) + (m - part);
            sum + (rest + l)
        })
    }

    /// Forgets everything but the length.
    pub fn clear(&mut self) {
        self.limbs.iter_mut().for_each(|limb| limb.fill(0.0));
        self.count = 0;
    }
}

/// The largest magnitude, or what is not finite if anything is.
pub(crate) fn largest(values: &[f32]) -> f32 {
    largest_magnitude(Simd::best(), values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use synod_core::Random;

    fn updates(seed: u64, count: usize, len: usize) -> Vec<(f64, Vec<f32>)> {
        let mut random = Random::new(seed, &[]);
        let mut value = || {
            let size = random.uniform() * 12.0 - 8.0;
            (random.normal() * 10f64.powf(size)) as f32
        };
        (0..count)
            .map(|k| {
                (
                    f64::from(k as u32 * 37 % 11) + 0.3,
                    (0..len).map(|_| value()).collect(),
                )
            })
            .collect()
    }

    proptest! {
        #[test]
        fn any_order_and_any_division_gives_the_same_bits(seed in 0u64..1000, split in 1usize..20) {
            let mut all = updates(seed, 20, 7);
            let mut whole = ExactSum::new(7);
            all.iter().for_each(|(w, v)| whole.add(*w, v).expect("added"));
            Random::new(seed, &[1]).shuffle(&mut all);
            let (mut a, mut b) = (ExactSum::new(7), ExactSum::new(7));
            for (i, (w, v)) in all.iter().enumerate() {
                if i < split { &mut a } else { &mut b }.add(*w, v).expect("added");
            }
            b.merge(&a).expect("merged");
            prop_assert_eq!(whole, b);
        }

        #[test]
        fn sums_are_those_of_exact_arithmetic(seed in 0u64..1000) {
            let all = updates(seed, 30, 5);
            let mut sum = ExactSum::new(5);
            all.iter().for_each(|(w, v)| sum.add(*w, v).expect("added"));
            for (i, total) in sum.totals().enumerate() {
                // Integers of 128 bits in units of 2⁻⁶⁰ are the oracle.
                let exact: i128 = all.iter().map(|(w, v)| (w * f64::from(v[i]) * (1u64 << 60) as f64).round() as i128).sum();
                let exact = exact as f64 / (1u64 << 60) as f64;
                prop_assert!((total - exact).abs() <= 1e-15 * (1.0 + exact.abs()), "{} {}", total, exact);
            }
        }
    }

    #[test]
    fn what_is_no_number_or_of_another_length_is_refused_and_changes_nothing() {
        let mut sum = ExactSum::new(2);
        sum.add(1.0, &[1.0f32, 2.0]).expect("added");
        let before = sum.clone();
        assert!(sum.add(1.0, &[f32::NAN, 0.0]).is_err());
        assert!(sum.add(1.0, &[0.0, f32::INFINITY]).is_err());
        assert!(sum.add(f64::NAN, &[0.0f32, 1.0]).is_err());
        assert!(sum.add_numbers(&[0.0, f64::NAN]).is_err());
        assert!(sum.add(1e9, &[0.0f32, 1e9]).is_err());
        assert!(sum.add(1.0, &[0.0f32]).is_err());
        assert_eq!(sum, before);
    }
}
