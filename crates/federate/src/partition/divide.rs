//! Divisions that give every row to just one client.

use super::rows::by;
use super::shares::{dirichlet, power_law, raise_to, split};
use super::{Divided, RowsToDivide, Skew};
use crate::{Error, Random, Result};

const PURPOSE: u64 = 0x6469_7669_6465;

pub(super) fn iid(rows: &RowsToDivide, clients: usize, seed: u64) -> Result<Divided> {
    enough(rows.len(), clients)?;
    let shuffled = shuffled(rows.len(), seed);
    Ok(Divided::new((0..clients).map(|client| {
        shuffled[stretch(client, clients, rows.len())].to_vec()
    })))
}

pub(super) fn shards(rows: &RowsToDivide, each: usize, clients: usize, seed: u64) -> Result<Divided> {
    if each == 0 {
        return Err(Error::Setting("each client needs at least 1 shard, not 0".into()));
    }
    let shards = clients.saturating_mul(each);
    if shards > rows.len() {
        return Err(Error::Data(format!(
            "{} rows cannot be cut into {shards} shards, {each} for each of {clients} clients: use fewer",
            rows.len()
        )));
    }
    let sorted = rows.by_label()?.concat();
    let mut order: Vec<usize> = (0..shards).collect();
    Random::new(seed, &[PURPOSE]).shuffle(&mut order);
    Ok(Divided::new(order.chunks(each).map(|own| {
        own.iter()
            .flat_map(|&shard| &sorted[stretch(shard, shards, rows.len())])
            .copied()
            .collect()
    })))
}

pub(super) fn labels(rows: &RowsToDivide, each: usize, clients: usize, seed: u64) -> Result<Divided> {
    let by_label = rows.by_label()?;
    if each == 0 || each > by_label.len() {
        return Err(Error::Setting(format!(
            "a client cannot hold {each} labels: the rows have {}",
            by_label.len()
        )));
    }
    if clients.saturating_mul(each) < by_label.len() {
        return Err(Error::Setting(format!(
            "{clients} clients with {each} labels each leave some of {} labels to nobody: use more of either",
            by_label.len()
        )));
    }
    let random = &mut Random::new(seed, &[PURPOSE]);
    let holders = holders(by_label.len(), each, clients, random);
    let mut held = vec![Vec::new(); clients];
    for (mut rows, holders) in by_label.into_iter().zip(holders) {
        if rows.len() < holders.len() {
            return Err(Error::Data(format!(
                "a label with {} rows cannot be held by {} clients: use fewer clients or fewer labels for each",
                rows.len(),
                holders.len()
            )));
        }
        random.shuffle(&mut rows);
        for (i, &client) in holders.iter().enumerate() {
            held[client].extend(&rows[stretch(i, holders.len(), rows.len())]);
        }
    }
    Ok(Divided::new(held))
}

/// The clients that hold each label: just `each` labels a client, and as many clients a label as any other, give or take one.
fn holders(labels: usize, each: usize, clients: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let mut holders = vec![Vec::new(); labels];
    let mut order: Vec<usize> = (0..labels).collect();
    for client in 0..clients {
        random.shuffle(&mut order);
        order.sort_by_key(|&label| holders[label].len());
        for &label in &order[..each] {
            holders[label].push(client);
        }
    }
    holders
}

pub(super) fn dirichlet_over_labels(
    rows: &RowsToDivide,
    skew: Skew,
    clients: usize,
    seed: u64,
) -> Result<Divided> {
    if !(skew.by > 0.0 && skew.by.is_finite()) {
        return Err(Error::Setting(format!(
            "the concentration of a Dirichlet distribution is above 0, not {}",
            skew.by
        )));
    }
    enough_for(rows.len(), clients, skew.minimum)?;
    let random = &mut Random::new(seed, &[PURPOSE]);
    let mut held = vec![Vec::new(); clients];
    for mut rows in rows.by_label()? {
        random.shuffle(&mut rows);
        let mut left = rows.as_slice();
        for (held, count) in held
            .iter_mut()
            .zip(split(rows.len(), &dirichlet(skew.by, clients, random)))
        {
            let (own, others) = left.split_at(count);
            held.extend(own);
            left = others;
        }
    }
    raise_to(skew.minimum, &mut held, random);
    Ok(Divided::new(held))
}

pub(super) fn by_power_law(rows: &RowsToDivide, skew: Skew, clients: usize, seed: u64) -> Result<Divided> {
    if !(skew.by >= 0.0 && skew.by.is_finite()) {
        return Err(Error::Setting(format!(
            "the exponent of a power law is 0 or above, not {}",
            skew.by
        )));
    }
    enough_for(rows.len(), clients, skew.minimum)?;
    let spare = rows.len() - clients * skew.minimum;
    let mut counts = split(spare, &power_law(skew.by, clients));
    Random::new(seed, &[PURPOSE, 1]).shuffle(&mut counts);
    let shuffled = shuffled(rows.len(), seed);
    let mut left = shuffled.as_slice();
    Ok(Divided::new(counts.into_iter().map(|count| {
        let (own, others) = left.split_at(count + skew.minimum);
        left = others;
        own.to_vec()
    })))
}

pub(super) fn natural(rows: &RowsToDivide, clients: usize) -> Result<Divided> {
    let held = by(rows.groups()?);
    if held.len() != clients {
        return Err(Error::Setting(format!(
            "rows come from {} groups, which are the clients: there cannot be {clients}",
            held.len()
        )));
    }
    Ok(Divided::new(held))
}

fn shuffled(count: usize, seed: u64) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..count as u32).collect();
    Random::new(seed, &[PURPOSE]).shuffle(&mut rows);
    rows
}

/// The `part`-th of `parts` equal stretches.
fn stretch(part: usize, parts: usize, len: usize) -> std::ops::Range<usize> {
    let start = |part: usize| (part as u128 * len as u128 / parts as u128) as usize;
    start(part)..start(part + 1)
}

fn enough(rows: usize, clients: usize) -> Result<()> {
    enough_for(rows, clients, 1)
}

fn enough_for(rows: usize, clients: usize, minimum: usize) -> Result<()> {
    match clients.checked_mul(minimum) {
        Some(needed) if needed <= rows => Ok(()),
        _ => Err(Error::Data(format!(
            "{rows} rows do not give {clients} clients {minimum} each: use fewer clients, or the drawn partition"
        ))),
    }
}
