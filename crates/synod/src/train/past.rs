//! What a run goes on from: the epochs that its log tells of, and the data with which it began.

use anyhow::Result;
use synod_core::Digest;
use synod_nn::EpochReport;
use synod_runs::{Error, Folder, Log};

use super::events::Recorded;

/// What the log tells of the epochs up to a checkpoint.
pub(super) struct Past {
    pub(super) plan: u64,
    /// The training data; none if an older version noted it in another way.
    pub(super) data: Option<Digest>,
    pub(super) reports: Vec<EpochReport>,
}

impl Past {
    /// What happened until the end of epoch `epochs`. Epochs that are on record but not in the checkpoint come again.
    pub(super) fn until(epochs: usize, log: &Log) -> Result<Past> {
        let (mut start, mut reports) = (None, vec![None; epochs]);
        for event in log.past()? {
            match event {
                Recorded::Start { plan, data } => start = Some((plan, data)),
                Recorded::Epoch(epoch) => {
                    if let Some(place) = epoch.epoch.checked_sub(1).and_then(|e| reports.get_mut(e)) {
                        *place = Some(epoch.report());
                    }
                }
                Recorded::Other => {}
            }
        }
        let reports: Option<Vec<EpochReport>> = reports.into_iter().collect();
        match (start, reports) {
            (Some((plan, data)), Some(reports)) => Ok(Past { plan, data, reports }),
            _ => Err(Error::Damaged {
                path: log.path().to_owned(),
                problem: format!(
                    "does not tell of all {epochs} epochs of the checkpoint; --force starts the run anew"
                ),
            }
            .into()),
        }
    }
}

/// Refuses to go on with other training data than those with which the run began.
pub(super) fn check_data(folder: &Folder, before: Option<Digest>, now: Digest) -> Result<()> {
    let problem = match before {
        Some(before) if before == now => return Ok(()),
        Some(_) => {
            "the training data are not those with which the run began; restore them, or start anew with --force"
        }
        None => {
            "the run was begun by an older version, which noted its training data in another way; start anew with --force"
        }
    };
    Err(folder.refused(problem).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_with_its_own_data_only() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = Folder::hold(place.path()).expect("held");
        let (own, other) = (Digest::of(b"own"), Digest::of(b"other"));
        assert!(check_data(&folder, Some(own), own).is_ok());
        for (before, word) in [(Some(other), "restore them"), (None, "older version")] {
            let said = check_data(&folder, before, own).expect_err("refused").to_string();
            assert!(said.contains(word) && said.contains("--force"), "{said}");
        }
    }
}
