//! Who comes to a round, on a clock of the simulation's own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::{Population, SimulationSettings};
use crate::client::ClientId;
use crate::error::{Error, Result};
use crate::round::trace::{Behaviour, Fate, Work};
use crate::round::{
    self, Action, Asynchronous, Digest, Engine, Round, RoundEvent, Tally, Time, TimeSpan, Upload, goal_of,
};
use crate::select;
use crate::strategy::Strategy;

/// Rounds in a row that may fail before the federation gives up.
const PATIENCE: u32 = 50;
/// How long an idle server waits before it looks for clients again.
const PAUSE: TimeSpan = TimeSpan(600_000);
const RETRIES: u32 = 2 * 24 * 6;

/// A client whose update a round takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Present {
    pub(super) client: ClientId,
    /// The version of the model it began with, where clients do not wait for each other.
    pub(super) version: u64,
}

/// What will happen to a client at work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Outcome {
    Reports,
    Garbage,
    Breaks,
    Silence,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Pending {
    round: Round,
    outcome: Outcome,
}

/// The round engine with its clock and the clients that are at work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Attendance {
    engine: Engine,
    clock: Time,
    picks: u64,
    #[serde(with = "pairs")]
    pending: BTreeMap<(Time, ClientId), Pending>,
    #[serde(skip)]
    busy: HashMap<ClientId, Time>,
    /// Clients whose update waits for the next commit.
    reported: BTreeSet<ClientId>,
    #[serde(with = "losses")]
    losses: HashMap<ClientId, f64>,
}

/// JSON has no keys but strings.
mod pairs {
    use super::{BTreeMap, ClientId, Deserialize, Pending, Serialize, Time};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        all: &BTreeMap<(Time, ClientId), Pending>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        all.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<(Time, ClientId), Pending>, D::Error> {
        Ok(Vec::<((Time, ClientId), Pending)>::deserialize(from)?
            .into_iter()
            .collect())
    }
}

mod losses {
    use super::{ClientId, Deserialize, HashMap, Serialize};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(all: &HashMap<ClientId, f64>, to: S) -> Result<S::Ok, S::Error> {
        let mut sorted: Vec<(&ClientId, &f64)> = all.iter().collect();
        sorted.sort_by_key(|(client, _)| **client);
        sorted.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<HashMap<ClientId, f64>, D::Error> {
        Ok(Vec::<(ClientId, f64)>::deserialize(from)?.into_iter().collect())
    }
}

/// What the selection may know of clients.
struct Known<'a> {
    population: &'a dyn Population,
    busy: &'a HashMap<ClientId, Time>,
    reported: &'a BTreeSet<ClientId>,
    losses: &'a HashMap<ClientId, f64>,
}

impl select::Population for Known<'_> {
    fn clients(&self) -> u64 {
        self.population.clients()
    }

    fn samples(&self, client: ClientId) -> u64 {
        self.population.samples(client)
    }

    fn loss(&self, client: ClientId) -> Option<f64> {
        self.losses.get(&client).copied()
    }

    fn free(&self, client: ClientId) -> bool {
        !self.busy.contains_key(&client) && !self.reported.contains(&client)
    }
}

/// What clients are asked to do, as far as it takes time.
pub(super) struct Effort<'a> {
    pub(super) population: &'a dyn Population,
    pub(super) settings: &'a SimulationSettings,
    pub(super) bytes_down: u64,
    pub(super) bytes_up: u64,
    /// Rows after which a client stops, whatever its epochs.
    pub(super) most_rows: Option<u64>,
}

impl Attendance {
    pub(super) fn new(
        settings: &SimulationSettings,
        strategy: &dyn Strategy,
        population: &dyn Population,
    ) -> Result<Attendance> {
        let clients = population.clients();
        if clients == 0 {
            return Err(Error::Setting("a federation needs clients".into()));
        }
        settings.selection.check()?;
        settings.behaviour.check()?;
        let goal = goal_of(settings.fraction, clients).min(clients as usize);
        let mut round = settings.round.clone();
        let given = round::RoundSettings::default();
        for (key, is, instead) in [
            ("goal", round.goal != given.goal, "`fraction`"),
            (
                "asynchronous",
                round.asynchronous.is_some(),
                "the strategies fedbuff and fedasync",
            ),
        ] {
            if is {
                return Err(Error::Setting(format!(
                    "`{key}` comes from {instead} here; leave it out of `round`"
                )));
            }
        }
        round.goal = goal;
        if settings.behaviour == Behaviour::default() {
            // Where nobody fails or is slow, to invite more would only favour some.
            round.over_selection = 1.0;
        }
        let fewest = strategy.fewest();
        if fewest > goal {
            return Err(Error::Setting(format!(
                "{} needs {fewest} updates with these settings, and a round takes {goal}; raise `fraction`",
                strategy.name()
            )));
        }
        round.minimum_fraction = round.minimum_fraction.max(fewest as f64 / goal as f64);
        let invited = (goal as f64 * round.over_selection).ceil().min(clients as f64);
        round.over_selection = (invited / goal as f64).max(1.0);
        round.asynchronous = strategy.asynchronous().map(|a| Asynchronous {
            buffer: a.buffer as usize,
            concurrency: goal,
            staleness: a.staleness,
        });
        round.check_for(clients)?;
        let mut engine = Engine::new(round, settings.seed)?;
        engine.on(Time(0), RoundEvent::Population { clients });
        Ok(Attendance {
            engine,
            clock: Time(0),
            picks: 0,
            pending: BTreeMap::new(),
            busy: HashMap::new(),
            reported: BTreeSet::new(),
            losses: HashMap::new(),
        })
    }

    pub(super) fn goal(&self) -> usize {
        self.engine.settings().goal
    }

    pub(super) fn tally(&self) -> &Tally {
        self.engine.tally()
    }

    /// Simulated seconds since the beginning.
    pub(super) fn clock(&self) -> f64 {
        (self.clock - Time(0)).as_seconds()
    }

    /// The oldest version that somebody still works from.
    pub(super) fn oldest_version(&self) -> Option<u64> {
        self.pending.values().map(|p| p.round.0).min()
    }

    pub(super) fn note_losses(&mut self, settings: &SimulationSettings, losses: &[(ClientId, f64)]) {
        if settings.selection.by == select::Selection::Loss {
            self.losses.extend(losses.iter().copied());
        }
    }

    /// What cannot be stored is made anew after a checkpoint was read.
    pub(super) fn restored(mut self) -> Attendance {
        self.busy = self.pending.keys().map(|(at, client)| (*client, *at)).collect();
        self
    }

    /// Lets time pass until a round commits; returns whose updates it takes, in the order of clients.
    pub(super) fn next(&mut self, effort: &Effort<'_>) -> Result<Vec<Present>> {
        let mut failures = Failures::default();
        loop {
            let invited = self.invite(effort);
            if let Some(present) = self.carry_out(invited, effort, &mut failures)? {
                return Ok(present);
            }
            let happened = self.happen(effort).unwrap_or_else(|| {
                failures.idle += 1;
                self.clock = self.clock + PAUSE;
                vec![]
            });
            if let Some(present) = self.carry_out(happened, effort, &mut failures)? {
                return Ok(present);
            }
            if failures.idle > RETRIES {
                return Err(Error::Round("no client was available for two days".into()));
            }
        }
    }

    /// Does what the engine says, all of it: after a commit it may already have sent clients to work for the next.
    fn carry_out(
        &mut self,
        actions: Vec<Action>,
        effort: &Effort<'_>,
        failures: &mut Failures,
    ) -> Result<Option<Vec<Present>>> {
        let mut committed = None;
        for action in actions {
            match self.act(action, effort) {
                Some(Ended::Commit(present)) => committed = Some(present),
                Some(Ended::Abandon(problem)) => {
                    failures.rounds += 1;
                    if failures.rounds == PATIENCE {
                        return Err(Error::Round(format!(
                            "{PATIENCE} rounds in a row failed; {problem}"
                        )));
                    }
                }
                None => {}
            }
        }
        Ok(committed)
    }

    /// Asks as many clients to check in as the engine has room for.
    fn invite(&mut self, effort: &Effort<'_>) -> Vec<Action> {
        let wanted = self.engine.invites();
        if wanted == 0 {
            return vec![];
        }
        let known = Known {
            population: effort.population,
            busy: &self.busy,
            reported: &self.reported,
            losses: &self.losses,
        };
        let settings = effort.settings;
        let clients = settings
            .selection
            .pick(&known, settings.seed, Round(self.picks), self.clock, wanted);
        self.picks += 1;
        let mut actions = vec![];
        for client in clients {
            actions.extend(self.engine.on(self.clock, RoundEvent::CheckIn { client }));
        }
        actions
    }

    /// The next thing that happens; nothing if nobody is at work and no time runs.
    fn happen(&mut self, effort: &Effort<'_>) -> Option<Vec<Action>> {
        let next = self.pending.first_key_value().map(|(key, _)| *key);
        let wake = self.engine.wake();
        let (at, client) = match (next, wake) {
            (None, None) => return None,
            (Some((at, _)), Some(wake)) if wake < at => {
                self.clock = self.clock.max(wake);
                return Some(self.engine.on(self.clock, RoundEvent::Tick));
            }
            (None, Some(wake)) => {
                self.clock = self.clock.max(wake);
                return Some(self.engine.on(self.clock, RoundEvent::Tick));
            }
            (Some(key), _) => key,
        };
        let pending = self.pending.remove(&(at, client))?;
        self.busy.remove(&client);
        self.clock = self.clock.max(at);
        let round = pending.round;
        let event = match pending.outcome {
            Outcome::Reports => RoundEvent::Update(Upload {
                client,
                round,
                digest: Digest::of(&(self.picks << 32 ^ client.0).to_be_bytes()),
                bytes: effort.bytes_up,
                samples: effort.population.samples(client),
            }),
            Outcome::Garbage => RoundEvent::Malformed {
                client,
                round,
                reason: "a crash left garbage".into(),
            },
            Outcome::Breaks => RoundEvent::Dropped { client },
            Outcome::Silence => RoundEvent::Tick,
        };
        Some(self.engine.on(self.clock, event))
    }

    fn act(&mut self, action: Action, effort: &Effort<'_>) -> Option<Ended> {
        match action {
            Action::Configure { client, round, .. } => self.set_to_work(client, round, effort),
            Action::Stop { client, .. } => self.forget(client),
            Action::Acknowledge { client, .. } => {
                self.reported.insert(client);
            }
            Action::Commit { updates, .. } => {
                let present = |u: &Upload| Present {
                    client: u.client,
                    version: u.round.0,
                };
                self.reported.clear();
                return Some(Ended::Commit(updates.iter().map(present).collect()));
            }
            Action::Abandon { had, needed, .. } => {
                self.reported.clear();
                return Some(Ended::Abandon(format!(
                    "the last had {had} clients and needs {needed}"
                )));
            }
            _ => {}
        }
        None
    }

    fn set_to_work(&mut self, client: ClientId, round: Round, effort: &Effort<'_>) {
        self.forget(client);
        let (samples, epochs) = (
            effort.population.samples(client),
            effort.settings.epochs.range().1 as u64,
        );
        let work = match effort.most_rows.filter(|most| *most < samples * epochs) {
            Some(most) => (most, 1),
            None => (samples, epochs),
        };
        let work = Work {
            samples: work.0,
            epochs: work.1,
            bytes_down: effort.bytes_down,
            bytes_up: effort.bytes_up,
        };
        // The number of picks tells rounds apart that bear the same version.
        let fate = effort
            .settings
            .behaviour
            .fate(effort.settings.seed, client, Round(self.picks), work);
        let outcome = match fate {
            Fate::Reports { .. } => Outcome::Reports,
            Fate::SendsGarbage { .. } => Outcome::Garbage,
            Fate::Drops { noticed: true, .. } => Outcome::Breaks,
            Fate::Drops { noticed: false, .. } => Outcome::Silence,
        };
        let at = self.clock + fate.after();
        self.busy.insert(client, at);
        self.pending.insert((at, client), Pending { round, outcome });
    }

    fn forget(&mut self, client: ClientId) {
        if let Some(at) = self.busy.remove(&client) {
            self.pending.remove(&(at, client));
        }
    }
}

/// What has gone wrong since the last commit.
#[derive(Default)]
struct Failures {
    rounds: u32,
    idle: u32,
}

enum Ended {
    Commit(Vec<Present>),
    Abandon(String),
}
