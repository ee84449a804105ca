//! What clients remember from one round to the next.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use synod_core::files;

use crate::client::ClientId;
use crate::error::{Error, Result};

/// A client's memory. What no setting asks for stays empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    /// Its control variate.
    pub(super) variate: Vec<f32>,
    /// What compression has not yet sent.
    pub(super) residual: Vec<f32>,
    /// Weights that it does not share.
    pub(super) private: Vec<f32>,
    /// A model of its own.
    pub(super) personal: Vec<f32>,
}

impl State {
    fn parts(&self) -> [(&'static str, &Vec<f32>); 4] {
        [
            ("variate", &self.variate),
            ("residual", &self.residual),
            ("private", &self.private),
            ("personal", &self.personal),
        ]
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let stored: Vec<_> = self
            .parts()
            .map(|(name, values)| (name, values.len(), bytes(values)))
            .into();
        let views = stored
            .iter()
            .filter(|(_, len, _)| *len > 0)
            .map(|(name, len, bytes)| {
                Ok((
                    *name,
                    TensorView::new(Dtype::F32, vec![*len], bytes).map_err(damaged)?,
                ))
            });
        let views: Vec<(&str, TensorView<'_>)> = views.collect::<Result<_>>()?;
        safetensors::serialize(views, None).map_err(damaged)
    }

    fn from_bytes(bytes: &[u8]) -> Result<State> {
        let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
        let part = |name: &str| floats(&file, name).unwrap_or_default();
        Ok(State {
            variate: part("variate"),
            residual: part("residual"),
            private: part("private"),
            personal: part("personal"),
        })
    }
}

/// A vector of a file by name.
pub(super) fn floats(file: &SafeTensors<'_>, name: &str) -> Option<Vec<f32>> {
    let view = file.tensor(name).ok().filter(|v| v.dtype() == Dtype::F32)?;
    let number = |b: &[u8]| b.try_into().map_or(f32::NAN, f32::from_le_bytes);
    Some(view.data().chunks_exact(4).map(number).collect())
}

fn damaged(e: safetensors::SafeTensorError) -> Error {
    Error::Data(format!("a client's stored state is damaged: {e}"))
}

/// All clients' memories: in a folder, where a crash leaves those of the last checkpoint, or in memory without one.
pub(super) struct States {
    folder: Option<PathBuf>,
    held: Mutex<HashMap<ClientId, State>>,
    unsynced: Mutex<Vec<PathBuf>>,
    /// The round in which each client's state was written.
    written: BTreeMap<ClientId, u64>,
}

impl States {
    pub(super) fn new(folder: Option<PathBuf>) -> States {
        States {
            folder,
            held: Mutex::default(),
            unsynced: Mutex::default(),
            written: BTreeMap::new(),
        }
    }

    fn path(folder: &Path, client: ClientId, round: u64) -> PathBuf {
        folder.join(format!("{}-{round}.safetensors", client.0))
    }

    /// A client's memory as of the last round it took part in.
    pub(super) fn load(&self, client: ClientId) -> Result<State> {
        let Some(folder) = &self.folder else {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(held.get(&client).cloned().unwrap_or_default());
        };
        let Some(round) = self.written.get(&client) else {
            return Ok(State::default());
        };
        let path = States::path(folder, client, *round);
        let bytes = fs::read(&path).map_err(|e| Error::file(&path, e))?;
        State::from_bytes(&bytes)
    }

    /// Stores a client's memory of a round. It counts once [`States::commit`] has been called.
    pub(super) fn store(&self, client: ClientId, round: u64, state: State) -> Result<()> {
        let Some(folder) = &self.folder else {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.insert(client, state);
            return Ok(());
        };
        let path = States::path(folder, client, round);
        let write = || -> std::io::Result<Result<()>> {
            let bytes = match state.to_bytes() {
                Ok(bytes) => bytes,
                Err(e) => return Ok(Err(e)),
            };
            fs::create_dir_all(folder)?;
            let mut file = File::create(&path)?;
            file.write_all(&bytes)?;
            Ok(Ok(()))
        };
        write().map_err(|e| Error::file(&path, e))??;
        self.unsynced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(path);
        Ok(())
    }

    /// Sees to it that what was stored survives a crash of the machine. All at once, because only the first file then
    /// waits for the disk.
    pub(super) fn sync(&self) -> Result<()> {
        let paths = std::mem::take(&mut *self.unsynced.lock().unwrap_or_else(PoisonError::into_inner));
        for path in paths {
            let file = File::open(&path).and_then(|f| f.sync_data());
            match file {
                // A later round's state has taken its place.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                done => done.map_err(|e| Error::file(&path, e))?,
            }
        }
        match self.folder.as_ref().filter(|folder| folder.exists()) {
            Some(folder) => files::sync_folder(folder).map_err(|e| Error::file(folder, e)),
            None => Ok(()),
        }
    }

    /// From now on the states of `round` are the clients' latest.
    pub(super) fn commit(&mut self, clients: impl Iterator<Item = ClientId>, round: u64) {
        if self.folder.is_some() {
            self.written.extend(clients.map(|c| (c, round)));
        }
    }

    /// The round of each client's latest state, for a checkpoint.
    pub(super) fn index(&self) -> &BTreeMap<ClientId, u64> {
        &self.written
    }

    /// Goes on from a checkpoint's index.
    pub(super) fn restore(&mut self, index: BTreeMap<ClientId, u64>) {
        self.written = index;
    }

    /// Removes the files that the index, which a checkpoint holds by now, does not name.
    pub(super) fn tidy(&self) -> Result<()> {
        let Some(folder) = self.folder.as_ref().filter(|f| f.exists()) else {
            return Ok(());
        };
        let entries = fs::read_dir(folder).map_err(|e| Error::file(folder, e))?;
        for path in entries.flatten().map(|e| e.path()) {
            let stem = path
                .file_stem()
                .map(|s| s.to_string_lossy().into_owned())
                .unwrap_or_default();
            let named = stem
                .split_once('-')
                .and_then(|(c, r)| Some((c.parse().ok()?, r.parse().ok()?)));
            let kept = named.is_some_and(|(c, r): (u64, u64)| self.written.get(&ClientId(c)) == Some(&r));
            if !kept {
                fs::remove_file(&path).map_err(|e| Error::file(&path, e))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_counts_once_committed_and_older_ones_are_then_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut states = States::new(Some(folder.path().join("states")));
        let client = ClientId(7);
        let state = |x: f32| State {
            variate: vec![x; 3],
            private: vec![x],
            ..State::default()
        };
        assert_eq!(states.load(client).expect("none yet"), State::default());
        states.store(client, 1, state(1.0)).expect("stored");
        states.commit([client].into_iter(), 1);
        states
            .store(client, 2, state(2.0))
            .expect("stored, not committed");
        assert_eq!(states.load(client).expect("loaded"), state(1.0));
        let mut again = States::new(Some(folder.path().join("states")));
        again.restore(states.index().clone());
        again.tidy().expect("tidied");
        assert_eq!(
            again.load(client).expect("loaded"),
            state(1.0),
            "what the crash left uncommitted is gone"
        );
        again.store(client, 2, state(3.0)).expect("stored");
        again.commit([client].into_iter(), 2);
        again.tidy().expect("tidied");
        assert_eq!(again.load(client).expect("loaded"), state(3.0));
        assert_eq!(
            fs::read_dir(folder.path().join("states"))
                .expect("listed")
                .count(),
            1
        );
    }
}
