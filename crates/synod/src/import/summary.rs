//! What an import did, for people and for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use synod_telemetry::windows::Counts;
use synod_telemetry::{Dropped, natural_order};

use super::labels::SiteLabels;

/// Names and notes that the text shows of each kind; JSON has all of them.
const SHOWN: usize = 8;

/// Figures and notes of an import.
#[derive(Default)]
pub(super) struct Summary {
    pub(super) nodes: usize,
    windows: usize,
    columns: usize,
    /// What became of samples, if the source gave samples.
    pub(super) samples: Option<Counts>,
    /// Metrics left out, by the reason.
    dropped: BTreeMap<String, BTreeSet<String>>,
    notes: Vec<String>,
    labels: Value,
    states: [usize; 4],
    sources: Vec<(String, usize)>,
}

impl Summary {
    /// Counts a node that was written.
    pub(super) fn count(&mut self, windows: usize, columns: usize) {
        self.nodes += 1;
        self.windows += windows;
        self.columns = self.columns.max(columns);
    }

    pub(super) fn dropped(&mut self, dropped: &[Dropped]) {
        for Dropped { metric, reason } in dropped {
            self.drop_one(metric, reason);
        }
    }

    pub(super) fn drop_one(&mut self, metric: &str, reason: &str) {
        match self.dropped.get_mut(reason) {
            Some(names) if names.contains(metric) => {}
            Some(names) => drop(names.insert(metric.to_owned())),
            None => drop(
                self.dropped
                    .insert(reason.to_owned(), BTreeSet::from([metric.to_owned()])),
            ),
        }
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(super) fn first_note(&self) -> Option<&str> {
        self.notes.first().map(String::as_str)
    }

    /// Takes over what became of labels.
    pub(super) fn labels(&mut self, labels: &SiteLabels) {
        let strangers = labels.strangers();
        if !strangers.is_empty() {
            let note = format!(
                "{} nodes have labels and no telemetry, such as {}; are they called otherwise there?",
                strangers.len(),
                some(strangers.iter().copied(), 3)
            );
            self.notes.push(note);
        }
        self.states = labels.windows;
        self.sources = labels.sources.iter().map(|(s, n)| (s.clone(), *n)).collect();
        let [maintenance, anomalous, healthy, unknown] = labels.windows;
        self.labels = json!({
            "healthy": healthy, "anomalous": anomalous, "maintenance": maintenance, "unknown": unknown,
            "decided_by": labels.sources,
        });
    }

    pub(super) fn show(&self, out: &Path, seconds: f64, as_json: bool) -> Result<()> {
        let mut to = std::io::stdout().lock();
        if as_json {
            return Ok(writeln!(to, "{}", self.json(out, seconds))?);
        }
        writeln!(
            to,
            "{}: {} nodes, {} windows of up to {} columns in {seconds:.1} s.",
            out.display(),
            self.nodes,
            self.windows,
            self.columns
        )?;
        if let Some(c) = self.samples {
            writeln!(
                to,
                "Samples: {} taken; dropped: {} late, {} duplicate, {} without a value.",
                c.taken, c.late, c.duplicate, c.missing
            )?;
        }
        let [maintenance, anomalous, healthy, unknown] = self.states;
        writeln!(
            to,
            "Windows: {healthy} healthy, {anomalous} anomalous, {maintenance} under maintenance, {unknown} unknown."
        )?;
        for (source, windows) in &self.sources {
            writeln!(to, "  {windows} decided by {source}")?;
        }
        for (reason, names) in &self.dropped {
            let shown = some(names.iter().map(String::as_str), SHOWN);
            writeln!(to, "Left out, {reason}: {shown}")?;
        }
        for note in self.notes.iter().take(SHOWN) {
            writeln!(to, "Note: {note}")?;
        }
        if self.notes.len() > SHOWN {
            writeln!(to, "{} more notes; --json has all.", self.notes.len() - SHOWN)?;
        }
        Ok(())
    }

    fn json(&self, out: &Path, seconds: f64) -> Value {
        let dropped: Vec<Value> = self
            .dropped
            .iter()
            .flat_map(|(reason, names)| {
                names
                    .iter()
                    .map(move |name| json!({"metric": name, "reason": reason}))
            })
            .collect();
        json!({
            "out": out, "nodes": self.nodes, "windows": self.windows, "columns": self.columns, "seconds": seconds,
            "samples": self.samples.map(|c| json!({
                "taken": c.taken, "late": c.late, "duplicate": c.duplicate, "missing": c.missing,
            })),
            "labels": self.labels, "dropped": dropped, "notes": self.notes,
        })
    }
}

/// The first names of a list, and how many more there are.
fn some<'a>(names: impl Iterator<Item = &'a str>, shown: usize) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_by(|a, b| natural_order(a, b));
    let more = names.len().saturating_sub(shown);
    names.truncate(shown);
    match more {
        0 => names.join(", "),
        _ => format!("{} and {more} more", names.join(", ")),
    }
}
