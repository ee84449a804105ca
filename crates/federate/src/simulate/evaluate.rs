//! What the shared model is worth, and what clients' own are.

use synod_core::Random;
use synod_core::parallel;
use synod_nn::{Data, Measured};

use super::Simulation;
use super::personal::{Personal, scatter};
use super::work::divide;
use crate::client::{ClientId, Examples, Task, Worker};
use crate::error::{Error, Result};

/// Rows that one thread judges before it takes more.
const CHUNK: usize = 500;
const FINE_TUNE: u64 = 0xf1;

/// What a client's rows, held back from training, say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientMeasure {
    /// Whose.
    pub client: ClientId,
    /// Of the shared model, or of the one of its cluster; none where clients keep a part of it to themselves.
    pub shared: Option<Measured>,
    /// Of the client's own model, where there is one.
    pub own: Option<Measured>,
}

impl ClientMeasure {
    /// Of what the client uses: its own model, or else the shared one.
    pub fn used(&self) -> Measured {
        self.own.or(self.shared).unwrap_or_default()
    }
}

/// Judges on all threads; parts are added up in the order of rows.
pub(super) fn shared(
    workers: &mut [Worker],
    weights: &[f32],
    data: Data<'_>,
    rows: &[u32],
) -> Result<Measured> {
    let parts: Vec<&[u32]> = rows.chunks(CHUNK).collect();
    let count = workers.len();
    let judge = |(first, worker): (usize, &mut Worker)| -> Result<Vec<(usize, Measured)>> {
        let mine = parts.iter().enumerate().skip(first).step_by(count);
        let mut judged = vec![];
        for (i, rows) in mine {
            judged.push((i, worker.measure(weights, &Examples { data, rows })?));
        }
        Ok(judged)
    };
    let mut judged = on_all(workers, judge)?;
    judged.sort_by_key(|(i, _)| *i);
    Ok(judged
        .into_iter()
        .fold(Measured::default(), |sum, (_, m)| sum + m))
}

fn on_all<T: Send>(
    workers: &mut [Worker],
    work: impl Fn((usize, &mut Worker)) -> Result<Vec<T>> + Sync,
) -> Result<Vec<T>> {
    let mut all = vec![];
    for done in parallel::each(workers, |number, worker| work((number, worker))) {
        let failed = || Err(Error::Round("a worker thread failed".into()));
        all.extend(done.unwrap_or_else(|_| failed())?);
    }
    Ok(all)
}

impl Simulation<'_> {
    /// Judges the shared and the clients' own models on rows that each client held back; needs a `holdout`.
    pub fn evaluate_clients(&mut self, clients: &[ClientId]) -> Result<Vec<ClientMeasure>> {
        let mut workers = std::mem::take(&mut self.workers);
        let (this, count) = (&*self, workers.len());
        let judged = on_all(&mut workers, |(first, worker)| {
            let mine = clients.iter().skip(first).step_by(count);
            mine.map(|client| this.evaluate_client(worker, *client)).collect()
        });
        self.workers = workers;
        let mut judged = judged?;
        judged.sort_by_key(|m: &ClientMeasure| m.client);
        Ok(judged)
    }

    fn evaluate_client(&self, worker: &mut Worker, client: ClientId) -> Result<ClientMeasure> {
        let (train, held) = divide(self.population, client, &self.settings, self.settings.seed);
        let data = self.population.data(client);
        let examples = Examples { data, rows: &held };
        let mut weights = self.suited(worker, &Examples { data, rows: &train })?;
        let shared = match self.private.is_empty() {
            true => Some(worker.measure(&weights, &examples)?),
            false => None,
        };
        let state = self.states.load(client)?;
        let own = match &self.settings.personal {
            Personal::Fedper { .. } | Personal::Fedbn => {
                scatter(&mut weights, &self.private, &state.private);
                Some(weights)
            }
            Personal::Ditto { .. } if !state.personal.is_empty() => Some(state.personal),
            Personal::FineTune { epochs } => {
                let seed = Random::new(self.settings.seed, &[FINE_TUNE, client.0]).bits();
                let examples = Examples { data, rows: &train };
                Some(
                    worker
                        .train(&Task::new(&weights, examples, *epochs, seed))?
                        .weights,
                )
            }
            _ => None,
        };
        let own = own.map(|w| worker.measure(&w, &examples)).transpose()?;
        Ok(ClientMeasure { client, shared, own })
    }

    /// The shared model that suits a client's training rows best.
    fn suited(&self, worker: &mut Worker, examples: &Examples<'_>) -> Result<Vec<f32>> {
        let mut best = (f64::INFINITY, 0);
        for (cluster, server) in self.servers.iter().enumerate().filter(|_| self.servers.len() > 1) {
            let loss = worker.measure(&server.weights, examples)?.mean_loss();
            if loss < best.0 {
                best = (loss, cluster);
            }
        }
        Ok(self.servers[best.1].weights.clone())
    }
}
