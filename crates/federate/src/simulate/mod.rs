//! Federations of many clients on one machine.
//!
//! The same round engine and strategies as in a real deployment; clients' speed, links and failures come from seeded traces
//! on a clock of their own. Only those whose updates a round takes are trained, on as many threads as there are, and the
//! result does not depend on how many.

mod attack;
mod attend;
mod checkpoint;
mod evaluate;
mod execute;
mod personal;
mod population;
mod settings;
mod state;
mod wire;
mod work;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use synod_nn::{Measured, Model, Schedule};

pub use self::attack::{Attack, Harm};
pub use self::evaluate::ClientMeasure;
pub use self::personal::Personal;
pub use self::population::{Population, Tables};
pub use self::settings::{Epochs, SimulationSettings};

use self::attack::Villains;
use self::attend::{Attendance, Effort, Present};
use self::execute::Ended;
use self::state::States;
use self::wire::Wire;
use self::work::{Job, Office};
use crate::client::{ClientId, Examples, Plan, Task, Worker};
use crate::error::{Error, Result};
use crate::round::Tally;
use crate::strategy::{Gathering, Need, Server, Strategy};
use synod_core::Random;

/// Robust strategies hold every update of a round; more memory than this is taken for a mistake.
const MOST_HELD: u64 = 8 << 30;
const TRUSTED: u64 = 0x7257;

/// Bytes between server and clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Models, to clients.
    pub down: u64,
    /// Updates, to the server, also those that came too late or for nothing.
    pub up: u64,
    /// What the updates that were of use would have been in full.
    pub up_in_full: u64,
}

/// What a round came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundReport {
    /// Its number, from 1.
    pub round: u64,
    /// Updates in the model.
    pub updates: u64,
    /// Clients whose training left the finite numbers, or whose update was too large to be one.
    pub diverged: u64,
    /// The mean loss of the clients' steps.
    pub loss: f64,
    /// The mean age of the models they began with, in versions.
    pub staleness: f64,
    /// Simulated seconds since the beginning.
    pub clock: f64,
    /// What it moved.
    pub traffic: Traffic,
    /// What the round engine counted.
    pub tally: Tally,
}

/// A federation that runs on this machine.
pub struct Simulation<'a> {
    population: &'a dyn Population,
    model: Model,
    plan: Plan,
    settings: SimulationSettings,
    strategy: Box<dyn Strategy>,
    servers: Vec<Server>,
    /// Models of the past that clients still work from, by version.
    versions: BTreeMap<u64, Arc<Vec<f32>>>,
    workers: Vec<Worker>,
    /// What each worker gathers, one for each shared model; kept because making them anew costs more than using them.
    gathered: Vec<Vec<Gathering>>,
    states: States,
    private: Vec<Range<usize>>,
    wire: Wire,
    villains: Villains,
    flipped: Option<Vec<f32>>,
    attendance: Attendance,
    round: u64,
    traffic: Traffic,
    diverged: u64,
}

impl<'a> Simulation<'a> {
    /// A federation before its first round. `initial` makes the first weights from a seed, one for each shared model;
    /// clients' memories go to `folder`, or stay in memory without one.
    pub fn new(
        population: &'a dyn Population,
        model: &Model,
        plan: Plan,
        settings: SimulationSettings,
        threads: usize,
        folder: Option<PathBuf>,
    ) -> Result<Simulation<'a>> {
        settings.check()?;
        let strategy = settings.strategy.build(f64::from(plan.optimizer.rate))?;
        check_steps(&*strategy, &plan)?;
        let weights = [model.parameters(), model.buffers()].concat();
        let clusters = settings.personal.clusters();
        if clusters > 1 && strategy.asynchronous().is_some() {
            return Err(Error::Setting(
                "ifca goes in rounds; choose another strategy".into(),
            ));
        }
        let server = Server::new(weights, population.clients());
        let mut servers = vec![server; clusters];
        for (cluster, server) in servers.iter_mut().enumerate().skip(1) {
            perturb(
                &mut server.weights[..model.parameters().len()],
                settings.seed,
                cluster as u64,
            );
        }
        let attendance = Attendance::new(&settings, &*strategy, population)?;
        let held = attendance.goal() as u64 * 4 * model.parameters().len() as u64;
        if strategy.need() == Need::Every && held > MOST_HELD {
            return Err(Error::Setting(format!(
                "{} holds every update of a round, here {} GiB; lower `fraction`",
                strategy.name(),
                held >> 30
            )));
        }
        let flip = settings.attack.filter(|a| a.kind == Harm::FlippedLabels);
        let trained = model.layout().entries().iter().map(|e| e.range.clone());
        let kept = model.buffer_layout().entries().iter();
        let offset = model.layout().len();
        let kept = kept.map(|e| e.range.start + offset..e.range.end + offset);
        let places: Vec<Range<usize>> = trained.chain(kept).collect();
        let private = settings.personal.private(model)?;
        Ok(Simulation {
            wire: Wire::new(&places, &private)?,
            private,
            villains: Villains::new(settings.attack.as_ref(), population.clients(), settings.seed)?,
            flipped: flip.and_then(|_| flipped(population)),
            workers: (0..threads.max(1)).map(|_| Worker::new(model, plan)).collect(),
            states: States::new(folder),
            model: model.clone(),
            gathered: vec![],
            versions: BTreeMap::new(),
            round: 0,
            traffic: Traffic::default(),
            diverged: 0,
            population,
            plan,
            settings,
            strategy,
            servers,
            attendance,
        })
    }

    /// Rounds done.
    pub fn rounds(&self) -> u64 {
        self.round
    }

    /// Whether there is one model that all clients share whole; else only clients' own rows can judge what they have.
    pub fn has_one_model(&self) -> bool {
        self.servers.len() == 1 && self.private.is_empty()
    }

    /// The shared weights, or the first of several.
    pub fn weights(&self) -> &[f32] {
        &self.servers[0].weights
    }

    /// The shared model; several with IFCA.
    pub fn models(&self) -> impl Iterator<Item = Model> {
        self.servers.iter().map(|server| {
            let mut model = self.model.clone();
            let (parameters, buffers) = server.weights.split_at(model.parameters().len());
            model.parameters_mut().copy_from_slice(parameters);
            model.buffers_mut().copy_from_slice(buffers);
            model
        })
    }

    /// Bytes moved so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// What the round engine has counted so far.
    pub fn tally(&self) -> &Tally {
        self.attendance.tally()
    }

    /// Holds one round: who comes, their work, the next model.
    pub fn round(&mut self) -> Result<RoundReport> {
        let before = *self.attendance.tally();
        let full = self.wire.bytes();
        let variates = u64::from(self.strategy.work().variates);
        let bytes_down = full * (self.servers.len() as u64 + variates);
        let effort = Effort {
            population: self.population,
            settings: &self.settings,
            bytes_down,
            most_rows: self.most_rows(),
            bytes_up: self.upload_bytes(),
        };
        let present = self.attendance.next(&effort)?;
        self.reference()?;
        let jobs = self.jobs(&present)?;
        let ended = self.execute(&jobs)?;
        self.step(&ended)?;
        self.round += 1;
        self.states.commit(ended.stored.iter().copied(), self.round);
        self.diverged += ended.diverged;
        let happened = self.attendance.tally().since(&before);
        self.traffic.down += happened.selected * bytes_down;
        self.traffic.up += ended.bytes + happened.in_vain() * self.upload_bytes();
        self.traffic.up_in_full += ended.updates * full;
        Ok(RoundReport {
            round: self.round,
            updates: ended.updates,
            diverged: ended.diverged,
            loss: ended.loss / ended.updates.max(1) as f64,
            staleness: ended.staleness / ended.updates.max(1) as f64,
            clock: self.attendance.clock(),
            traffic: self.traffic,
            tally: *self.attendance.tally(),
        })
    }

    fn upload_bytes(&self) -> u64 {
        let variates = match self.strategy.work().variates {
            true => self.wire.bytes(),
            false => 0,
        };
        self.wire.update_bytes(&self.settings.compression) + variates
    }

    /// The most rows that a client passes over in a round, as far as steps are limited.
    fn most_rows(&self) -> Option<u64> {
        let rows = self.settings.steps?.checked_mul(self.plan.batch?)?;
        Some(rows as u64)
    }

    /// The update of the server's own training, for strategies that ask for it.
    fn reference(&mut self) -> Result<()> {
        if !self.strategy.work().reference {
            return Ok(());
        }
        let data = self.population.data(ClientId(0));
        let mut rows: Vec<u32> = (0..data.rows() as u32).collect();
        Random::new(self.settings.seed, &[TRUSTED]).shuffle(&mut rows);
        rows.truncate(self.settings.trusted);
        if rows.is_empty() {
            let name = self.strategy.name();
            return Err(Error::Setting(format!(
                "{name} needs rows that the server trusts; set `trusted`, such as 100"
            )));
        }
        let seed = Random::new(self.settings.seed, &[TRUSTED, self.round]).bits();
        for server in &mut self.servers {
            let examples = Examples { data, rows: &rows };
            let task = Task {
                rate_factor: self.plan.rate_factor(self.round),
                ..Task::new(&server.weights, examples, self.settings.epochs.range().1, seed)
            };
            let trained = self.workers[0].train(&task)?.weights;
            server.reference = Some(trained.iter().zip(&server.weights).map(|(a, b)| a - b).collect());
        }
        Ok(())
    }

    fn jobs(&mut self, present: &[Present]) -> Result<Vec<Job>> {
        let now = self.servers[0].version;
        if self.strategy.asynchronous().is_none() {
            let models: Vec<Arc<Vec<f32>>> =
                self.servers.iter().map(|s| Arc::new(s.weights.clone())).collect();
            let job = |p: &Present| Job {
                client: p.client,
                models: models.clone(),
                staleness: 0,
            };
            return Ok(present.iter().map(job).collect());
        }
        let current = self.servers[0].weights.clone();
        self.versions.entry(now).or_insert_with(|| Arc::new(current));
        let job = |p: &Present| {
            let model = self.versions.get(&p.version).cloned();
            let model =
                model.ok_or_else(|| Error::Round(format!("version {} is no longer known", p.version)))?;
            Ok(Job {
                client: p.client,
                models: vec![model],
                staleness: now - p.version.min(now),
            })
        };
        let jobs = present.iter().map(job).collect();
        let oldest = self.attendance.oldest_version();
        self.versions
            .retain(|version, _| oldest.is_some_and(|o| *version >= o) || *version >= now);
        jobs
    }

    fn office(&self, client: ClientId) -> Office<'_> {
        Office {
            population: self.population,
            settings: &self.settings,
            plan: &self.plan,
            strategy: &*self.strategy,
            servers: &self.servers,
            states: &self.states,
            private: &self.private,
            wire: &self.wire,
            trained: self.model.parameters().len(),
            round: self.round,
            attack: self
                .settings
                .attack
                .as_ref()
                .filter(|_| self.villains.contains(client)),
            flipped: self.flipped.as_deref(),
        }
    }

    fn step(&mut self, ended: &Ended) -> Result<()> {
        if ended.updates == 0 {
            return Err(Error::Round(format!(
                "nothing that the {} clients of round {} sent is finite; lower the learning rate, now {}",
                ended.diverged,
                self.round + 1,
                self.plan.optimizer.rate
            )));
        }
        for (server, gathered) in self.servers.iter_mut().zip(self.gathered.iter().flatten()) {
            if gathered.count() > 0 {
                self.strategy.step(server, gathered)?;
            }
        }
        self.attendance.note_losses(&self.settings, &ended.losses);
        Ok(())
    }
}

/// Some strategies divide updates by the learning rate, and take what comes for gradients.
fn check_steps(strategy: &dyn Strategy, plan: &Plan) -> Result<()> {
    let changes = plan.optimizer.schedule != Schedule::Constant;
    let problem = match strategy.work() {
        work if !work.plain_steps => return Ok(()),
        _ if !plan.steps_are_plain() => "optimizer = \"sgd\"",
        work if !work.variates && changes => "a constant rate, without `schedule`",
        _ => return Ok(()),
    };
    Err(Error::Setting(format!(
        "{} takes clients' updates for gradients; it needs {problem}",
        strategy.name()
    )))
}

/// Labels turned around: the last class for the first.
fn flipped(population: &dyn Population) -> Option<Vec<f32>> {
    let (labels, _) = population.data(ClientId(0)).targets()?;
    let last = labels.iter().copied().fold(0.0, f32::max);
    Some(labels.iter().map(|l| last - l).collect())
}

/// Shared models must begin apart from each other, or all clients choose the same one.
fn perturb(weights: &mut [f32], seed: u64, cluster: u64) {
    let mut random = Random::new(seed, &[cluster]);
    let size =
        (weights.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>() / weights.len().max(1) as f64).sqrt();
    weights
        .iter_mut()
        .for_each(|w| *w += (0.5 * size * random.normal()) as f32);
}

impl Simulation<'_> {
    /// The loss and accuracy of the shared model on rows of any data.
    pub fn evaluate(&mut self, data: synod_nn::Data<'_>, rows: &[u32]) -> Result<Measured> {
        evaluate::shared(&mut self.workers, &self.servers[0].weights, data, rows)
    }
}

#[cfg(test)]
mod tests;
