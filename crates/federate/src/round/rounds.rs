//! Synchronous rounds: selection, configuration, reporting.

use serde::{Deserialize, Serialize};

use super::lobby::Lobby;
use super::roster::{Roster, Stage, Verdict};
use super::{Action, Phase, Refusal, Round, RoundEvent, RoundSettings, Tally, Time, Upload};
use crate::{ClientId, Result};

/// One round after another. Its whole state can be stored after any event; what it does depends on nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rounds {
    #[serde(deserialize_with = "RoundSettings::checked")]
    settings: RoundSettings,
    now: Time,
    round: Round,
    state: State,
    lobby: Lobby,
    closed: Option<Closed>,
    tally: Tally,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// Clients gather in the lobby, since the first of them came.
    Selecting { since: Option<Time> },
    /// Invited clients work, or since a time none does.
    Reporting {
        since: Time,
        idle: Option<Time>,
        roster: Roster,
    },
}

/// The last round that got as far as reporting, for those who come late or did not hear that they were in time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Closed {
    round: Round,
    committed: bool,
    roster: Roster,
}

/// How the machine moves on.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Configure,
    Commit,
    Abandon,
}

impl Rounds {
    /// Begins to select for round 0.
    pub fn new(settings: RoundSettings, seed: u64) -> Result<Rounds> {
        settings.check()?;
        Ok(Rounds {
            settings,
            now: Time(0),
            round: Round(0),
            state: State::Selecting { since: None },
            lobby: Lobby::new(seed),
            closed: None,
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
        match &self.state {
            State::Selecting { since } => since.map(|since| since + self.settings.selection_timeout),
            State::Reporting { since, idle, .. } => {
                let end = *since + self.settings.report_timeout;
                Some(idle.map_or(end, |idle| end.min(idle + self.settings.grace)))
            }
        }
    }

    /// The round that is being held.
    pub fn round(&self) -> Round {
        self.round
    }

    /// Where that round is.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Selecting { .. } => Phase::Selection,
            State::Reporting { .. } => Phase::Reporting,
        }
    }

    /// How many more check-ins end the selection at once.
    pub fn invites(&self) -> usize {
        match self.state {
            State::Selecting { .. } => self.wanted().saturating_sub(self.lobby.len()),
            State::Reporting { .. } => 0,
        }
    }

    /// What was counted so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How rounds are held.
    pub fn settings(&self) -> &RoundSettings {
        &self.settings
    }

    /// No more than there are clients, or a small federation would wait for clients that do not exist.
    fn wanted(&self) -> usize {
        let clients = self
            .lobby
            .population()
            .map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        self.settings.invited().min(clients.max(self.settings.minimum()))
    }

    /// The updates with which a round ends at once: if fewer than the goal were invited, all of theirs.
    fn full(&self, roster: &Roster) -> usize {
        self.settings.goal.min(roster.len()).max(self.settings.minimum())
    }

    /// Moves on as far as counts and time allow. A round that begins reporting has time, so this ends.
    fn settle(&mut self, actions: &mut Vec<Action>) {
        self.keep_time();
        while let Some(turn) = self.turn() {
            match turn {
                Turn::Configure => self.configure(actions),
                Turn::Commit => self.close(true, actions),
                Turn::Abandon => self.close(false, actions),
            }
            self.keep_time();
        }
    }

    /// All transitions between phases: from where, and on what condition.
    fn turn(&self) -> Option<Turn> {
        let overdue = self.wake().is_some_and(|end| end <= self.now);
        let enough = |count: usize, full: usize| count >= full || overdue && count >= self.settings.minimum();
        match &self.state {
            State::Selecting { .. } if enough(self.lobby.len(), self.wanted()) => Some(Turn::Configure),
            State::Reporting { roster, .. } if enough(roster.reported(), self.full(roster)) => {
                Some(Turn::Commit)
            }
            State::Selecting { .. } | State::Reporting { .. } => overdue.then_some(Turn::Abandon),
        }
    }

    /// Starts and stops the clocks that depend on who is there.
    fn keep_time(&mut self) {
        let now = self.now;
        match &mut self.state {
            State::Selecting { since } if self.lobby.is_empty() => *since = None,
            State::Selecting { since } => *since = since.or(Some(now)),
            State::Reporting { idle, roster, .. } if roster.working() > 0 => *idle = None,
            State::Reporting { idle, .. } => *idle = idle.or(Some(now)),
        }
    }

    fn configure(&mut self, actions: &mut Vec<Action>) {
        let clients = self.lobby.choose(self.round, self.wanted(), |_| true);
        self.tally.selected += clients.len() as u64;
        let until = self.now + self.settings.report_timeout;
        let round = self.round;
        actions.extend(
            clients
                .iter()
                .map(|&client| Action::Configure { client, round, until }),
        );
        self.state = State::Reporting {
            since: self.now,
            idle: None,
            roster: Roster::invite(clients),
        };
    }

    fn close(&mut self, commit: bool, actions: &mut Vec<Action>) {
        let round = self.round;
        self.round = round.next();
        match std::mem::replace(&mut self.state, State::Selecting { since: None }) {
            State::Selecting { .. } => {
                actions.push(self.abandon(round, Phase::Selection, self.lobby.len()));
                self.send_away(actions);
            }
            State::Reporting { roster, .. } => {
                let outcome = if commit {
                    self.tally.committed += 1;
                    Action::Commit {
                        round,
                        updates: roster.uploads(),
                    }
                } else {
                    self.tally.discarded += roster.reported() as u64;
                    self.abandon(round, Phase::Reporting, roster.reported())
                };
                actions.push(outcome);
                self.dismiss(round, &roster, actions);
                self.closed = Some(Closed {
                    round,
                    committed: commit,
                    roster,
                });
            }
        }
    }

    fn abandon(&mut self, round: Round, phase: Phase, had: usize) -> Action {
        self.tally.abandoned += 1;
        Action::Abandon {
            round,
            phase,
            had,
            needed: self.settings.minimum(),
        }
    }

    fn send_away(&mut self, actions: &mut Vec<Action>) {
        for client in self.lobby.clear() {
            self.tally.rejected += 1;
            actions.push(Action::Reject {
                client,
                retry: self.lobby.retry(client, self.now, &self.settings),
            });
        }
    }

    fn dismiss(&mut self, round: Round, roster: &Roster, actions: &mut Vec<Action>) {
        for (client, stage) in roster.iter() {
            match stage {
                Stage::Reported(_) => {}
                Stage::Dropped => self.tally.dropped += 1,
                Stage::Failed => self.tally.failed += 1,
                Stage::Working => {
                    self.tally.straggling += 1;
                    let retry = self.lobby.retry(client, self.now, &self.settings);
                    actions.push(Action::Stop { client, round, retry });
                }
            }
        }
    }

    fn check_in(&mut self, client: ClientId) -> Action {
        self.tally.check_ins += 1;
        if let State::Reporting { since, roster, .. } = &mut self.state
            && let Some(Stage::Working | Stage::Dropped) = roster.stage(client)
        {
            roster.set(client, Stage::Working);
            self.tally.configured_again += 1;
            let until = *since + self.settings.report_timeout;
            return Action::Configure {
                client,
                round: self.round,
                until,
            };
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
                if let State::Reporting { roster, .. } = &mut self.state {
                    roster.set(client, Stage::Reported(upload));
                }
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
        let stale = Verdict::Refused(Refusal::Stale { current: self.round });
        match (&self.state, &self.closed) {
            _ if upload.round > self.round => Verdict::Refused(Refusal::Early { current: self.round }),
            (State::Reporting { roster, .. }, _) if upload.round == self.round => roster.judge(upload),
            (State::Selecting { .. }, _) if upload.round == self.round => {
                Verdict::Refused(Refusal::Unselected)
            }
            (_, Some(closed)) if upload.round == closed.round => closed.judge(upload),
            _ => stale,
        }
    }

    fn malformed(&mut self, client: ClientId, round: Round, reason: String) -> Action {
        if let State::Reporting { roster, .. } = &mut self.state
            && round == self.round
        {
            roster.set(client, Stage::Failed);
        }
        let why = Refusal::Malformed { reason };
        self.tally.refused(&why);
        Action::Refuse { client, round, why }
    }

    fn drop_client(&mut self, client: ClientId) {
        self.lobby.leave(client);
        if let State::Reporting { roster, .. } = &mut self.state
            && roster.stage(client) == Some(Stage::Working)
        {
            roster.set(client, Stage::Dropped);
        }
    }

    /// Nobody could reach the server while it was away: clocks stand still for that long, and who waited is gone.
    fn forgive_absence(&mut self, back: Time) {
        let away = back - self.now;
        self.lobby.clear();
        match &mut self.state {
            State::Selecting { since } => *since = None,
            State::Reporting { since, idle, .. } => {
                *since = *since + away;
                *idle = idle.map(|idle| idle + away);
            }
        }
    }
}

impl Closed {
    fn judge(&self, upload: &Upload) -> Verdict {
        let took_part = self.roster.stage(upload.client).is_some();
        match self.roster.judge(upload) {
            Verdict::New => Verdict::Refused(Refusal::Late),
            // What an abandoned round had stored is gone.
            _ if took_part && !self.committed => Verdict::Refused(Refusal::Late),
            verdict => verdict,
        }
    }
}

#[cfg(test)]
impl super::explore::Machine for Rounds {
    fn hash_shape(&self, hasher: &mut std::hash::DefaultHasher) {
        use std::hash::Hash;
        (self.round, &self.lobby, &self.closed).hash(hasher);
        match &self.state {
            State::Selecting { since } => since.map(|since| self.now - since).hash(hasher),
            State::Reporting { since, idle, roster } => {
                (self.now - *since, idle.map(|idle| self.now - idle), roster).hash(hasher);
            }
        }
    }

    fn now(&self) -> Time {
        self.now
    }

    fn current(&self) -> Round {
        self.round
    }

    fn next_wake(&self) -> Option<Time> {
        self.wake()
    }

    fn step(&mut self, at: Time, event: RoundEvent) -> Vec<Action> {
        self.on(at, event)
    }

    fn is_idle(&self) -> bool {
        self.phase() == Phase::Selection && self.lobby.is_empty() && self.wake().is_none()
    }
}
