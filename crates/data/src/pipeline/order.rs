//! The order of rows, as a pure function of seed and epoch.

use synod_core::random::counted::{below, number, of_epoch};

const ROUNDS: usize = 6;

/// A permutation of `0..rows` that is computed place by place: it takes no memory, and any place can be asked for first.
///
/// It is a Feistel network over a grid just larger than `rows`; places outside are walked on until one is inside.
#[derive(Copy, Clone, Debug)]
pub struct Order {
    rows: u64,
    sides: [u64; 2],
    keys: Option<[u64; ROUNDS]>,
}

impl Order {
    /// The rows one after the other.
    pub fn sequential(rows: u64) -> Order {
        Order {
            rows,
            sides: [1, 1],
            keys: None,
        }
    }

    /// The shuffled order of an epoch.
    pub fn shuffled(rows: u64, seed: u64, epoch: u64) -> Order {
        let side = rows.isqrt().max(1);
        let keys = std::array::from_fn(|round| of_epoch(seed, epoch, 0x5f, round as u64));
        Order {
            rows,
            sides: [side, rows.div_ceil(side).max(1)],
            keys: Some(keys),
        }
    }

    /// Which row comes at `place`, for places below the number of rows.
    #[inline]
    pub fn at(&self, place: u64) -> u64 {
        let Some(keys) = &self.keys else {
            return place;
        };
        let mut place = place;
        loop {
            place = self.network(keys, place);
            if place < self.rows {
                return place;
            }
        }
    }

    #[inline]
    fn network(&self, keys: &[u64; ROUNDS], place: u64) -> u64 {
        let [a, b] = self.sides;
        let (mut left, mut right) = (place % a, place / a);
        for pair in keys.chunks_exact(2) {
            left += below(number(pair[0] ^ right, 1), a);
            left -= if left >= a { a } else { 0 };
            right += below(number(pair[1] ^ left, 1), b);
            right -= if right >= b { b } else { 0 };
        }
        right * a + left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_a_permutation() {
        for rows in (0..200).chain([1000, 1023, 1024, 1025, 9973]) {
            let order = Order::shuffled(rows, 3, rows);
            let mut seen: Vec<u64> = (0..rows).map(|place| order.at(place)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..rows), "{rows} rows");
        }
        assert!((0..9).map(|p| Order::sequential(9).at(p)).eq(0..9));
    }

    #[test]
    fn seeds_and_epochs_give_different_orders() {
        let order = |seed, epoch| {
            let order = Order::shuffled(1000, seed, epoch);
            (0..1000).map(|p| order.at(p)).collect::<Vec<_>>()
        };
        assert_eq!(order(1, 1), order(1, 1));
        let same = |a: &[u64], b: &[u64]| a.iter().zip(b).filter(|(x, y)| x == y).count();
        assert!(same(&order(1, 1), &order(1, 2)) < 15);
        assert!(same(&order(1, 1), &order(2, 1)) < 15);
    }

    /// Over many epochs a row is equally likely everywhere, and its successor tells nothing.
    #[test]
    fn rows_are_spread_evenly() {
        let (rows, epochs) = (50u64, 4000u64);
        let mut places = vec![0u32; 2500];
        let mut followers = vec![0u32; 2500];
        for epoch in 0..epochs {
            let order = Order::shuffled(rows, 9, epoch);
            for place in 0..rows {
                places[(order.at(place) * rows + place) as usize] += 1;
                if place > 0 {
                    followers[(order.at(place - 1) * rows + order.at(place)) as usize] += 1;
                }
            }
        }
        let chi = |counts: &[u32], expected: f64| {
            let sum: f64 = counts
                .iter()
                .map(|&c| (f64::from(c) - expected).powi(2) / expected)
                .sum();
            sum / counts.len() as f64
        };
        // Uniform counts give 1 with a standard deviation of about 0.03.
        let spread = chi(&places, epochs as f64 / rows as f64);
        assert!((0.85..1.15).contains(&spread), "{spread}");
        followers.retain(|&c| c > 0);
        let follows = chi(&followers, epochs as f64 / rows as f64);
        assert!((0.85..1.25).contains(&follows), "{follows}");
        assert_eq!(followers.len(), 2450, "every row follows every other");
    }
}
