//! The folder of a run: what it leaves behind, and what it goes on from.

mod lock;
mod log;
mod models;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::Value;
use synod_core::files;

use self::lock::Lock;
pub use self::log::Log;
pub use self::models::{ModelEntry, Models, NodeModels, metrics_digest};
use crate::config::Document;
use crate::error::{Error, Result};

/// The file that holds principal components.
pub const COMPONENTS: &str = "components.json";
/// The file with a line for every client that was judged.
pub const CLIENTS: &str = "clients.jsonl";

const CONFIG: &str = "config.toml";
const EVENTS: &str = "events.jsonl";
const MODEL: &str = "model.safetensors";
const CHECKPOINT: &str = "checkpoint.safetensors";
/// What says that a run is over: of networks, and of detectors.
const SUMMARY: &str = "summary.json";
const RESULTS: &str = "results.json";
const ENDS: [&str; 2] = [SUMMARY, RESULTS];
/// What there is to go on from.
const MARKS: [&str; 2] = [CHECKPOINT, models::FOLDER];
/// The memories of clients.
const MEMORIES: &str = "clients";
/// What else some runs leave. The states of scoring belong to models, and go with them.
const FURTHER: [&str; 7] = [
    models::INDEX,
    MEMORIES,
    "state",
    COMPONENTS,
    CLIENTS,
    "alarms.jsonl",
    "report.html",
];

/// A run's folder, held by this process: no other can begin a run there, go on with it, or remove it.
///
/// Nothing in it is touched before it is held. One that was made for a run which never began is taken away again.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    lock: Lock,
    begun: AtomicBool,
}

/// How far the run of a folder has come.
#[derive(Clone, Debug, PartialEq)]
pub enum RunStanding {
    /// There is nothing to go on from.
    Empty,
    /// There is something to go on from, but no result.
    Unfinished,
    /// The result, as it was written.
    Finished(Value),
}

/// What whoever calls wants of a folder.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StartMode {
    /// A new run where there is none.
    New,
    /// To go on with what is there, or to begin if there is nothing.
    Resume,
    /// A new run in place of whatever is there.
    Force,
}

impl StartMode {
    /// What the switches of a command ask for.
    pub fn of(resume: bool, force: bool) -> StartMode {
        match (resume, force) {
            (_, true) => StartMode::Force,
            (true, _) => StartMode::Resume,
            _ => StartMode::New,
        }
    }
}

impl Folder {
    /// Takes hold of a folder, which is made if it is not there. Fails if another process holds it.
    pub fn hold(path: impl Into<PathBuf>) -> Result<Folder> {
        let path = path.into();
        Ok(Folder {
            lock: Lock::take(&path)?,
            path,
            begun: AtomicBool::new(false),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the run.
    pub fn name(&self) -> String {
        let name = self.path.file_name();
        name.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The best model so far.
    pub fn model(&self) -> PathBuf {
        self.path.join(MODEL)
    }

    /// A further model of the run, from 2 on.
    pub fn further_model(&self, number: usize) -> PathBuf {
        self.path.join(format!("model-{number}.safetensors"))
    }

    /// The model of the last epoch or round, with what training needs to go on.
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join(CHECKPOINT)
    }

    /// Where clients of a federation keep what they remember.
    pub fn memories(&self) -> PathBuf {
        self.path.join(MEMORIES)
    }

    /// How far its run has come.
    pub fn standing(&self) -> Result<RunStanding> {
        for end in ENDS {
            let path = self.path.join(end);
            match fs::read(&path) {
                Ok(bytes) => return result(&path, &bytes).map(RunStanding::Finished),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io("read", &path)(e)),
            }
        }
        Ok(match MARKS.iter().any(|mark| is_there(&self.path.join(mark))) {
            true => RunStanding::Unfinished,
            false => RunStanding::Empty,
        })
    }

    /// What there is to do for what is wanted: begin ([`RunStanding::Empty`]), go on, or show the result. A run is replaced only
    /// if that is wanted, and goes on only as it began.
    pub fn enter(&self, start: StartMode, document: &Document) -> Result<RunStanding> {
        if start == StartMode::Force {
            return Ok(RunStanding::Empty);
        }
        let standing = self.standing()?;
        match (&standing, start) {
            (RunStanding::Empty, _) => {}
            (_, StartMode::Resume) => self.check_same(document)?,
            (RunStanding::Finished(_), _) => {
                return Err(self.refused("holds a finished run; --force replaces it"));
            }
            (RunStanding::Unfinished, _) => {
                let problem = "holds an unfinished run; --resume goes on, --force starts anew";
                return Err(self.refused(problem));
            }
        }
        Ok(standing)
    }

    /// The error that refuses a call for what is in the folder.
    pub fn refused(&self, problem: impl Into<String>) -> Error {
        Error::Refused {
            folder: self.path.clone(),
            problem: problem.into(),
        }
    }

    /// Begins a run: whatever an earlier one left is removed.
    pub fn begin(&self, document: &Document) -> Result<Log> {
        self.begun.store(true, Ordering::Relaxed);
        let log = Log::open(self.path.join(EVENTS))?;
        self.sweep()?;
        // The result goes first: without it and the marks, a crash from here on leaves an empty run.
        for name in ENDS.into_iter().chain(MARKS).chain(FURTHER) {
            self.remove(&self.path.join(name))?;
        }
        self.models_of_networks()?
            .iter()
            .try_for_each(|model| self.remove(model))?;
        log.clear()?;
        self.write(CONFIG, document.text())?;
        Ok(log)
    }

    /// Goes on with the run.
    pub fn go_on(&self) -> Result<Log> {
        self.begun.store(true, Ordering::Relaxed);
        let log = Log::open(self.path.join(EVENTS))?;
        self.sweep()?;
        log.mend()?;
        Ok(log)
    }

    /// Writes a further file of the run, whole or not at all.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        files::write(&path, text.as_bytes()).map_err(Error::io("write", &path))
    }

    /// Ends a run of a network, and gives the result as it was written.
    pub fn finish(&self, summary: &impl Serialize) -> Result<Value> {
        self.end(SUMMARY, summary)
    }

    /// Ends a run of detectors, and gives the result as it was written.
    pub fn finish_with_results(&self, results: &impl Serialize) -> Result<Value> {
        self.end(RESULTS, results)
    }

    fn end(&self, name: &str, result: &impl Serialize) -> Result<Value> {
        let path = self.path.join(name);
        let value = serde_json::to_value(result);
        let value = value.map_err(|e| Error::io("write", &path)(e.into()))?;
        self.write(name, &format!("{value:#}\n"))?;
        Ok(value)
    }

    /// A run goes on only as it began, or its result would be that of no configuration.
    fn check_same(&self, document: &Document) -> Result<()> {
        let path = self.path.join(CONFIG);
        let began = fs::read_to_string(&path).map_err(Error::io("read what to go on with from", &path))?;
        match document.says_the_same_as(&began) {
            true => Ok(()),
            false => Err(self.refused(format!(
                "{} differs from the configuration with which the run began; restore it, set another `name`, or start anew \
                 with --force",
                document.path().display()
            ))),
        }
    }

    /// Removes what a killed process had begun to write.
    fn sweep(&self) -> Result<()> {
        for folder in [self.path.clone(), self.path.join(models::FOLDER)] {
            match files::sweep(&folder) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::io("tidy", &folder)(e)),
                _ => {}
            }
        }
        Ok(())
    }

    fn models_of_networks(&self) -> Result<Vec<PathBuf>> {
        let reading = || Error::io("read", &self.path);
        let mut found = vec![];
        for entry in fs::read_dir(&self.path).map_err(reading())? {
            let name = entry.map_err(reading())?.file_name();
            let name = name.to_string_lossy();
            if name == MODEL || (name.starts_with("model-") && name.ends_with(".safetensors")) {
                found.push(self.path.join(&*name));
            }
        }
        Ok(found)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let about = fs::symlink_metadata(path);
        let removed = match about {
            Ok(about) if about.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(e) => Err(e),
        };
        match removed {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("remove", path)(e)),
            _ => Ok(()),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.begun.load(Ordering::Relaxed) {
            self.lock.take_away();
        }
    }
}

/// Whether there is a file, or a folder with something in it.
fn is_there(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.exists(),
    }
}

fn result(path: &Path, bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|_| Error::Damaged {
        path: path.to_owned(),
        problem: "is damaged; --force starts the run anew".into(),
    })
}
