//! `synod score`: trained detectors on new windows, going on from where the last call left.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::json;
use synod_core::time::Timestamp;
use synod_core::{Frame, NodeId, files};
use synod_detect::{Alarm, AlarmBudget, Calibrator, Change, Monitor, NodeModel, Standing};
use synod_runs::Document;
use synod_telemetry::sources::Table;

use super::config::Config;

/// Scores new windows with detectors that `synod train` left in a run directory, and explains the alarms.
#[derive(Args)]
#[command(after_help = "Examples:
  synod score runs/m100 today/*.parquet                  alarms of every node, with the metrics behind them
  synod score runs/m100 today/*.parquet --fail-on-alarm  exit code 3 when a node is in alarm
  synod score runs/m100 node10.csv --windows > scores.csv
  synod score runs/m100 node10.csv --fresh               as if nothing had been scored before
  synod score runs/m100 new-node.parquet --as node10     with another node's detector
  synod score runs/m100 today/*.parquet --json | jq -c 'select(.alarms != [])'

A file belongs to the node of its name. Scoring goes on from where the last call left, so day by day gives the alarms of
all days at once; windows that were scored before are passed over. What it goes on from lies in RUN/state.
Metrics that a detector knows and a file lacks count as silent; new metrics are left out, and said to be.
A file that cannot be scored is named, and the others are scored all the same.
Exit codes: 0 success, 1 failure of some file, 2 a mistake in the call, 3 in alarm (with --fail-on-alarm).")]
pub(crate) struct ScoreCommand {
    /// A run directory with models.
    run: PathBuf,
    /// Files of one node each.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Use the detector of this node for all files.
    #[arg(long = "as")]
    node: Option<NodeId>,
    /// Begin anew instead of going on from where the last call left.
    #[arg(long)]
    fresh: bool,
    /// Exit with 3 when some node is in alarm at its last window.
    #[arg(long)]
    fail_on_alarm: bool,
    /// A line per window: node, time, score, threshold, alarm.
    #[arg(long, conflicts_with = "json")]
    windows: bool,
    /// A JSON document per file.
    #[arg(long)]
    json: bool,
}

/// Metrics shown with an alarm.
const SHOWN: usize = 5;

/// What one file came to.
struct Found {
    node: String,
    windows: usize,
    /// Windows that an earlier call had scored.
    known: usize,
    /// The alarms that were open at some time of these windows, in order.
    alarms: Vec<Alarm>,
    /// A line per window, if asked for.
    lines: Vec<String>,
    new_metrics: Vec<String>,
    notes: Vec<String>,
}

impl ScoreCommand {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let config = Config::of(&Document::read(self.run.join("config.toml"))?)?;
        let (budget, data) = (config.alarm, config.table());
        let table = Table {
            label: None,
            exclude: data.exclude.into_iter().chain(data.label).collect(),
            ..data
        };
        let states = States::open(&self.run.join("state"), self.fresh)?;
        let mut out = std::io::stdout().lock();
        if self.windows {
            writeln!(out, "node,time,score,threshold,alarm")?;
        }
        let (mut failed, mut in_alarm) = (0, false);
        for file in &self.files {
            match self.score(file, &table, budget, &states) {
                Ok((found, monitor)) => {
                    // Told first: who is killed between the two is told again, and misses nothing.
                    self.show(&found, &mut out)?;
                    out.flush()?;
                    states.store(&monitor)?;
                    let last = found.alarms.last();
                    in_alarm |= last.is_some_and(|alarm| alarm.state == Standing::Standing);
                }
                Err(error) => {
                    failed += 1;
                    eprintln!("synod: {}: {error:#}", file.display());
                }
            }
        }
        if failed > 0 {
            eprintln!(
                "synod: {failed} of {} files could not be scored",
                self.files.len()
            );
        }
        Ok(match (self.fail_on_alarm && in_alarm, failed) {
            (true, _) => ExitCode::from(3),
            (false, 0) => ExitCode::SUCCESS,
            (false, _) => ExitCode::FAILURE,
        })
    }

    /// Scores what is new in a file.
    fn score(
        &self,
        file: &Path,
        table: &Table,
        budget: AlarmBudget,
        states: &States,
    ) -> Result<(Found, Monitor)> {
        let loaded = table.load(file)?;
        let (frame, node) = (&loaded.frame, NodeId::new(loaded.frame.node())?);
        let model = Arc::new(self.model(&node)?);
        let mut monitor = states.monitor(&node, &model, budget)?;
        let last = monitor.last();
        let known = last.map_or(0, |last| frame.times().partition_point(|time| *time <= last));
        let (mut alarms, mut lines): (Vec<Alarm>, _) = (vec![], vec![]);
        alarms.extend(monitor.episodes().open().cloned());
        monitor.advance(&frame.slice(known..frame.rows()), &mut |judged| {
            if let Some(change) = judged.change {
                take(&mut alarms, change);
            }
            if self.windows {
                let (at, score) = (judged.scored.at, judged.scored.score);
                let (threshold, alarm) = (judged.verdict.threshold, u8::from(judged.verdict.alarm));
                lines.push(format!("{node},{at},{score:.4},{threshold:.4},{alarm}"));
            }
        })?;
        // The open alarm has come further since it last changed.
        if let (Some(open), Some(last)) = (monitor.episodes().open(), alarms.last_mut()) {
            *last = open.clone();
        }
        let found = Found {
            windows: frame.rows() - known,
            known,
            alarms,
            lines,
            new_metrics: new_metrics(&model, frame),
            notes: loaded.notes,
            node: node.to_string(),
        };
        Ok((found, monitor))
    }

    fn model(&self, node: &NodeId) -> Result<NodeModel> {
        let name = self.node.as_ref().unwrap_or(node);
        let path = self.run.join("models").join(format!("{name}.safetensors"));
        if !path.exists() {
            let missing = "there is no detector of this node; train one, or use another node's with --as";
            bail!("{}: {missing}", path.display());
        }
        NodeModel::load(&path).with_context(|| format!("cannot use the detector of {name}"))
    }

    fn show(&self, found: &Found, out: &mut dyn Write) -> Result<()> {
        let before = format!("{} windows were scored before; --fresh begins anew", found.known);
        if self.windows {
            if found.known > 0 {
                eprintln!("synod: {}: {before}", found.node);
            }
            return Ok(found.lines.iter().try_for_each(|line| writeln!(out, "{line}"))?);
        }
        if self.json {
            let document = json!({
                "node": found.node, "windows": found.windows, "scored_before": found.known, "alarms": found.alarms,
                "new_metrics": found.new_metrics, "notes": found.notes,
            });
            return Ok(writeln!(out, "{document}")?);
        }
        let count = found.alarms.len();
        let plural = if count == 1 { "" } else { "s" };
        writeln!(
            out,
            "{}: {} windows, {count} alarm{plural}",
            found.node, found.windows
        )?;
        if found.known > 0 {
            writeln!(out, "  note: {before}")?;
        }
        found
            .notes
            .iter()
            .try_for_each(|note| writeln!(out, "  note: {note}"))?;
        if let Some((first, more)) = found.new_metrics.split_first() {
            let more = more.len();
            writeln!(
                out,
                "  note: {first} and {more} more metrics are new and were not in training; they are left out"
            )?;
        }
        found.alarms.iter().try_for_each(|alarm| print(alarm, out))?;
        Ok(())
    }
}

/// An alarm replaces what was known of it.
fn take(alarms: &mut Vec<Alarm>, change: Change) {
    let alarm = change.alarm();
    match alarms.iter_mut().find(|known| known.id == alarm.id) {
        Some(known) => *known = alarm.clone(),
        None => alarms.push(alarm.clone()),
    }
}

fn print(alarm: &Alarm, out: &mut dyn Write) -> Result<()> {
    let (from, hours) = (
        Timestamp::from_seconds(alarm.from),
        (alarm.to - alarm.from) as f64 / 3600.0,
    );
    let p = alarm
        .p_value
        .map_or(String::new(), |p| format!(", p {}", small(p)));
    let state = match alarm.state {
        Standing::Standing => ", still standing",
        Standing::Ended => "",
        Standing::Adopted => ", taken for usual since",
    };
    let (peak, threshold) = (alarm.peak, alarm.threshold);
    writeln!(
        out,
        "  from {from} for {hours:.1} h{state}: score {peak:.2}, threshold {threshold:.2}{p}"
    )?;
    for m in alarm.metrics.iter().take(SHOWN) {
        let observed = m.observed.map_or("silent".to_owned(), |v| format!("{v:.4}"));
        let (metric, expected, percent) = (&m.metric, m.expected, 100.0 * m.share);
        writeln!(
            out,
            "    {metric:40} {observed:>12}  expected {expected:>12.4}  {percent:>3.0} %"
        )?;
    }
    Ok(())
}

/// How far the nodes of a run have been scored. One process at a time has hold of it.
struct States {
    folder: PathBuf,
    fresh: bool,
    _lock: File,
}

impl States {
    fn open(folder: &Path, fresh: bool) -> Result<States> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join("lock");
        let lock = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "{}: another synod score goes on from here; wait until it is done",
                folder.display()
            ),
            Err(TryLockError::Error(e)) => {
                return Err(e).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        files::sweep(folder).with_context(|| format!("cannot tidy {}", folder.display()))?;
        Ok(States {
            folder: folder.to_owned(),
            fresh,
            _lock: lock,
        })
    }

    fn path(&self, node: &NodeId) -> PathBuf {
        self.folder.join(format!("{node}.state"))
    }

    /// The node as the last call left it, or as new.
    fn monitor(&self, node: &NodeId, model: &Arc<NodeModel>, budget: AlarmBudget) -> Result<Monitor> {
        let path = self.path(node);
        let reading = || format!("cannot read {}", path.display());
        let stored = match fs::metadata(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            _ if self.fresh => None,
            Err(e) => return Err(e).with_context(reading),
            Ok(found) => {
                ensure!(found.len() <= Monitor::LARGEST, "{}: is no state", path.display());
                Some(fs::read(&path).with_context(reading)?)
            }
        };
        match stored {
            None => {
                let policy = Calibrator::new(model.reference(), budget, model.step());
                Ok(Monitor::new(node.as_str(), model.clone(), policy))
            }
            Some(bytes) => Monitor::resume(node.as_str(), model.clone(), &bytes)
                .with_context(|| format!("{}: cannot go on from here; --fresh begins anew", path.display())),
        }
    }

    fn store(&self, monitor: &Monitor) -> Result<()> {
        let path = self.path(&NodeId::new(monitor.node())?);
        files::write(&path, &monitor.save()?).with_context(|| format!("cannot write {}", path.display()))
    }
}

fn new_metrics(model: &NodeModel, frame: &Frame) -> Vec<String> {
    let dropped = model.features().dropped();
    let known = |m: &&String| {
        model.features().names().any(|n| n == m.as_str()) || dropped.iter().any(|d| d.metric == **m)
    };
    frame.metrics().iter().filter(|m| !known(m)).cloned().collect()
}

/// A share with two digits that say something.
fn small(share: f64) -> String {
    let digits = (1.0 - share.log10().floor()).clamp(2.0, 12.0) as usize;
    format!("{share:.digits$}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn small_shares_keep_two_digits() {
        let text = [1.0, 0.5, 0.02, 0.00057, 0.0].map(super::small);
        assert_eq!(text, ["1.00", "0.50", "0.020", "0.00057", "0.000000000000"]);
    }
}
