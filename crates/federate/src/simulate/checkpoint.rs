//! A federation's state in one file, from which it goes on to the same bits.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use synod_core::files;

use super::attend::Attendance;
use super::state::floats;
use super::{Simulation, SimulationSettings, Traffic};
use crate::client::ClientId;
use crate::error::{Error, Result};
use crate::strategy::Server;

const KEY: &str = "federation";
/// Files larger than this are not read.
const LARGEST: u64 = 64 << 30;

/// All but the vectors.
#[derive(Serialize, Deserialize)]
struct Meta {
    settings: SimulationSettings,
    round: u64,
    traffic: Traffic,
    diverged: u64,
    attendance: Attendance,
    /// For each shared model its version, and how many vectors its strategy remembers.
    servers: Vec<(u64, usize)>,
    versions: Vec<u64>,
    states: Vec<(ClientId, u64)>,
    /// What the caller wants to find again.
    note: String,
}

impl Simulation<'_> {
    /// Writes everything that the next round depends on, and a note of the caller's; the file is whole or absent.
    pub fn save(&self, path: &Path, note: &str) -> Result<()> {
        self.states.sync()?;
        let meta = Meta {
            settings: self.settings.clone(),
            round: self.round,
            traffic: self.traffic,
            diverged: self.diverged,
            attendance: self.attendance.clone(),
            servers: self.servers.iter().map(|s| (s.version, s.memory.len())).collect(),
            versions: self.versions.keys().copied().collect(),
            states: self.states.index().iter().map(|(c, r)| (*c, *r)).collect(),
            note: note.to_owned(),
        };
        let mut vectors: Vec<(String, &[f32])> = vec![];
        for (i, server) in self.servers.iter().enumerate() {
            vectors.push((format!("server.{i}"), &server.weights));
            for (j, memory) in server.memory.iter().enumerate() {
                vectors.push((format!("server.{i}.memory.{j}"), memory));
            }
        }
        vectors.extend(
            self.versions
                .iter()
                .map(|(v, weights)| (format!("version.{v}"), &weights[..])),
        );
        write(path, &vectors, &meta)?;
        // Only now is it certain that nobody goes on from older ones.
        self.states.tidy()
    }

    /// Goes on from a file that [`Simulation::save`] wrote with the same settings; returns the note.
    pub fn restore(&mut self, path: &Path) -> Result<String> {
        let length = fs::metadata(path).map_err(|e| Error::file(path, e))?.len();
        if length > LARGEST {
            return Err(Error::file(path, "too large for a checkpoint"));
        }
        let bytes = fs::read(path).map_err(|e| Error::file(path, e))?;
        let damaged = |what: &str| Error::file(path, format!("not a whole checkpoint: {what}"));
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| damaged(&e.to_string()))?;
        let text = header
            .metadata()
            .as_ref()
            .and_then(|m| m.get(KEY))
            .ok_or_else(|| damaged("no federation in it"))?;
        let meta: Meta = serde_json::from_str(text).map_err(|e| damaged(&e.to_string()))?;
        if meta.settings != self.settings {
            return Err(Error::file(
                path,
                "belongs to a federation with other settings; restore them, or begin anew",
            ));
        }
        let file = SafeTensors::deserialize(&bytes).map_err(|e| damaged(&e.to_string()))?;
        let len = self.servers[0].weights.len();
        let vector = |name: String| {
            floats(&file, &name)
                .filter(|v| v.len() == len)
                .ok_or_else(|| damaged(&name))
        };
        if meta.servers.len() != self.servers.len() {
            return Err(damaged("another number of models"));
        }
        let mut servers = vec![];
        for (i, (version, memory)) in meta.servers.iter().enumerate() {
            let memory = (0..(*memory).min(8)).map(|j| vector(format!("server.{i}.memory.{j}")));
            servers.push(Server {
                version: *version,
                memory: memory.collect::<Result<_>>()?,
                weights: vector(format!("server.{i}"))?,
                ..self.servers[i].clone()
            });
        }
        let versions = meta
            .versions
            .iter()
            .map(|v| Ok((*v, Arc::new(vector(format!("version.{v}"))?))));
        self.versions = versions.collect::<Result<BTreeMap<_, _>>>()?;
        self.servers = servers;
        self.round = meta.round;
        self.traffic = meta.traffic;
        self.diverged = meta.diverged;
        self.attendance = meta.attendance.restored();
        self.states.restore(meta.states.into_iter().collect());
        self.states.tidy()?;
        Ok(meta.note)
    }
}

fn write(path: &Path, vectors: &[(String, &[f32])], meta: &Meta) -> Result<()> {
    let failed = |e: &dyn std::fmt::Display| Error::file(path, e);
    let text = serde_json::to_string(meta).map_err(|e| failed(&e))?;
    let stored: Vec<(&str, Vec<u8>, usize)> = vectors
        .iter()
        .map(|(name, v)| {
            (
                name.as_str(),
                v.iter().flat_map(|x| x.to_le_bytes()).collect(),
                v.len(),
            )
        })
        .collect();
    let mut views = vec![];
    for (name, bytes, len) in &stored {
        views.push((
            *name,
            TensorView::new(Dtype::F32, vec![*len], bytes).map_err(|e| failed(&e))?,
        ));
    }
    let header = Some([(KEY.to_owned(), text)].into());
    let bytes = safetensors::serialize(views, header).map_err(|e| failed(&e))?;
    files::write(path, &bytes).map_err(|e| failed(&e))
}
