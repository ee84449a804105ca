//! Populations larger than the data: each client's rows are drawn when asked for.

use std::collections::HashSet;

use super::{Draw, Partition, RowsToDivide};
use crate::{Error, Random, Result};

const PURPOSE: u64 = 0x0064_7261_776e;

/// Clients that each hold rows drawn for them from a seed. Clients may share rows; one client's rows differ.
///
/// Memory is proportional to the rows, whatever the number of clients.
#[derive(Clone, Debug)]
pub struct Drawn {
    clients: usize,
    each: usize,
    /// Labels of a client; none if rows are drawn from all.
    labels: Option<usize>,
    by_label: Vec<Vec<u32>>,
    seed: u64,
}

impl Drawn {
    pub(super) fn new(rows: &RowsToDivide, draw: Draw, clients: usize, seed: u64) -> Result<Drawn> {
        let by_label = match draw.labels {
            Some(_) => rows.by_label()?,
            None => vec![(0..rows.len() as u32).collect()],
        };
        let kinds = draw.labels.unwrap_or(1);
        if kinds == 0 || kinds > by_label.len() || draw.rows < kinds {
            return Err(Error::Setting(format!(
                "a client cannot draw {} rows of {kinds} labels: the rows have {}",
                draw.rows,
                by_label.len()
            )));
        }
        let fewest = by_label.iter().map(Vec::len).min().unwrap_or(0);
        if draw.rows.div_ceil(kinds) > fewest {
            return Err(Error::Data(format!(
                "a client cannot draw {} different rows of one kind: the rarest has {fewest}",
                draw.rows.div_ceil(kinds)
            )));
        }
        Ok(Drawn {
            clients,
            each: draw.rows,
            labels: draw.labels,
            by_label,
            seed,
        })
    }
}

impl Partition for Drawn {
    fn clients(&self) -> usize {
        self.clients
    }

    fn samples(&self, client: usize) -> usize {
        if client < self.clients { self.each } else { 0 }
    }

    fn rows(&self, client: usize, rows: &mut Vec<u32>) {
        rows.clear();
        if client >= self.clients {
            return;
        }
        let mut random = Random::new(self.seed, &[PURPOSE, client as u64]);
        let kinds = self.labels.unwrap_or(1);
        let labels = distinct(kinds, self.by_label.len(), &mut random);
        for (i, label) in labels.into_iter().enumerate() {
            let count = self.each * (i + 1) / kinds - self.each * i / kinds;
            let of = &self.by_label[label];
            rows.extend(distinct(count, of.len(), &mut random).into_iter().map(|r| of[r]));
        }
        rows.sort_unstable();
    }
}

/// So many different numbers below `below`, by Floyd.
fn distinct(count: usize, below: usize, random: &mut Random) -> Vec<usize> {
    let mut taken = HashSet::with_capacity(count);
    (below - count..below)
        .map(|last| {
            let candidate = random.below(last as u64 + 1) as usize;
            let number = if taken.contains(&candidate) {
                last
            } else {
                candidate
            };
            taken.insert(number);
            number
        })
        .collect()
}
