//! What happened in a run, in its order.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use synod_core::Event;

use crate::error::{Error, Result};

/// A log longer than this is not one of ours.
const LARGEST: u64 = 256 << 20;

/// The event log of a run: one line of JSON per event.
#[derive(Clone, Debug)]
pub struct Log {
    file: Arc<Mutex<File>>,
    path: Arc<PathBuf>,
}

impl Log {
    pub(super) fn open(path: PathBuf) -> Result<Log> {
        let options = File::options().create(true).append(true).read(true).open(&path);
        Ok(Log {
            file: Arc::new(Mutex::new(options.map_err(Error::io("open", &path))?)),
            path: Arc::new(path),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends an event and sees to it that it survives a crash of the machine.
    pub fn write(&self, event: &impl Event) -> io::Result<()> {
        let line = event.line()?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())?;
        file.sync_data()
    }

    /// Appends an event that may be lost if the machine crashes, but not if the process does.
    pub fn note(&self, event: &impl Event) -> io::Result<()> {
        let line = event.line()?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())
    }

    /// All events so far of a form. Lines of another form, or torn by a crash, are passed over.
    pub fn past<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let length = file.metadata().map_or(0, |about| about.len());
        if length > LARGEST {
            return Err(Error::Damaged {
                path: self.path.to_path_buf(),
                problem: format!(
                    "has {length} bytes, which no log of a run has; --force starts the run anew"
                ),
            });
        }
        let mut bytes = vec![];
        let read = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.read_to_end(&mut bytes));
        read.map_err(Error::io("read", &self.path))?;
        let lines = bytes.split(|byte| *byte == b'\n');
        Ok(lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }

    /// A line that a crash tore must not tear the next one too.
    pub(super) fn mend(&self) -> Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mend = || -> io::Result<()> {
            let mut last = [0u8];
            if file.metadata()?.len() == 0 {
                return Ok(());
            }
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            match last {
                [b'\n'] => Ok(()),
                _ => file.write_all(b"\n"),
            }
        };
        mend().map_err(Error::io("mend", &self.path))
    }

    pub(super) fn clear(&self) -> Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.set_len(0).map_err(Error::io("empty", &self.path))
    }
}
