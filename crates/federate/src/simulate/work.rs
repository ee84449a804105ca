//! One client's part of a round.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use synod_core::Random;
use synod_nn::Data;

use super::personal::{Personal, gather, scatter};
use super::state::{State, States};
use super::wire::{Encoding, Wire};
use super::{Attack, Harm, Population, SimulationSettings};
use crate::client::{ClientId, Examples, Plan, Task, Worker};
use crate::error::{Error, Result};
use crate::strategy::{ClientUpdate, Server, Strategy};
use crate::sum::largest;

/// Purposes of random numbers.
const HOLDOUT: u64 = 1;
const TRAIN: u64 = 2;
const EPOCHS: u64 = 3;
const ENCODE: u64 = 4;
const PERSONAL: u64 = 5;

/// A client that works, and the models it is given.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) client: ClientId,
    /// One model per cluster.
    pub(super) models: Vec<Arc<Vec<f32>>>,
    /// Versions made since.
    pub(super) staleness: u64,
}

/// What came of a job.
pub(super) struct Done {
    pub(super) update: ClientUpdate,
    pub(super) state: Option<State>,
    pub(super) cluster: usize,
    pub(super) bytes: u64,
    pub(super) loss: f64,
}

/// What all clients' work has in common.
pub(super) struct Office<'a> {
    pub(super) population: &'a dyn Population,
    pub(super) settings: &'a SimulationSettings,
    pub(super) plan: &'a Plan,
    pub(super) strategy: &'a dyn Strategy,
    pub(super) servers: &'a [Server],
    pub(super) states: &'a States,
    pub(super) private: &'a [Range<usize>],
    pub(super) wire: &'a Wire,
    /// Parameters that are trained; what follows is not.
    pub(super) trained: usize,
    pub(super) round: u64,
    /// The attack, if this client is part of it, and the labels to train on then.
    pub(super) attack: Option<&'a Attack>,
    pub(super) flipped: Option<&'a [f32]>,
}

/// A client's rows to train on, and those to judge by.
pub(super) fn divide(
    population: &dyn Population,
    client: ClientId,
    settings: &SimulationSettings,
    seed: u64,
) -> (Vec<u32>, Vec<u32>) {
    let mut rows = vec![];
    population.rows(client, &mut rows);
    if settings.holdout == 0.0 {
        return (rows, vec![]);
    }
    Random::new(seed, &[HOLDOUT, client.0]).shuffle(&mut rows);
    let held = ((rows.len() as f64 * settings.holdout).round() as usize).min(rows.len().saturating_sub(1));
    let train = rows.split_off(held);
    (train, rows)
}

impl Office<'_> {
    fn seed(&self, purpose: u64, client: ClientId) -> u64 {
        Random::new(self.settings.seed, &[purpose, self.round, client.0]).bits()
    }

    fn keeps_state(&self) -> bool {
        let personal = !self.private.is_empty() || matches!(self.settings.personal, Personal::Ditto { .. });
        personal || self.strategy.work().variates || self.settings.compression.feedback
    }

    fn data(&self, client: ClientId) -> Data<'_> {
        let data = self.population.data(client);
        match (self.attack.map(|a| a.kind), self.flipped) {
            (Some(Harm::FlippedLabels), Some(labels)) => data.with_targets(labels),
            _ => data,
        }
    }

    fn epochs(&self, client: ClientId) -> usize {
        let (least, most) = self.settings.epochs.range();
        let drawn =
            Random::new(self.settings.seed, &[EPOCHS, self.round, client.0]).below((most - least) as u64 + 1);
        least + drawn as usize
    }

    /// Trains one client and packs what it sends. Nothing it does depends on other clients of the round.
    pub(super) fn serve(&self, worker: &mut Worker, job: &Job) -> Result<Done> {
        let (client, work) = (job.client, self.strategy.work());
        let (rows, _) = divide(self.population, client, self.settings, self.settings.seed);
        let examples = Examples {
            data: self.data(client),
            rows: &rows,
        };
        let mut state = match self.keeps_state() {
            true => self.states.load(client)?,
            false => State::default(),
        };
        let cluster = self.cluster(worker, job, &examples)?;
        let mut start = Cow::Borrowed(job.models[cluster].as_slice());
        if !state.private.is_empty() {
            scatter(start.to_mut(), self.private, &state.private);
        }
        let loss_before = match work.loss {
            true => worker.measure(&start, &examples)?.mean_loss(),
            false => 0.0,
        };
        let variate = self.variate(cluster);
        let slope = self.slope(variate, &mut state);
        let task = Task {
            most_steps: self.settings.steps.unwrap_or(usize::MAX),
            single_step: work.single_step,
            pull: Some((work.proximal, &start[..self.trained])),
            slope: slope.as_deref(),
            rate_factor: self.plan.rate_factor(self.round),
            ..Task::new(&start, examples, self.epochs(client), self.seed(TRAIN, client))
        };
        let trained = worker.train(&task)?;
        if !largest(&trained.weights).is_finite() {
            return Err(Error::Diverged { client });
        }
        if let Personal::Ditto { lambda } = self.settings.personal {
            self.second_model(worker, lambda, &start, examples, client, &mut state)?;
        }
        state.private = gather(&trained.weights, self.private);
        let mut delta = trained.weights;
        delta.iter_mut().zip(&*start).for_each(|(w, before)| *w -= before);
        scatter(&mut delta, self.private, &vec![0.0; state.private.len()]);
        let change = work
            .variates
            .then(|| self.move_variate(variate, &delta, trained.steps, &mut state));
        if let Some(attack) = self.attack.filter(|a| a.kind == Harm::Reversed) {
            delta.iter_mut().for_each(|d| *d *= -attack.scale);
        }
        let bytes = self.wire.send(
            &mut delta,
            &mut state.residual,
            &Encoding {
                compression: &self.settings.compression,
                seed: self.seed(ENCODE, client),
            },
        )?;
        let origin = work.origin.then(|| {
            let now = &self.servers[cluster].weights;
            job.models[cluster].iter().zip(now).map(|(a, b)| a - b).collect()
        });
        Ok(Done {
            update: ClientUpdate {
                client,
                samples: rows.len() as u64,
                steps: self.effective(trained.steps),
                loss: loss_before,
                staleness: job.staleness,
                delta,
                variate: change,
                origin,
            },
            state: self.keeps_state().then_some(state),
            cluster,
            bytes: bytes + if work.variates { self.wire.bytes() } else { 0 },
            loss: trained.loss,
        })
    }

    /// The shared model that suits the client best.
    fn cluster(&self, worker: &mut Worker, job: &Job, examples: &Examples<'_>) -> Result<usize> {
        if job.models.len() == 1 {
            return Ok(0);
        }
        let mut best = (f64::INFINITY, 0);
        for (cluster, weights) in job.models.iter().enumerate() {
            let loss = worker.measure(weights, examples)?.mean_loss();
            if loss < best.0 {
                best = (loss, cluster);
            }
        }
        Ok(best.1)
    }

    /// The server's control variate; none before its first round.
    fn variate(&self, cluster: usize) -> Option<&[f32]> {
        let asked = self.strategy.work().variates;
        self.servers[cluster]
            .memory
            .first()
            .filter(|_| asked)
            .map(Vec::as_slice)
    }

    /// The server's variate less the client's, where anything is trained.
    fn slope(&self, variate: Option<&[f32]>, state: &mut State) -> Option<Vec<f32>> {
        let variate = variate?;
        state.variate.resize(variate.len(), 0.0);
        let pairs = variate.iter().zip(&state.variate).take(self.trained);
        Some(pairs.map(|(c, own)| c - own).collect())
    }

    /// The client's next variate, its mean gradient; returns the change.
    fn move_variate(
        &self,
        variate: Option<&[f32]>,
        delta: &[f32],
        steps: u64,
        state: &mut State,
    ) -> Vec<f32> {
        state.variate.resize(delta.len(), 0.0);
        let factor =
            1.0 / (steps.max(1) as f32 * self.plan.optimizer.rate * self.plan.rate_factor(self.round));
        let change = |i: usize| match i < self.trained {
            true => -variate.map_or(0.0, |c| c[i]) - factor * delta[i],
            false => 0.0,
        };
        let changes: Vec<f32> = (0..delta.len()).map(change).collect();
        state.variate.iter_mut().zip(&changes).for_each(|(v, c)| *v += c);
        changes
    }

    fn second_model(
        &self,
        worker: &mut Worker,
        lambda: f32,
        shared: &[f32],
        examples: Examples<'_>,
        client: ClientId,
        state: &mut State,
    ) -> Result<()> {
        if state.personal.is_empty() {
            state.personal = shared.to_vec();
        }
        let task = Task {
            most_steps: self.settings.steps.unwrap_or(usize::MAX),
            pull: Some((lambda, &shared[..self.trained])),
            rate_factor: self.plan.rate_factor(self.round),
            ..Task::new(
                &state.personal,
                examples,
                self.epochs(client),
                self.seed(PERSONAL, client),
            )
        };
        state.personal = worker.train(&task)?.weights;
        Ok(())
    }

    /// The steps behind an update as FedNova counts them: with momentum each also moves later ones.
    fn effective(&self, steps: u64) -> f64 {
        let steps = steps as f64;
        match self.plan.momentum() {
            0.0 => steps,
            m => (steps - m * (1.0 - m.powf(steps)) / (1.0 - m)) / (1.0 - m),
        }
    }
}
