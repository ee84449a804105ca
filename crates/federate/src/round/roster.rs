//! The invited clients of a round and how far each has come.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Digest, Refusal, Upload};
use crate::ClientId;

/// How far an invited client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    /// It has the plan.
    Working,
    /// Its connection broke. It may still report, or come back for its plan.
    Dropped,
    /// It sent something malformed. It may still report.
    Failed,
    /// Its update is stored. Nothing changes that.
    Reported(Upload),
}

/// What becomes of an update.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    New,
    Again(Digest),
    Refused(Refusal),
}

/// Everyone's stage, and how many are at which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "BTreeMap<ClientId, Stage>", into = "BTreeMap<ClientId, Stage>")]
pub(super) struct Roster {
    stages: BTreeMap<ClientId, Stage>,
    working: usize,
    reported: usize,
}

impl Roster {
    pub(super) fn invite(clients: BTreeSet<ClientId>) -> Roster {
        clients
            .into_iter()
            .map(|client| (client, Stage::Working))
            .collect::<BTreeMap<_, _>>()
            .into()
    }

    pub(super) fn len(&self) -> usize {
        self.stages.len()
    }

    pub(super) fn working(&self) -> usize {
        self.working
    }

    pub(super) fn reported(&self) -> usize {
        self.reported
    }

    pub(super) fn stage(&self, client: ClientId) -> Option<Stage> {
        self.stages.get(&client).copied()
    }

    /// Moves an invited client on. A client that has reported stays where it is, and nobody else gets in.
    pub(super) fn set(&mut self, client: ClientId, stage: Stage) {
        let Some(old) = self.stages.get_mut(&client) else {
            return;
        };
        if !matches!(old, Stage::Reported(_)) {
            self.working -= usize::from(*old == Stage::Working);
            self.working += usize::from(stage == Stage::Working);
            self.reported += usize::from(matches!(stage, Stage::Reported(_)));
            *old = stage;
        }
    }

    /// What to say to an update for this round while it is open.
    pub(super) fn judge(&self, upload: &Upload) -> Verdict {
        match self.stage(upload.client) {
            None => Verdict::Refused(Refusal::Unselected),
            Some(Stage::Reported(stored)) if stored.digest == upload.digest => Verdict::Again(stored.digest),
            Some(Stage::Reported(stored)) => Verdict::Refused(Refusal::Conflict {
                stored: stored.digest,
            }),
            Some(Stage::Working | Stage::Dropped | Stage::Failed) => Verdict::New,
        }
    }

    /// What was reported, in the order of clients.
    pub(super) fn uploads(&self) -> Vec<Upload> {
        let upload = |stage: &Stage| match stage {
            Stage::Reported(upload) => Some(*upload),
            Stage::Working | Stage::Dropped | Stage::Failed => None,
        };
        self.stages.values().filter_map(upload).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, Stage)> {
        self.stages.iter().map(|(&client, &stage)| (client, stage))
    }
}

impl From<BTreeMap<ClientId, Stage>> for Roster {
    fn from(stages: BTreeMap<ClientId, Stage>) -> Roster {
        Roster {
            working: stages.values().filter(|&&stage| stage == Stage::Working).count(),
            reported: stages
                .values()
                .filter(|stage| matches!(stage, Stage::Reported(_)))
                .count(),
            stages,
        }
    }
}

impl From<Roster> for BTreeMap<ClientId, Stage> {
    fn from(roster: Roster) -> BTreeMap<ClientId, Stage> {
        roster.stages
    }
}
