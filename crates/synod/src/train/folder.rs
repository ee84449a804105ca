//! The run directory: what an experiment leaves behind, and what it goes on from.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use synod_core::{Digest, Event, files};
use synod_nn::EpochReport;

use super::Misuse;
use super::events::Recorded;

/// The file that holds principal components.
pub(super) const COMPONENTS: &str = "components.json";
/// The file with a line for every client that was judged.
pub(super) const CLIENTS: &str = "clients.jsonl";

/// A log longer than this is not one of ours.
const LARGEST_LOG: u64 = 256 << 20;

/// A run directory, which may not exist yet.
pub(super) struct Folder {
    path: PathBuf,
}

/// How far the run of a directory has come.
pub(super) enum Standing {
    /// There is nothing to go on from.
    Empty,
    /// There is a checkpoint, but no summary.
    Unfinished,
    /// The summary, as it was written.
    Finished(Value),
}

/// What the log tells of the epochs up to a checkpoint.
pub(super) struct Past {
    pub(super) plan: u64,
    /// The training data; none if an older version noted it in another way.
    pub(super) data: Option<Digest>,
    pub(super) reports: Vec<EpochReport>,
}

impl Folder {
    pub(super) fn new(runs: &Path, name: &str) -> Folder {
        Folder {
            path: runs.join(name),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The best model so far.
    pub(super) fn model(&self) -> PathBuf {
        self.path.join("model.safetensors")
    }

    /// The model of the last epoch, with what training needs to go on.
    pub(super) fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint.safetensors")
    }

    fn summary(&self) -> PathBuf {
        self.path.join("summary.json")
    }

    fn events(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    fn config(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    pub(super) fn standing(&self) -> Result<Standing> {
        let path = self.summary();
        match fs::read(&path) {
            Ok(bytes) => {
                let summary = serde_json::from_slice(&bytes);
                let damaged = || format!("{} is damaged; --force starts the run anew", path.display());
                Ok(Standing::Finished(summary.with_context(damaged)?))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(match self.checkpoint().exists() {
                true => Standing::Unfinished,
                false => Standing::Empty,
            }),
            Err(e) => Err(e).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// The configuration that the run was started with.
    pub(super) fn config_text(&self) -> Result<String> {
        let path = self.config();
        fs::read_to_string(&path).with_context(|| format!("cannot read {} to go on from", path.display()))
    }

    /// Takes hold of the directory for a new run: whatever an earlier one left is removed.
    pub(super) fn begin(&self, config: &str) -> Result<Log> {
        let path = &self.path;
        fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
        let log = Log::open(self.events())?;
        self.sweep()?;
        // The summary goes first: without it and the checkpoint, a crash from here on leaves an empty run.
        let first = [self.summary(), self.checkpoint(), self.model()];
        for file in first.into_iter().chain(self.further()?) {
            match fs::remove_file(&file) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(e).with_context(|| format!("cannot remove {}", file.display()));
                }
                _ => {}
            }
        }
        log.clear()?;
        write_whole(&self.config(), config.as_bytes())?;
        Ok(log)
    }

    /// Takes hold of the directory to go on, from the checkpoint made after `epochs` epochs.
    pub(super) fn go_on(&self, epochs: usize) -> Result<(Log, Past)> {
        let log = Log::open(self.events())?;
        self.sweep()?;
        let past = log.past(epochs)?;
        Ok((log, past))
    }

    /// Takes hold of the directory to go on from a checkpoint that holds all of the past itself.
    pub(super) fn go_on_from_state(&self) -> Result<Log> {
        let log = Log::open(self.events())?;
        self.sweep()?;
        log.mend()?;
        Ok(log)
    }

    /// Removes what a killed process had begun to write.
    fn sweep(&self) -> Result<()> {
        let swept = files::sweep(&self.path);
        swept.with_context(|| format!("cannot tidy {}", self.path.display()))?;
        Ok(())
    }

    /// Refuses to go on with other training data than those with which the run began.
    pub(super) fn check_data(&self, before: Option<Digest>, now: Digest) -> Result<()> {
        let folder = self.path.display();
        let problem = match before {
            Some(before) if before == now => return Ok(()),
            Some(_) => format!(
                "the training data are not those with which the run in {folder} began; restore them, or start anew with --force"
            ),
            None => format!(
                "the run in {folder} was begun by an older version, which noted its training data in another way; start anew \
                 with --force"
            ),
        };
        Err(Misuse(problem).into())
    }

    /// Files that only some runs leave.
    fn further(&self) -> Result<Vec<PathBuf>> {
        let reading = || format!("cannot read {}", self.path.display());
        let mut found = vec![];
        for entry in fs::read_dir(&self.path).with_context(reading)? {
            let entry = entry.with_context(reading)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let model = name.starts_with("model-") && name.ends_with(".safetensors");
            if model || [COMPONENTS, CLIENTS].contains(&&*name) {
                found.push(entry.path());
            }
        }
        Ok(found)
    }

    /// A further model of the run, from 2 on.
    pub(super) fn further_model(&self, number: usize) -> PathBuf {
        self.path.join(format!("model-{number}.safetensors"))
    }

    /// A further file of the run, whole or not at all.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        write_whole(&self.path().join(name), text.as_bytes())
    }

    /// Ends the run.
    pub(super) fn finish(&self, summary: &Value) -> Result<()> {
        write_whole(&self.summary(), format!("{summary:#}\n").as_bytes())
    }
}

/// Writes a file that is whole or absent.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    files::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The event log: one line of JSON per event. The process that holds it holds the run directory.
#[derive(Clone)]
pub(super) struct Log {
    file: Arc<Mutex<File>>,
    path: Arc<PathBuf>,
}

impl Log {
    fn open(path: PathBuf) -> Result<Log> {
        let options = File::options().create(true).append(true).read(true).open(&path);
        let file = options.with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            // Parallel file systems are often mounted without locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => {
                let folder = path.parent().unwrap_or(&path).display();
                let problem =
                    format!("another process is training in {folder}; wait for it, or set another name");
                return Err(Misuse(problem).into());
            }
        }
        Ok(Log {
            file: Arc::new(Mutex::new(file)),
            path: Arc::new(path),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends an event and sees to it that it survives a crash of the machine.
    pub(super) fn write(&self, event: &impl Event) -> io::Result<()> {
        let line = event.line()?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())?;
        file.sync_data()
    }

    /// Appends an event that may be lost if the machine crashes, but not if the process does.
    pub(super) fn note(&self, event: &impl Event) -> io::Result<()> {
        let line = event.line()?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())
    }

    /// A line that a crash tore must not tear the next one too.
    fn mend(&self) -> Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut torn = || -> io::Result<bool> {
            let mut last = [0u8];
            if file.metadata()?.len() == 0 {
                return Ok(false);
            }
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            Ok(last != *b"\n")
        };
        let shown = self.path.display();
        if torn().with_context(|| format!("cannot read {shown}"))? {
            file.write_all(b"\n")
                .with_context(|| format!("cannot write {shown}"))?;
        }
        Ok(())
    }

    fn clear(&self) -> Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.set_len(0)
            .with_context(|| format!("cannot empty {}", self.path.display()))
    }

    /// What happened until the end of epoch `epochs`. Epochs that are on record but not in the checkpoint come again.
    fn past(&self, epochs: usize) -> Result<Past> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = self.path.display();
        let length = file.metadata().map_or(0, |m| m.len());
        ensure!(
            length <= LARGEST_LOG,
            "{shown}: {length} bytes are no log of a run"
        );
        let mut bytes = vec![];
        file.read_to_end(&mut bytes)
            .with_context(|| format!("cannot read {shown}"))?;
        if bytes.last().is_some_and(|last| *last != b'\n') {
            // A line that a crash tore must not tear the next one too.
            file.write_all(b"\n")
                .with_context(|| format!("cannot write {shown}"))?;
        }
        let (mut start, mut reports) = (None, vec![None; epochs]);
        for line in bytes.split(|b| *b == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Recorded::Start { plan, data }) => start = Some((plan, data)),
                Ok(Recorded::Epoch(epoch)) => {
                    if let Some(place) = epoch.epoch.checked_sub(1).and_then(|e| reports.get_mut(e)) {
                        *place = Some(epoch.report());
                    }
                }
                _ => {}
            }
        }
        let reports: Option<Vec<EpochReport>> = reports.into_iter().collect();
        let (Some((plan, data)), Some(reports)) = (start, reports) else {
            bail!(
                "{shown} does not tell of all {epochs} epochs of the checkpoint; --force starts the run anew"
            );
        };
        Ok(Past { plan, data, reports })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_with_its_own_data_only() {
        let folder = Folder::new(Path::new("runs"), "one");
        let (own, other) = (Digest::of(b"own"), Digest::of(b"other"));
        assert!(folder.check_data(Some(own), own).is_ok());
        for (before, word) in [(Some(other), "restore them"), (None, "older version")] {
            let said = folder.check_data(before, own).expect_err("refused").to_string();
            assert!(said.contains(word) && said.contains("--force"), "{said}");
        }
    }
}
