//! What must hold of every step, told from events and actions alone.

use std::collections::BTreeMap;

use crate::ClientId;
use crate::round::{Action, Digest, Phase, Refusal, Round, RoundEvent, RoundSettings, Upload};

/// The rules of a machine, as its settings give them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    minimum: usize,
    most: usize,
    staleness: u64,
}

impl Rules {
    pub(super) fn of(settings: &RoundSettings) -> Rules {
        Rules {
            minimum: settings.minimum(),
            most: settings.asynchronous.map_or(settings.goal, |a| a.buffer),
            staleness: settings.asynchronous.map_or(0, |a| a.staleness),
        }
    }
}

/// What an observer remembers: the work given, the updates acknowledged since the last commit, and that commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Monitor {
    round: Round,
    given: BTreeMap<ClientId, Round>,
    acknowledged: BTreeMap<ClientId, Upload>,
    committed: BTreeMap<ClientId, Upload>,
}

impl Monitor {
    /// Follows one step and panics if a rule is broken.
    pub(super) fn follow(&mut self, rules: Rules, event: &RoundEvent, actions: &[Action]) {
        let mut answers = 0;
        for action in actions {
            match action {
                Action::Configure { client, round, .. } => self.configured(*client, *round),
                Action::Acknowledge {
                    client,
                    round,
                    digest,
                } => {
                    answers += 1;
                    self.acknowledge(rules, event, *client, *round, *digest);
                }
                Action::Refuse { client, round, why } => {
                    answers += 1;
                    self.refuse(rules, event, *client, *round, why);
                }
                Action::Stop { client, round, .. } => {
                    assert_eq!(self.given.remove(client), Some(*round), "stopped without work");
                }
                Action::Commit { round, updates } => self.commit(rules, *round, updates),
                Action::Abandon {
                    round,
                    phase,
                    had,
                    needed,
                } => self.abandon(rules, *round, *phase, *had, *needed),
                Action::Accept { .. } => assert!(matches!(event, RoundEvent::CheckIn { .. })),
                Action::Reject { .. } => {}
            }
        }
        let asks = matches!(event, RoundEvent::Update(_) | RoundEvent::Malformed { .. });
        assert_eq!(answers, usize::from(asks), "one answer to every update");
        if let RoundEvent::CheckIn { client } = event {
            let answered = |action: &&Action| {
                matches!(action,
                Action::Accept { client: c, .. } | Action::Reject { client: c, .. } | Action::Configure { client: c, .. }
                if c == client)
            };
            assert!(
                actions.iter().any(|action| answered(&action)),
                "a check-in goes unanswered"
            );
        }
    }

    pub(super) fn has_committed(&self, round: Round) -> bool {
        self.committed.values().any(|_| self.round > round)
    }

    fn configured(&mut self, client: ClientId, round: Round) {
        assert_eq!(round, self.round, "work for another round than the current");
        assert!(
            !self.acknowledged.contains_key(&client),
            "work for a client that has reported"
        );
        self.given.insert(client, round);
    }

    /// Whether an update must be taken: the client has that work, it is not too old, and it has not reported.
    fn is_due(&self, rules: Rules, client: ClientId, round: Round) -> bool {
        self.given.get(&client) == Some(&round)
            && self.round.0 - round.0 <= rules.staleness
            && !self.acknowledged.contains_key(&client)
    }

    fn stored(&self, client: ClientId, round: Round) -> Option<Digest> {
        let held = [&self.acknowledged, &self.committed]
            .into_iter()
            .filter_map(|held| held.get(&client));
        held.into_iter()
            .find(|upload| upload.round == round)
            .map(|upload| upload.digest)
    }

    fn acknowledge(
        &mut self,
        rules: Rules,
        event: &RoundEvent,
        client: ClientId,
        round: Round,
        digest: Digest,
    ) {
        let RoundEvent::Update(upload) = event else {
            panic!("acknowledged nothing")
        };
        assert_eq!(
            (upload.client, upload.round, upload.digest),
            (client, round, digest)
        );
        if let Some(stored) = self.stored(client, round) {
            assert_eq!(stored, digest, "acknowledged a second, different update");
        } else {
            assert!(
                self.is_due(rules, client, round),
                "acknowledged what was not asked for"
            );
            self.acknowledged.insert(client, *upload);
            self.given.remove(&client);
        }
    }

    fn refuse(&self, rules: Rules, event: &RoundEvent, client: ClientId, round: Round, why: &Refusal) {
        match (event, why) {
            (
                RoundEvent::Malformed {
                    client: c,
                    round: r,
                    reason: said,
                },
                Refusal::Malformed { reason },
            ) => {
                assert_eq!((*c, *r, said), (client, round, reason));
            }
            (RoundEvent::Update(_), Refusal::Conflict { stored }) => {
                assert_eq!(self.stored(client, round), Some(*stored));
            }
            (RoundEvent::Update(_), Refusal::Early { .. }) => assert!(round > self.round),
            (RoundEvent::Update(_), Refusal::Late | Refusal::Stale { .. }) => assert!(round < self.round),
            (RoundEvent::Update(_), Refusal::Unselected) => assert!(self.given.get(&client) != Some(&round)),
            _ => panic!("refused {event:?} because {why:?}"),
        }
        if let RoundEvent::Update(upload) = event {
            assert!(
                !self.is_due(rules, client, round),
                "refused what was asked for: {why:?}"
            );
            assert_ne!(
                self.stored(client, round),
                Some(upload.digest),
                "refused a duplicate: {why:?}"
            );
        }
    }

    fn commit(&mut self, rules: Rules, round: Round, updates: &[Upload]) {
        assert_eq!(round, self.round);
        assert!(
            (rules.minimum..=rules.most).contains(&updates.len()),
            "{} updates committed",
            updates.len()
        );
        assert!(
            updates.windows(2).all(|pair| pair[0].client < pair[1].client),
            "{updates:?}"
        );
        assert!(
            updates
                .iter()
                .all(|update| round.0 - update.round.0 <= rules.staleness)
        );
        let acknowledged: Vec<Upload> = self.acknowledged.values().copied().collect();
        assert_eq!(
            updates, acknowledged,
            "what is committed is what was acknowledged"
        );
        self.committed = std::mem::take(&mut self.acknowledged);
        self.advance(rules);
    }

    fn abandon(&mut self, rules: Rules, round: Round, phase: Phase, had: usize, needed: usize) {
        assert_eq!((round, needed), (self.round, rules.minimum));
        assert!(had < needed, "abandoned with enough");
        match phase {
            Phase::Selection => {
                assert!(self.acknowledged.is_empty() && self.given.values().all(|&r| r < round))
            }
            Phase::Reporting => {
                assert_eq!(had, self.acknowledged.len());
                self.committed.clear();
            }
        }
        self.acknowledged.clear();
        self.advance(rules);
    }

    fn advance(&mut self, rules: Rules) {
        self.round = self.round.next();
        let oldest = self.round.0.saturating_sub(rules.staleness + 1);
        self.given.retain(|_, given| given.0 >= oldest);
    }
}
