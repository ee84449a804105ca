//! How far a partition is from an even one.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Partition;
use crate::{Error, Result};

/// How clients differ in the number and the labels of their rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Clients in the partition.
    pub clients: usize,
    /// Rows of all clients; a row that several hold counts for each.
    pub rows: usize,
    /// Rows of the client with the fewest.
    pub smallest: usize,
    /// Rows of the client with the most.
    pub largest: usize,
    /// Gini coefficient of the numbers of rows: 0 if all are equal, near 1 if one client holds everything.
    pub gini: f64,
    /// How labels differ, if there are any.
    pub labels: Option<LabelMeasures>,
}

/// How the label distributions of clients differ from that of all their rows together; means over clients that hold rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelMeasures {
    /// Half the sum of absolute differences: 0 if equal, 1 if disjoint.
    pub total_variation: f64,
    /// Hellinger distance: 0 if equal, 1 if disjoint.
    pub hellinger: f64,
    /// Entropy of a client's labels, in bits.
    pub entropy: f64,
    /// Entropy of the labels of all rows, in bits.
    pub global_entropy: f64,
    /// Different labels that a client holds.
    pub labels_held: f64,
    /// Different labels in all rows.
    pub labels: usize,
}

impl Measures {
    /// Measures a partition, with the label of each row if there are labels. Every client's rows are asked for twice.
    pub fn of(partition: &dyn Partition, labels: Option<&[u32]>) -> Result<Measures> {
        let mut sizes: Vec<usize> = (0..partition.clients()).map(|c| partition.samples(c)).collect();
        sizes.sort_unstable();
        Ok(Measures {
            clients: sizes.len(),
            rows: sizes.iter().sum(),
            smallest: sizes.first().copied().unwrap_or(0),
            largest: sizes.last().copied().unwrap_or(0),
            gini: gini(&sizes),
            labels: labels
                .map(|labels| label_measures(partition, labels))
                .transpose()?,
        })
    }
}

/// Gini coefficient of ascending sizes.
fn gini(sizes: &[usize]) -> f64 {
    let (n, total) = (sizes.len() as f64, sizes.iter().sum::<usize>() as f64);
    if total == 0.0 {
        return 0.0;
    }
    let ranked: f64 = sizes
        .iter()
        .enumerate()
        .map(|(i, &size)| (i + 1) as f64 * size as f64)
        .sum();
    2.0 * ranked / (n * total) - (n + 1.0) / n
}

fn label_measures(partition: &dyn Partition, labels: &[u32]) -> Result<LabelMeasures> {
    let mut kinds: BTreeMap<u32, usize> = labels.iter().map(|&label| (label, 0)).collect();
    kinds.values_mut().enumerate().for_each(|(i, kind)| *kind = i);
    let kind: Vec<usize> = labels.iter().map(|label| kinds[label]).collect();
    let mut rows = Vec::new();
    let mut count = |client, counts: &mut [u64]| -> Result<()> {
        partition.rows(client, &mut rows);
        for &row in &rows {
            let kind = kind.get(row as usize).ok_or_else(|| {
                Error::Data(format!(
                    "row {row} of a client has no label: there are {}",
                    kind.len()
                ))
            })?;
            counts[*kind] += 1;
        }
        Ok(())
    };
    let mut all = vec![0; kinds.len()];
    for client in 0..partition.clients() {
        count(client, &mut all)?;
    }
    let global = distribution(&all);
    let (mut sums, mut holders) = ([0.0; 4], 0.0f64);
    let mut own = vec![0; kinds.len()];
    for client in 0..partition.clients() {
        own.fill(0);
        count(client, &mut own)?;
        let own = distribution(&own);
        if own.iter().sum::<f64>() == 0.0 {
            continue;
        }
        holders += 1.0;
        let now = [
            own.iter().zip(&global).map(|(p, q)| (p - q).abs()).sum::<f64>() / 2.0,
            hellinger(&own, &global),
            entropy(&own),
            own.iter().filter(|&&p| p > 0.0).count() as f64,
        ];
        sums.iter_mut().zip(now).for_each(|(sum, now)| *sum += now);
    }
    let [total_variation, hellinger, entropy_of_clients, labels_held] =
        sums.map(|sum| sum / holders.max(1.0));
    Ok(LabelMeasures {
        total_variation,
        hellinger,
        entropy: entropy_of_clients,
        global_entropy: entropy(&global),
        labels_held,
        labels: global.iter().filter(|&&p| p > 0.0).count(),
    })
}

fn distribution(counts: &[u64]) -> Vec<f64> {
    let total = counts.iter().sum::<u64>().max(1) as f64;
    counts.iter().map(|&count| count as f64 / total).collect()
}

fn hellinger(p: &[f64], q: &[f64]) -> f64 {
    let squares = p.iter().zip(q).map(|(p, q)| (p.sqrt() - q.sqrt()).powi(2));
    (squares.sum::<f64>() / 2.0).sqrt()
}

fn entropy(p: &[f64]) -> f64 {
    let terms = p.iter().filter(|&&p| p > 0.0).map(|p| p * p.log2());
    0.0 - terms.sum::<f64>()
}

impl fmt::Display for Measures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} clients hold {} rows, {} to {} each (Gini {:.2})",
            self.clients, self.rows, self.smallest, self.largest, self.gini
        )?;
        let Some(labels) = &self.labels else {
            return Ok(());
        };
        write!(
            f,
            "; {:.1} of {} labels each, entropy {:.2} of {:.2} bits; distance to all: total variation {:.3}, Hellinger {:.3}",
            labels.labels_held,
            labels.labels,
            labels.entropy,
            labels.global_entropy,
            labels.total_variation,
            labels.hellinger
        )
    }
}
