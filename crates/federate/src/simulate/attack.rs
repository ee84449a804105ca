//! Clients that mean harm, for judging defences.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use synod_core::Random;

use crate::client::ClientId;
use crate::error::{Error, Result};

/// What malicious clients do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attack {
    /// Their share among the registered clients.
    pub share: f64,
    /// What they do.
    pub kind: Harm,
    /// The factor on what they send; only for [`Harm::Reversed`].
    #[serde(default = "ten")]
    pub scale: f32,
}

fn ten() -> f32 {
    10.0
}

/// A way to do harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harm {
    /// They send the opposite of their update, many times over.
    Reversed,
    /// They train on the wrong labels: the last class for the first, and so on.
    FlippedLabels,
}

/// Who is malicious.
#[derive(Clone, Debug, Default)]
pub(super) struct Villains(HashSet<ClientId>);

impl Villains {
    /// Exactly the share asked for, rounded, chosen by the seed.
    pub(super) fn new(attack: Option<&Attack>, clients: u64, seed: u64) -> Result<Villains> {
        let Some(attack) = attack else {
            return Ok(Villains::default());
        };
        if !(0.0..=1.0).contains(&attack.share) {
            return Err(Error::Setting(format!(
                "the `share` of an attack must be in 0..1, not {}",
                attack.share
            )));
        }
        let mut ids: Vec<u64> = (0..clients).collect();
        Random::new(seed, &[VILLAINS]).shuffle(&mut ids);
        let count = (attack.share * clients as f64).round() as usize;
        Ok(Villains(ids.into_iter().take(count).map(ClientId).collect()))
    }

    pub(super) fn contains(&self, client: ClientId) -> bool {
        self.0.contains(&client)
    }
}

const VILLAINS: u64 = 0x7611;
