//! Sums of vectors that are the same in any order: each value is split into parts that add up without rounding.

use crate::level::{Kernel, Simd};
use crate::vector::Vector;

/// Adds `weight` times every value to three limbs. A value is rounded to a multiple of the quantum of the first limb, what
/// remains to one of the second, and so on; `1.5 * 2^52` quanta, in `big`, do the rounding. As long as a limb's sum stays
/// below `2^52` of its quanta nothing that was added is lost, and all levels give the same bits.
pub fn add_split(simd: Simd, limbs: [&mut [f64]; 3], big: [f64; 3], weight: f64, values: &[f32]) {
    let n = values.len();
    assert!(
        limbs.iter().all(|l| l.len() == n),
        "limbs of another length than {n} values"
    );
    simd.run(AddSplit {
        limbs,
        big,
        weight,
        values,
    });
}

/// The largest magnitude of the values, or one that is not finite if there is any; 0 for none.
pub fn largest_magnitude(simd: Simd, values: &[f32]) -> f32 {
    simd.run(Largest { values })
}

struct Largest<'a> {
    values: &'a [f32],
}

impl Kernel for Largest<'_> {
    type Output = f32;

    // Bits order magnitudes, and a maximum of integers may be taken in any order.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) -> f32 {
        let bits = self.values.iter().map(|x| x.to_bits() & 0x7fff_ffff);
        f32::from_bits(bits.max().unwrap_or(0))
    }
}

struct AddSplit<'a> {
    limbs: [&'a mut [f64]; 3],
    big: [f64; 3],
    weight: f64,
    values: &'a [f32],
}

impl Kernel for AddSplit<'_> {
    type Output = ();

    // Elementwise in double precision, for which plain loops vectorise as well as vectors of the level's own would.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let [high, middle, low] = self.limbs;
        let [first, second, third] = self.big;
        for (((h, m), l), &x) in high.iter_mut().zip(middle).zip(low).zip(self.values) {
            let x = self.weight * f64::from(x);
            let coarse = (x + first) - first;
            let rest = x - coarse;
            let fine = (rest + second) - second;
            *h += coarse;
            *m += fine;
            *l += ((rest - fine) + third) - third;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    #[test]
    fn the_largest_magnitude_is_found_and_so_is_what_is_not_finite() {
        for simd in Level::ALL.into_iter().filter_map(Simd::at) {
            assert_eq!(largest_magnitude(simd, &[]), 0.0);
            let mut values: Vec<f32> = (0..100).map(|i| (i as f32 * 0.37).sin()).collect();
            values[71] = -3.0;
            assert_eq!(largest_magnitude(simd, &values), 3.0);
            for odd in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                values[33] = odd;
                assert!(!largest_magnitude(simd, &values).is_finite());
            }
        }
    }

    #[test]
    fn every_level_splits_into_the_same_parts_and_loses_nothing() {
        let big = [1.5 * 2f64.powi(60), 1.5 * 2f64.powi(28), 1.5 * 2f64.powi(-4)];
        for n in [0, 1, 5, 16, 33, 100] {
            let values: Vec<f32> = (0..n)
                .map(|i| ((i * i) as f32 * 0.7).sin() * 10f32.powi(i % 9 - 4))
                .collect();
            let mut first: Option<Vec<f64>> = None;
            for level in Level::ALL {
                let Some(simd) = Simd::at(level) else { continue };
                let mut limbs = vec![0.0; 3 * n as usize];
                let (high, rest) = limbs.split_at_mut(n as usize);
                let (middle, low) = rest.split_at_mut(n as usize);
                add_split(simd, [high, middle, low], big, 37.5, &values);
                for (i, &x) in values.iter().enumerate() {
                    let parts = [limbs[i], limbs[n as usize + i], limbs[2 * n as usize + i]];
                    let apart = parts[0] + parts[1] + parts[2] - 37.5 * f64::from(x);
                    assert!(apart.abs() <= 2f64.powi(-57), "{x}");
                    assert!((parts[0] / 256.0).fract() == 0.0 && (parts[1] * 2f64.powi(24)).fract() == 0.0);
                }
                let expected = first.get_or_insert_with(|| limbs.clone());
                assert_eq!(&limbs, expected, "{level:?}");
            }
        }
    }
}
