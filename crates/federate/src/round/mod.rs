//! Rounds as a state machine: events in, actions out, no clock and no I/O.
//!
//! Clients check in and wait (selection). Once enough are there, or the time is up and the minimum is there, a random
//! choice of them is sent the plan (configuration, which takes no time of its own), and their updates are awaited
//! (reporting). The round commits with the goal's number of updates, or with at least the minimum when its time is
//! over; otherwise it is abandoned and the next one begins. Whoever checks in meanwhile waits for the next selection.
//!
//! What the driver, be it a simulation or a server, can rely on:
//!
//! - The same events at the same times give the same actions, also after the state went through a file in between.
//! - An acknowledged update is in its round's commit, whatever becomes of its sender, unless the round is abandoned.
//! - A commit holds each client once, ordered by client, so that the order of arrival does not matter.
//! - An update that is sent again is acknowledged again; a different one is refused.
//!
//! What it must do: carry out the actions in order, and store the engine's state with what they changed (updates,
//! model) before it sends anything out. After a crash it goes on from the stored state with [`RoundEvent::Restarted`].
//!
//! ```
//! use synod_federate::ClientId;
//! use synod_federate::round::{Action, Digest, Engine, RoundEvent, Round, RoundSettings, Time, Upload};
//!
//! # fn main() -> synod_federate::Result<()> {
//! let settings = RoundSettings { goal: 2, over_selection: 1.5, ..RoundSettings::default() };
//! let mut engine = Engine::new(settings, 7)?;
//!
//! // Three clients check in; with the third the selection is complete.
//! let mut actions = Vec::new();
//! for client in 0..3 {
//!     actions = engine.on(Time(1000), RoundEvent::CheckIn { client: ClientId(client) });
//! }
//! let configured = actions.iter().filter(|action| matches!(action, Action::Configure { .. }));
//! assert_eq!(configured.count(), 3);
//!
//! // One drops out, two report: the second completes the round.
//! engine.on(Time(2000), RoundEvent::Dropped { client: ClientId(1) });
//! for client in [2, 0] {
//!     let upload = Upload {
//!         client: ClientId(client),
//!         round: Round(0),
//!         digest: Digest::of(&client.to_be_bytes()),
//!         bytes: 4096,
//!         samples: 600,
//!     };
//!     actions = engine.on(Time(3000), RoundEvent::Update(upload));
//! }
//! let Action::Commit { updates, .. } = &actions[1] else { panic!("no commit in {actions:?}") };
//! let clients: Vec<u64> = updates.iter().map(|update| update.client.0).collect();
//! assert_eq!(clients, [0, 2]);
//! assert_eq!(engine.round(), Round(1));
//! assert_eq!(engine.tally().dropped, 1);
//! # Ok(())
//! # }
//! ```

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod explore;
mod leases;
mod lobby;
mod message;
mod pace;
mod roster;
mod rounds;
mod settings;
mod stream;
mod tally;
mod time;
pub mod trace;

pub use message::{Action, Phase, ReconnectWindow, Refusal, Round, RoundEvent, Upload};
pub use pace::Pace;
pub use rounds::Rounds;
pub use settings::{Asynchronous, RoundSettings, goal_of};
pub use stream::Stream;
pub use synod_core::Digest;
pub use tally::Tally;
pub use time::{Time, TimeSpan};

use crate::Result;

/// The round engine: rounds, or work without them, as the settings say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// One round after another.
    Rounds(Rounds),
    /// Asynchronous work.
    Stream(Stream),
}

impl Engine {
    /// Begins at round 0; fails if the settings make no sense.
    pub fn new(settings: RoundSettings, seed: u64) -> Result<Engine> {
        match settings.asynchronous {
            None => Rounds::new(settings, seed).map(Engine::Rounds),
            Some(_) => Stream::new(settings, seed).map(Engine::Stream),
        }
    }

    /// Takes in what happened and says what to do about it, in order. A time before the last counts as the last.
    pub fn on(&mut self, at: Time, event: RoundEvent) -> Vec<Action> {
        match self {
            Engine::Rounds(rounds) => rounds.on(at, event),
            Engine::Stream(stream) => stream.on(at, event),
        }
    }

    /// When time alone will next change something, if ever: send [`RoundEvent::Tick`] then.
    pub fn wake(&self) -> Option<Time> {
        match self {
            Engine::Rounds(rounds) => rounds.wake(),
            Engine::Stream(stream) => stream.wake(),
        }
    }

    /// The round being held, or the version that clients begin from.
    pub fn round(&self) -> Round {
        match self {
            Engine::Rounds(rounds) => rounds.round(),
            Engine::Stream(stream) => stream.version(),
        }
    }

    /// How many more check-ins would be put to work at once, or end the selection.
    pub fn invites(&self) -> usize {
        match self {
            Engine::Rounds(rounds) => rounds.invites(),
            Engine::Stream(stream) => stream.invites(),
        }
    }

    /// What was counted so far.
    pub fn tally(&self) -> &Tally {
        match self {
            Engine::Rounds(rounds) => rounds.tally(),
            Engine::Stream(stream) => stream.tally(),
        }
    }

    /// How rounds are held.
    pub fn settings(&self) -> &RoundSettings {
        match self {
            Engine::Rounds(rounds) => rounds.settings(),
            Engine::Stream(stream) => stream.settings(),
        }
    }
}
