//! Clients that have checked in and wait to be chosen.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Action, ReconnectWindow, Round, RoundSettings, Time};
use crate::{ClientId, Random};

/// Names the stream of random numbers that chooses among those who wait.
const CHOICE: u64 = 0x6c6f_6262;

/// Who waits, and out of how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Lobby {
    waiting: BTreeSet<ClientId>,
    population: Option<u64>,
    seed: u64,
}

impl Lobby {
    pub(super) fn new(seed: u64) -> Lobby {
        Lobby {
            seed,
            ..Lobby::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn set_population(&mut self, clients: u64) {
        self.population = Some(clients);
    }

    pub(super) fn population(&self) -> Option<u64> {
        self.population
    }

    pub(super) fn leave(&mut self, client: ClientId) {
        self.waiting.remove(&client);
    }

    /// Everyone goes.
    pub(super) fn clear(&mut self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.waiting)
    }

    /// Lets a client wait if there is room, and says what to tell it. Asking again changes nothing.
    pub(super) fn admit(&mut self, client: ClientId, now: Time, settings: &RoundSettings) -> Action {
        let retry = self.retry(client, now, settings);
        if self.waiting.contains(&client) || self.waiting.len() < settings.room() {
            self.waiting.insert(client);
            Action::Accept { client, retry }
        } else {
            Action::Reject { client, retry }
        }
    }

    /// When a client is to come back.
    pub(super) fn retry(&self, client: ClientId, now: Time, settings: &RoundSettings) -> ReconnectWindow {
        let wanted = settings
            .asynchronous
            .as_ref()
            .map_or(settings.invited(), |a| a.concurrency);
        settings
            .pace
            .retry(self.seed, client, now, wanted, self.population)
    }

    /// Takes out at most so many of those that may go, whoever came first, in the order of their ids.
    pub(super) fn choose(
        &mut self,
        round: Round,
        count: usize,
        may_go: impl Fn(ClientId) -> bool,
    ) -> BTreeSet<ClientId> {
        let rank = |client: ClientId| Random::new(self.seed, &[CHOICE, round.0, client.0]).bits();
        let mut ranked: Vec<_> = self
            .waiting
            .iter()
            .filter(|&&c| may_go(c))
            .map(|&c| (rank(c), c))
            .collect();
        ranked.sort_unstable();
        let chosen: BTreeSet<_> = ranked.into_iter().take(count).map(|(_, client)| client).collect();
        self.waiting.retain(|client| !chosen.contains(client));
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_does_not_depend_on_who_came_first_and_is_fair_over_rounds() {
        let settings = RoundSettings::default();
        let lobby = |order: &mut dyn Iterator<Item = u64>| {
            let mut lobby = Lobby::new(5);
            order.for_each(|c| drop(lobby.admit(ClientId(c), Time(0), &settings)));
            lobby
        };
        let (forth, back) = (lobby(&mut (0..20)), lobby(&mut (0..20).rev()));
        let mut chosen = [0; 20];
        for round in 0..2000 {
            let one = forth.clone().choose(Round(round), 5, |_| true);
            assert_eq!(one, back.clone().choose(Round(round), 5, |_| true));
            one.iter().for_each(|c| chosen[c.0 as usize] += 1);
        }
        assert!(
            chosen.iter().all(|count| (430..570).contains(count)),
            "{chosen:?}"
        );
    }

    #[test]
    fn a_full_lobby_sends_newcomers_away_and_keeps_those_it_has() {
        let settings = RoundSettings::default();
        let mut lobby = Lobby::new(5);
        for client in 0..26 {
            assert!(matches!(
                lobby.admit(ClientId(client), Time(0), &settings),
                Action::Accept { .. }
            ));
        }
        assert!(matches!(
            lobby.admit(ClientId(26), Time(0), &settings),
            Action::Reject { .. }
        ));
        assert!(matches!(
            lobby.admit(ClientId(3), Time(0), &settings),
            Action::Accept { .. }
        ));
        assert_eq!(lobby.len(), settings.room());
    }
}
