//! What goes into the round engine and what comes out of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use synod_core::Digest;

use super::{Time, TimeSpan};
use crate::{ClientId, Random};

/// The number of an attempt at a round, never used again; for asynchronous work, the version of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Round(pub u64);

impl Round {
    pub(crate) fn next(self) -> Round {
        Round(self.0.saturating_add(1))
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round {}", self.0)
    }
}

/// An update that arrived whole and well formed. The engine sees what it is about, never its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Upload {
    /// Whose work it is.
    pub client: ClientId,
    /// The round it was made for; for asynchronous work, the version it began from.
    pub round: Round,
    /// Its content's hash.
    pub digest: Digest,
    /// Its size on the wire.
    pub bytes: u64,
    /// The samples behind it.
    pub samples: u64,
}

/// What happened, at a time that is told beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoundEvent {
    /// A client asks for work.
    CheckIn {
        /// Who asks.
        client: ClientId,
    },
    /// An update arrived, and is stored by the driver if the engine acknowledges it.
    Update(Upload),
    /// Something arrived as an update that is none.
    Malformed {
        /// Who sent it.
        client: ClientId,
        /// The round it was said to be for.
        round: Round,
        /// What is wrong with it, for the sender to read.
        reason: String,
    },
    /// A client's connection broke, or it gave up.
    Dropped {
        /// Who is gone.
        client: ClientId,
    },
    /// Time passed. The driver sends one no later than [`Engine::wake`](super::Engine::wake) says.
    Tick,
    /// The server is back: every connection is lost, and the time it was away is not counted against anyone.
    Restarted,
    /// How many clients could take part is known, or changed.
    Population {
        /// The registered clients.
        clients: u64,
    },
}

/// What the driver must do, in the order given. Each names what it is about, so that one done twice can be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Let a client wait for the next selection.
    Accept {
        /// Who waits.
        client: ClientId,
        /// When to check in again if it heard nothing.
        retry: ReconnectWindow,
    },
    /// Send a client away.
    Reject {
        /// Who goes.
        client: ClientId,
        /// When to come back.
        retry: ReconnectWindow,
    },
    /// Send a client the plan and the model.
    Configure {
        /// Who is to work.
        client: ClientId,
        /// For which round, or from which version.
        round: Round,
        /// When its update is due.
        until: Time,
    },
    /// Tell a client that its update is stored and need not be sent again.
    Acknowledge {
        /// Whose update.
        client: ClientId,
        /// For which round.
        round: Round,
        /// Which content.
        digest: Digest,
    },
    /// Tell a client that its update is not taken.
    Refuse {
        /// Whose update.
        client: ClientId,
        /// For which round.
        round: Round,
        /// Why not.
        why: Refusal,
    },
    /// Tell a client that is still at work that it is too late.
    Stop {
        /// Who may stop.
        client: ClientId,
        /// Which work.
        round: Round,
        /// When to come back.
        retry: ReconnectWindow,
    },
    /// Aggregate these updates, ordered by client, into the next model.
    Commit {
        /// The round that ends, or the version that they are added to.
        round: Round,
        /// What was acknowledged, each client once.
        updates: Vec<Upload>,
    },
    /// Forget a round: too few took part. The model stays as it is.
    Abandon {
        /// The round that ends.
        round: Round,
        /// Where it failed.
        phase: Phase,
        /// How many clients checked in, or reported.
        had: usize,
        /// How many it takes.
        needed: usize,
    },
}

/// The two parts of a round that take time. Configuration lies between them and takes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Clients check in.
    Selection,
    /// Clients work and report.
    Reporting,
}

/// Why an update is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The client took part, and its round ended before.
    #[error("the round ended before the update arrived; check in for the next one")]
    Late,
    /// The work is for a round long over, or for another plan than the client's last.
    #[error("the update is for work that is over; the server is at {current}; check in for new work")]
    Stale {
        /// Where the server is.
        current: Round,
    },
    /// The round has not begun.
    #[error("the update is for a round that has not begun; the server is at {current}")]
    Early {
        /// Where the server is.
        current: Round,
    },
    /// The client was given no such work.
    #[error("the client was not selected for this round; check in first")]
    Unselected,
    /// The client already reported something else.
    #[error("another update of this client is already stored as {stored}")]
    Conflict {
        /// What is stored.
        stored: Digest,
    },
    /// What arrived is no update.
    #[error("the update cannot be used: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
}

/// When a client is to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReconnectWindow {
    /// Not before.
    pub from: Time,
    /// Not after.
    pub to: Time,
}

impl ReconnectWindow {
    /// A moment within the window, all equally likely.
    pub fn pick(&self, random: &mut Random) -> Time {
        self.from + TimeSpan(random.below((self.to - self.from).0.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picked_moment_lies_in_its_window() {
        let window = ReconnectWindow {
            from: Time(10),
            to: Time(12),
        };
        let mut random = Random::new(1, &[]);
        let picks: std::collections::BTreeSet<_> = (0..100).map(|_| window.pick(&mut random).0).collect();
        assert_eq!(picks.into_iter().collect::<Vec<_>>(), [10, 11, 12]);
    }
}
