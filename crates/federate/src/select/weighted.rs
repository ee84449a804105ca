//! Choice in proportion to weights, without putting back.

use std::collections::BinaryHeap;

use super::Population;
use crate::round::Round;
use crate::{ClientId, Random};

/// Names the stream of random numbers.
const WEIGHTED: u64 = 0x7765_6967;

/// Chooses as if clients were drawn one after another, each time in proportion to the weights of those left
/// (Efraimidis and Spirakis: everyone waits an exponential time of its own rate, and the first are taken). A client
/// whose weight is not a positive number is never chosen.
pub(super) fn pick(
    population: &dyn Population,
    seed: u64,
    round: Round,
    count: usize,
    weight: impl Fn(ClientId) -> f64,
) -> Vec<ClientId> {
    let mut first = BinaryHeap::new();
    for client in (0..population.clients())
        .map(ClientId)
        .filter(|&client| population.free(client))
    {
        let weight = weight(client);
        if weight > 0.0 && weight.is_finite() {
            let wait = -(1.0 - Random::new(seed, &[WEIGHTED, round.0, client.0]).uniform()).ln() / weight;
            // Positive numbers are ordered as their bits are.
            first.push((wait.abs().to_bits(), client));
            if first.len() > count {
                first.pop();
            }
        }
    }
    first.into_iter().map(|(_, client)| client).collect()
}

/// The geometric mean of the known losses, which a few absurd ones hardly move; 1 if none is known.
pub(super) fn typical_loss(population: &dyn Population) -> f64 {
    let losses = (0..population.clients()).filter_map(|client| population.loss(ClientId(client)));
    let usable = losses.filter(|&loss| loss > 0.0 && loss.is_finite());
    let (sum, count) = usable.fold((0.0, 0u64), |(sum, count), loss| (sum + loss.ln(), count + 1));
    if count == 0 {
        1.0
    } else {
        (sum / count as f64).exp()
    }
}
