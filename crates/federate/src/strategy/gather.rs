//! What a round has gathered so far.

use super::{ClientUpdate, Need, Server, Strategy, setting};
use crate::error::{Error, Result};
use crate::sum::{ExactSum, largest};

/// Updates of a round: their sums, or all of them. The result is the same for any order of arrival, and when several
/// gather at once and are merged.
#[derive(Clone, Debug)]
pub struct Gathering {
    need: Need,
    delta: Option<ExactSum>,
    variate: Option<ExactSum>,
    scalars: ExactSum,
    every: Vec<ClientUpdate>,
    len: usize,
}

impl Gathering {
    /// Nothing yet.
    pub fn begin(strategy: &dyn Strategy, server: &Server) -> Gathering {
        let len = server.weights.len();
        let sums = strategy.need() == Need::Sums;
        Gathering {
            need: strategy.need(),
            delta: sums.then(|| ExactSum::new(len)),
            variate: strategy.work().variates.then(|| ExactSum::new(len)),
            scalars: ExactSum::new(2),
            every: vec![],
            len,
        }
    }

    /// Updates so far.
    pub fn count(&self) -> u64 {
        match self.need {
            Need::Sums => self.scalars.count(),
            Need::Every => self.every.len() as u64,
        }
    }

    /// Forgets all updates, for another round of the same strategy.
    pub fn clear(&mut self) {
        self.delta
            .iter_mut()
            .chain(&mut self.variate)
            .for_each(ExactSum::clear);
        self.scalars.clear();
        self.every.clear();
    }

    /// Adds an update; one that does not fit is refused and changes nothing.
    pub fn add(&mut self, strategy: &dyn Strategy, server: &Server, update: &ClientUpdate) -> Result<()> {
        self.check(update)?;
        if self.need == Need::Every {
            self.every.push(update.clone());
            return Ok(());
        }
        let share = strategy.share(server, update)?;
        let values = [
            share.delta,
            share.origin,
            share.variate,
            share.scalars[0],
            share.scalars[1],
        ];
        if !values.iter().all(|v| v.is_finite()) {
            let client = update.client;
            return Err(Error::Malformed(format!(
                "the update of {client} has no finite weight"
            )));
        }
        let Some(sum) = &mut self.delta else { return Ok(()) };
        match &update.origin {
            Some(origin) if share.origin != 0.0 => {
                let moved = update.delta.iter().zip(origin);
                let whole: Vec<f32> = moved
                    .map(|(d, o)| d + (share.origin / share.delta) as f32 * o)
                    .collect();
                sum.add(share.delta, &whole)?;
            }
            _ => sum.add(share.delta, &update.delta)?,
        }
        if let (Some(sum), Some(variate)) = (&mut self.variate, &update.variate) {
            sum.add(share.variate, variate)?;
        }
        self.scalars.add_numbers(&share.scalars)
    }

    fn check(&self, update: &ClientUpdate) -> Result<()> {
        let vectors = [
            Some(&update.delta),
            update.variate.as_ref(),
            update.origin.as_ref(),
        ];
        for values in vectors.into_iter().flatten() {
            if values.len() != self.len || !largest(values).is_finite() {
                return Err(Error::Malformed(format!(
                    "the update of {} does not hold {} finite numbers",
                    update.client, self.len
                )));
            }
        }
        if self.variate.is_some() && update.variate.is_none() {
            let client = update.client;
            return Err(Error::Malformed(format!(
                "the update of {client} has no control variate"
            )));
        }
        Ok(())
    }

    /// Adds what another has gathered.
    pub fn merge(&mut self, other: &mut Gathering) -> Result<()> {
        for (mine, theirs) in [
            (&mut self.delta, &other.delta),
            (&mut self.variate, &other.variate),
        ] {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.merge(theirs)?;
            }
        }
        self.scalars.merge(&other.scalars)?;
        self.every.append(&mut other.every);
        Ok(())
    }

    /// The sums of deltas, of variates' changes, and of the two numbers.
    pub(super) fn sums(&self) -> Result<Sums<'_>> {
        let scalars: Vec<f64> = self.scalars.totals().collect();
        match &self.delta {
            Some(delta) if self.scalars.count() > 0 => Ok(Sums {
                delta,
                variate: self.variate.as_ref(),
                weight: scalars[0],
                number: scalars[1],
                count: self.scalars.count(),
            }),
            _ => Err(Error::Setting("there are no updates to average".into())),
        }
    }

    /// Every update, in the order of clients.
    pub(super) fn every(&self) -> Result<Vec<&ClientUpdate>> {
        setting(!self.every.is_empty(), || {
            "there are no updates to combine".into()
        })?;
        let mut every: Vec<&ClientUpdate> = self.every.iter().collect();
        every.sort_by_key(|u| u.client);
        Ok(every)
    }
}

/// Sums over a round's updates.
pub(super) struct Sums<'a> {
    delta: &'a ExactSum,
    variate: Option<&'a ExactSum>,
    pub(super) weight: f64,
    pub(super) number: f64,
    pub(super) count: u64,
}

impl<'a> Sums<'a> {
    /// The mean delta, weighted; a round in which nothing has weight changes nothing.
    pub(super) fn mean(&self) -> impl Iterator<Item = f64> + use<'a> {
        let factor = if self.weight > 0.0 { 1.0 / self.weight } else { 0.0 };
        self.delta.totals().map(move |d| d * factor)
    }

    /// The sum of the variates' changes, weighted.
    pub(super) fn variates(&self) -> impl Iterator<Item = f64> + use<'a> {
        self.variate.into_iter().flat_map(ExactSum::totals)
    }
}
