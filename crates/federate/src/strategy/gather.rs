//! What a round has gathered so far.

use super::{Need, Server, Strategy, Update, setting};
use crate::error::{Error, Result};
use crate::sum::ExactSum;

/// Updates of a round: their sums, or all of them. The result is the same for any order of arrival, and when several
/// gather at once and are merged.
#[derive(Clone, Debug)]
pub struct Gathering {
    need: Need,
    delta: Option<ExactSum>,
    variate: Option<ExactSum>,
    scalars: ExactSum,
    every: Vec<Update>,
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

    /// Adds an update; one that does not fit is refused and changes nothing.
    pub fn add(&mut self, strategy: &dyn Strategy, server: &Server, update: Update) -> Result<()> {
        self.check(&update)?;
        if self.need == Need::Every {
            self.every.push(update);
            return Ok(());
        }
        let share = strategy.share(server, &update)?;
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
        self.scalars.add(1.0, &share.scalars)
    }

    fn check(&self, update: &Update) -> Result<()> {
        let vectors = [
            Some(&update.delta),
            update.variate.as_ref(),
            update.origin.as_ref(),
        ];
        for values in vectors.into_iter().flatten() {
            if values.len() != self.len || !values.iter().all(|x| x.is_finite()) {
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
    pub fn merge(&mut self, other: Gathering) -> Result<()> {
        for (mine, theirs) in [
            (&mut self.delta, &other.delta),
            (&mut self.variate, &other.variate),
        ] {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.merge(theirs)?;
            }
        }
        self.scalars.merge(&other.scalars)?;
        self.every.extend(other.every);
        Ok(())
    }

    /// The sums of deltas, of variates' changes, and of the two numbers.
    pub(super) fn sums(self) -> Result<Sums> {
        let scalars = self.scalars.total();
        setting(self.scalars.count() > 0, || {
            "there are no updates to average".into()
        })?;
        Ok(Sums {
            delta: self.delta.map(|s| s.total()).unwrap_or_default(),
            variate: self.variate.map(|s| s.total()).unwrap_or_default(),
            weight: scalars[0],
            number: scalars[1],
            count: self.scalars.count(),
        })
    }

    /// Every update, in the order of clients.
    pub(super) fn every(mut self) -> Result<Vec<Update>> {
        setting(!self.every.is_empty(), || {
            "there are no updates to combine".into()
        })?;
        self.every.sort_by_key(|u| u.client);
        Ok(self.every)
    }
}

/// Sums over a round's updates.
pub(super) struct Sums {
    pub(super) delta: Vec<f64>,
    pub(super) variate: Vec<f64>,
    pub(super) weight: f64,
    pub(super) number: f64,
    pub(super) count: u64,
}

impl Sums {
    /// The mean delta, weighted; a round in which nothing has weight changes nothing.
    pub(super) fn mean(&self) -> impl Iterator<Item = f64> + '_ {
        let factor = if self.weight > 0.0 { 1.0 / self.weight } else { 0.0 };
        self.delta.iter().map(move |d| d * factor)
    }
}
