//! Clients in random order, as many as one cares to draw.

use std::collections::HashMap;

use crate::round::Round;
use crate::{ClientId, Random};

/// Names the stream of random numbers.
const DRAW: u64 = 0x6472_6177;

/// A shuffle by Fisher and Yates of which only the places that differ from the identity are kept.
pub(super) struct Draw {
    random: Random,
    drawn: u64,
    clients: u64,
    moved: HashMap<u64, u64>,
}

impl Draw {
    pub(super) fn new(clients: u64, seed: u64, round: Round) -> Draw {
        Draw {
            random: Random::new(seed, &[DRAW, round.0]),
            drawn: 0,
            clients,
            moved: HashMap::new(),
        }
    }
}

impl Iterator for Draw {
    type Item = ClientId;

    fn next(&mut self) -> Option<ClientId> {
        let left = self.clients.checked_sub(self.drawn).filter(|&left| left > 0)?;
        let place = self.drawn + self.random.below(left);
        // Places before `drawn` are never looked at again, so what is there need not be kept.
        let first = self.moved.remove(&self.drawn).unwrap_or(self.drawn);
        let client = if place == self.drawn {
            first
        } else {
            self.moved.insert(place, first).unwrap_or(place)
        };
        self.drawn += 1;
        Some(ClientId(client))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_whole_draw_is_a_permutation() {
        for clients in [0, 1, 2, 17, 1000] {
            let all: BTreeSet<u64> = Draw::new(clients, 3, Round(clients)).map(|c| c.0).collect();
            assert_eq!(all, (0..clients).collect());
        }
    }

    #[test]
    fn all_orders_are_equally_likely() {
        let mut seen = HashMap::new();
        for round in 0..24_000 {
            let order: Vec<u64> = Draw::new(4, 3, Round(round)).map(|c| c.0).collect();
            *seen.entry(order).or_insert(0) += 1;
        }
        // 24 orders, 1000 times each; a standard deviation is 31.
        assert_eq!(seen.len(), 24);
        assert!(seen.values().all(|count| (860..1140).contains(count)), "{seen:?}");
    }

    #[test]
    fn memory_is_in_proportion_to_what_was_drawn() {
        let mut draw = Draw::new(u64::MAX, 3, Round(0));
        let drawn: BTreeSet<_> = draw.by_ref().take(1000).collect();
        assert_eq!(drawn.len(), 1000);
        assert!(draw.moved.len() <= 1000);
    }
}
