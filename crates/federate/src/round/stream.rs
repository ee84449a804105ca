//! Asynchronous work: clients never wait for each other, and the model moves on after every few updates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::leases::{Hold, Lease, Leases};
use super::lobby::Lobby;
use super::roster::Verdict;
use super::{Action, Asynchronous, Refusal, Round, RoundEvent, RoundSettings, Tally, Time, Upload};
use crate::{ClientId, Result};

/// Work without rounds. Every client has at most one update in the buffer, so that a fast one does not count twice,
/// and waits for the next version once it is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    #[serde(deserialize_with = "RoundSettings::checked")]
    settings: RoundSettings,
    now: Time,
    version: Round,
    /// Since when the buffer has held something, or was last found too small.
    since: Option<Time>,
    buffer: BTreeMap<ClientId, Upload>,
    leases: Leases,
    lobby: Lobby,
    /// What the last commit held, for those who did not hear of it.
    last: BTreeMap<ClientId, Upload>,
    tally: Tally,
}

impl Stream {
    /// Begins at version 0; fails if the settings are not for asynchronous work.
    pub fn new(settings: RoundSettings, seed: u64) -> Result<Stream> {
        settings.check()?;
        if settings.asynchronous.is_none() {
            return super::settings::setting("asynchronous work needs a table `asynchronous`");
        }
        Ok(Stream {
            settings,
            now: Time(0),
            version: Round(0),
            since: None,
            buffer: BTreeMap::new(),
            leases: Leases::default(),
            lobby: Lobby::new(seed),
            last: BTreeMap::new(),
            tally: Tally::default(),
        })
    }

    /// Takes in what happened and says what to do about it, in order. A time before the last counts as the last.
    pub fn on(&mut self, at: Time, event: RoundEvent) -> Vec<Action> {
        let mut actions = Vec::new();
        if event == RoundEvent::Restarted {
            self.forgive_absence(at);
        }
        self.now = self.now.max(at);
        self.settle(&mut actions);
        match event {
            RoundEvent::CheckIn { client } => actions.push(self.check_in(client)),
            RoundEvent::Update(upload) => actions.push(self.update(upload)),
            RoundEvent::Malformed {
                client,
                round,
                reason,
            } => actions.push(self.malformed(client, round, reason)),
            RoundEvent::Dropped { client } => self.drop_client(client),
            RoundEvent::Population { clients } => self.lobby.set_population(clients),
            RoundEvent::Tick | RoundEvent::Restarted => {}
        }
        self.settle(&mut actions);
        actions
    }

    /// When time alone will next change something, if ever.
    pub fn wake(&self) -> Option<Time> {
        self.leases.wake().into_iter().chain(self.deadline()).min()
    }

    /// The version that clients begin from now.
    pub fn version(&self) -> Round {
        self.version
    }

    /// How many more clients can begin to work at once, when those who wait have. Clients that have reported cannot
    /// before the next commit.
    pub fn invites(&self) -> usize {
        self.places().saturating_sub(self.lobby.len())
    }

    /// What was counted so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How work is held.
    pub fn settings(&self) -> &RoundSettings {
        &self.settings
    }

    fn mode(&self) -> Asynchronous {
        self.settings.asynchronous.unwrap_or_default()
    }

    fn places(&self) -> usize {
        self.mode().concurrency.saturating_sub(self.leases.working())
    }

    fn deadline(&self) -> Option<Time> {
        self.since.map(|since| since + self.settings.report_timeout)
    }

    /// All that follows from counts and time.
    fn settle(&mut self, actions: &mut Vec<Action>) {
        let overdue = self.deadline().is_some_and(|end| end <= self.now);
        if self.buffer.len() >= self.mode().buffer || overdue && self.buffer.len() >= self.settings.minimum()
        {
            self.commit(actions);
        } else if overdue {
            self.since = Some(self.now);
        }
        self.leases.expire(self.now);
        self.begin_waiting(actions);
    }

    fn commit(&mut self, actions: &mut Vec<Action>) {
        self.last = std::mem::take(&mut self.buffer);
        let updates = self.last.values().copied().collect();
        actions.push(Action::Commit {
            round: self.version,
            updates,
        });
        self.tally.committed += 1;
        self.since = None;
        self.version = self.version.next();
        self.dismiss(actions);
    }

    /// Ends the work that has become too old to be taken.
    fn dismiss(&mut self, actions: &mut Vec<Action>) {
        let oldest = Round(self.version.0.saturating_sub(self.mode().staleness));
        for (client, lease) in self.leases.take_before(oldest) {
            self.end(lease.hold);
            if matches!(lease.hold, Hold::Working | Hold::Overdue) {
                let retry = self.lobby.retry(client, self.now, &self.settings);
                actions.push(Action::Stop {
                    client,
                    round: lease.version,
                    retry,
                });
            }
        }
    }

    /// Counts what became of work that brought nothing.
    fn end(&mut self, hold: Hold) {
        let counter = match hold {
            Hold::Working | Hold::Overdue => &mut self.tally.straggling,
            Hold::Dropped => &mut self.tally.dropped,
            Hold::Failed => &mut self.tally.failed,
        };
        *counter += 1;
    }

    fn begin_waiting(&mut self, actions: &mut Vec<Action>) {
        let (places, buffer) = (self.places(), &self.buffer);
        if places > 0 && !self.lobby.is_empty() {
            let chosen = self
                .lobby
                .choose(self.version, places, |client| !buffer.contains_key(&client));
            actions.extend(chosen.into_iter().map(|client| self.begin(client)));
        }
    }

    /// Gives a client the newest model to work from.
    fn begin(&mut self, client: ClientId) -> Action {
        let lease = Lease {
            version: self.version,
            until: self.now + self.settings.report_timeout,
            hold: Hold::Working,
        };
        match self.leases.put(client, lease) {
            Some(_) => self.tally.configured_again += 1,
            None => self.tally.selected += 1,
        }
        self.forget_some();
        Action::Configure {
            client,
            round: lease.version,
            until: lease.until,
        }
    }

    /// Keeps the memory of clients that left in bounds, whoever checks in and leaves: the one with the oldest work goes.
    fn forget_some(&mut self) {
        if self.leases.len() > self.mode().concurrency.saturating_mul(2)
            && let Some(client) = self.leases.oldest_away()
            && let Some(lease) = self.leases.remove(client)
        {
            self.end(lease.hold);
        }
    }

    fn check_in(&mut self, client: ClientId) -> Action {
        self.tally.check_ins += 1;
        let hold = self.leases.get(client).map(|lease| lease.hold);
        let place = self.places() > 0 && !self.buffer.contains_key(&client);
        if hold == Some(Hold::Working) || place {
            self.lobby.leave(client);
            return self.begin(client);
        }
        let action = self.lobby.admit(client, self.now, &self.settings);
        self.tally.rejected += u64::from(matches!(action, Action::Reject { .. }));
        action
    }

    fn update(&mut self, upload: Upload) -> Action {
        let Upload {
            client,
            round,
            digest,
            ..
        } = upload;
        match self.judge(&upload) {
            Verdict::New => {
                self.leases.remove(client);
                self.buffer.insert(client, upload);
                self.since = self.since.or(Some(self.now));
                self.tally.stored(&upload);
                Action::Acknowledge {
                    client,
                    round,
                    digest,
                }
            }
            Verdict::Again(digest) => {
                self.tally.duplicates += 1;
                Action::Acknowledge {
                    client,
                    round,
                    digest,
                }
            }
            Verdict::Refused(why) => {
                self.tally.refused(&why);
                Action::Refuse { client, round, why }
            }
        }
    }

    fn judge(&self, upload: &Upload) -> Verdict {
        let current = self.version;
        let stored = [&self.buffer, &self.last]
            .into_iter()
            .filter_map(|held| held.get(&upload.client));
        if let Some(stored) = stored.into_iter().find(|stored| stored.round == upload.round) {
            return match stored.digest {
                digest if digest == upload.digest => Verdict::Again(digest),
                stored => Verdict::Refused(Refusal::Conflict { stored }),
            };
        }
        Verdict::Refused(match self.leases.get(upload.client) {
            _ if upload.round > current => Refusal::Early { current },
            _ if current.0 - upload.round.0 > self.mode().staleness => Refusal::Stale { current },
            Some(lease) if lease.version == upload.round => return Verdict::New,
            Some(lease) if lease.version > upload.round => Refusal::Stale { current },
            Some(_) | None => Refusal::Unselected,
        })
    }

    fn malformed(&mut self, client: ClientId, round: Round, reason: String) -> Action {
        if let Some(lease) = self.leases.get(client)
            && lease.version == round
        {
            self.leases.put(
                client,
                Lease {
                    hold: Hold::Failed,
                    ..lease
                },
            );
        }
        let why = Refusal::Malformed { reason };
        self.tally.refused(&why);
        Action::Refuse { client, round, why }
    }

    fn drop_client(&mut self, client: ClientId) {
        self.lobby.leave(client);
        if let Some(lease) = self.leases.get(client)
            && matches!(lease.hold, Hold::Working | Hold::Overdue)
        {
            self.leases.put(
                client,
                Lease {
                    hold: Hold::Dropped,
                    ..lease
                },
            );
        }
    }

    /// Nobody could reach the server while it was away: clocks stand still for that long, and who waited is gone.
    fn forgive_absence(&mut self, back: Time) {
        let away = back - self.now;
        self.lobby.clear();
        self.since = self.since.map(|since| since + away);
        self.leases.postpone(away);
    }
}

#[cfg(test)]
impl super::explore::Machine for Stream {
    fn hash_shape(&self, hasher: &mut std::hash::DefaultHasher) {
        use std::hash::Hash;
        let age = self.since.map(|since| self.now - since);
        (self.version, age, &self.buffer, &self.last, &self.lobby).hash(hasher);
        self.leases.in_relation_to(self.now).hash(hasher);
    }

    fn now(&self) -> Time {
        self.now
    }

    fn current(&self) -> Round {
        self.version
    }

    fn next_wake(&self) -> Option<Time> {
        self.wake()
    }

    fn step(&mut self, at: Time, event: RoundEvent) -> Vec<Action> {
        self.on(at, event)
    }

    /// Too small a buffer waits on for more, but nobody takes up a place.
    fn is_idle(&self) -> bool {
        self.leases.working() == 0 && self.buffer.len() < self.settings.minimum()
    }
}
