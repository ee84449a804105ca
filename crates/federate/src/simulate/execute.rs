//! The work of a round's clients on all threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use synod_core::parallel;

use super::Simulation;
use super::work::{Done, Job};
use crate::client::{ClientId, Worker};
use crate::error::{Error, Result};
use crate::strategy::Gathering;

/// What a round's work added up to.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) updates: u64,
    pub(super) diverged: u64,
    pub(super) bytes: u64,
    pub(super) loss: f64,
    pub(super) staleness: f64,
    pub(super) losses: Vec<(ClientId, f64)>,
    /// Clients whose memory changed.
    pub(super) stored: Vec<ClientId>,
}

impl Ended {
    fn merge(&mut self, other: Ended) {
        self.updates += other.updates;
        self.diverged += other.diverged;
        self.bytes += other.bytes;
        self.staleness += other.staleness;
        self.losses.extend(other.losses);
        self.stored.extend(other.stored);
    }

    /// Sums in the order of clients, which threads do not change.
    fn settle(&mut self) {
        self.losses.sort_by_key(|(client, _)| *client);
        self.loss = self.losses.iter().map(|(_, loss)| loss).sum();
    }
}

impl Simulation<'_> {
    /// Does all jobs on all threads and leaves the sum in the first worker's gatherings. Which thread does which job does
    /// not show in the result.
    pub(super) fn execute(&mut self, jobs: &[Job]) -> Result<Ended> {
        let mut workers = std::mem::take(&mut self.workers);
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.resize_with(workers.len(), || {
            self.servers
                .iter()
                .map(|s| Gathering::begin(&*self.strategy, s))
                .collect()
        });
        let next = AtomicUsize::new(0);
        let this = &*self;
        let run = |(worker, gathered): (&mut Worker, &mut Vec<Gathering>)| -> Result<Ended> {
            gathered.iter_mut().for_each(Gathering::clear);
            let mut ended = Ended::default();
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                match this.office(job.client).serve(worker, job) {
                    Ok(done) => worker.recycle(this.take(done, gathered, &mut ended)?),
                    Err(Error::Diverged { .. } | Error::Malformed(_)) => ended.diverged += 1,
                    Err(e) => return Err(e),
                }
            }
            Ok(ended)
        };
        let pairs = workers.iter_mut().zip(&mut gathered);
        let results: Vec<Result<Ended>> = match jobs.len().min(pairs.len()) {
            1 => pairs.map(run).collect(),
            _ => {
                let failed = || Err(Error::Round("a worker thread failed".into()));
                let done = parallel::each(pairs, |_, pair| run(pair)).into_iter();
                done.map(|done| done.unwrap_or_else(|_| failed())).collect()
            }
        };
        self.workers = workers;
        let mut ended = Ended::default();
        for result in results {
            ended.merge(result?);
        }
        if let Some((first, others)) = gathered.split_first_mut() {
            for other in others {
                for (mine, theirs) in first.iter_mut().zip(other) {
                    mine.merge(theirs)?;
                }
            }
        }
        self.gathered = gathered;
        ended.settle();
        Ok(ended)
    }

    /// Takes in what a client sent, and gives its memory back.
    fn take(&self, done: Done, gathered: &mut [Gathering], ended: &mut Ended) -> Result<Vec<f32>> {
        let client = done.update.client;
        match gathered[done.cluster].add(&*self.strategy, &self.servers[done.cluster], &done.update) {
            // What a client sent cannot be used, and the round goes on without it.
            Err(Error::Malformed(_)) => {
                ended.diverged += 1;
                return Ok(done.update.delta);
            }
            added => added?,
        }
        if let Some(state) = done.state {
            self.states.store(client, self.round + 1, state)?;
            ended.stored.push(client);
        }
        ended.losses.push((client, done.loss));
        ended.bytes += done.bytes;
        ended.updates += 1;
        ended.staleness += done.update.staleness as f64;
        Ok(done.update.delta)
    }
}
