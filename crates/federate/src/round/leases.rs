//! Who is at work without rounds, since which version, and until when.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Round, Time, TimeSpan};
use crate::ClientId;

/// A client's work: from which version, until when it takes up a place, and how it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Lease {
    pub(super) version: Round,
    pub(super) until: Time,
    pub(super) hold: Hold,
}

/// Whether a client takes up a place among those at work. Without one it may still report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Hold {
    Working,
    Overdue,
    Dropped,
    Failed,
}

/// All leases, and those at work in the order in which their time runs out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "BTreeMap<ClientId, Lease>", into = "BTreeMap<ClientId, Lease>")]
pub(super) struct Leases {
    all: BTreeMap<ClientId, Lease>,
    due: BTreeSet<(Time, ClientId)>,
}

impl Leases {
    pub(super) fn get(&self, client: ClientId) -> Option<Lease> {
        self.all.get(&client).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn working(&self) -> usize {
        self.due.len()
    }

    /// When the next place becomes free by time alone.
    pub(super) fn wake(&self) -> Option<Time> {
        self.due.first().map(|&(time, _)| time)
    }

    /// Sets a client's lease and gives back the one it had.
    pub(super) fn put(&mut self, client: ClientId, lease: Lease) -> Option<Lease> {
        let old = self.remove(client);
        if lease.hold == Hold::Working {
            self.due.insert((lease.until, client));
        }
        self.all.insert(client, lease);
        old
    }

    pub(super) fn remove(&mut self, client: ClientId) -> Option<Lease> {
        let old = self.all.remove(&client)?;
        self.due.remove(&(old.until, client));
        Some(old)
    }

    /// Takes the places of those whose time is over.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(&(until, client)) = self.due.first()
            && until <= now
        {
            self.due.pop_first();
            if let Some(lease) = self.all.get_mut(&client) {
                lease.hold = Hold::Overdue;
            }
        }
    }

    /// Takes out what began before a version, in the order of clients.
    pub(super) fn take_before(&mut self, version: Round) -> Vec<(ClientId, Lease)> {
        let old: Vec<_> = self
            .all
            .iter()
            .filter(|(_, l)| l.version < version)
            .map(|(&c, &l)| (c, l))
            .collect();
        for (client, _) in &old {
            self.remove(*client);
        }
        old
    }

    /// The client without a place whose work is the oldest.
    pub(super) fn oldest_away(&self) -> Option<ClientId> {
        let away = self.all.iter().filter(|(_, lease)| lease.hold != Hold::Working);
        away.min_by_key(|(client, lease)| (lease.version, lease.until, **client))
            .map(|(&client, _)| client)
    }

    /// Gives everyone more time.
    pub(super) fn postpone(&mut self, span: TimeSpan) {
        self.all
            .values_mut()
            .for_each(|lease| lease.until = lease.until + span);
        *self = std::mem::take(&mut self.all).into();
    }
}

#[cfg(test)]
impl Leases {
    /// The same leases with times told from `now` on. Of those without a place the time no longer counts.
    pub(super) fn in_relation_to(&self, now: Time) -> BTreeMap<ClientId, Lease> {
        let left = |lease: &Lease| {
            if lease.hold == Hold::Working {
                Time((lease.until - now).0)
            } else {
                Time(0)
            }
        };
        self.all
            .iter()
            .map(|(&client, lease)| {
                (
                    client,
                    Lease {
                        until: left(lease),
                        ..*lease
                    },
                )
            })
            .collect()
    }
}

impl From<BTreeMap<ClientId, Lease>> for Leases {
    fn from(all: BTreeMap<ClientId, Lease>) -> Leases {
        let working = all.iter().filter(|(_, lease)| lease.hold == Hold::Working);
        Leases {
            due: working.map(|(&client, lease)| (lease.until, client)).collect(),
            all,
        }
    }
}

impl From<Leases> for BTreeMap<ClientId, Lease> {
    fn from(leases: Leases) -> BTreeMap<ClientId, Lease> {
        leases.all
    }
}
