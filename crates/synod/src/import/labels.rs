//! What a site says of its nodes, and what becomes of each window of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use synod_telemetry::labels::{
    LabelInterval, Maintenance, Severity, State, maintenance, merge, nagios_log, nagios_status,
    parse_maintenance, sinfo_json,
};
use synod_telemetry::{Frame, Truth};

use super::{changed, read, time};

/// Files that say which nodes were healthy when.
#[derive(Args)]
#[command(next_help_heading = "Labels")]
pub(super) struct LabelFiles {
    /// Nagios' status.dat: hard states since their last change, and downtimes.
    #[arg(long, value_name = "FILE")]
    nagios_status: Vec<PathBuf>,
    /// Nagios' log: every change of a hard state, and downtimes.
    #[arg(long, value_name = "FILE")]
    nagios_log: Vec<PathBuf>,
    /// What sinfo --json printed: drained and down nodes since their reason was set.
    #[arg(long, value_name = "FILE")]
    sinfo_json: Vec<PathBuf>,
    /// When sinfo printed it; otherwise when its file was last changed.
    #[arg(long, value_name = "TIME", value_parser = time)]
    sinfo_time: Option<i64>,
    /// Planned work, a line each: nodes, from, to, reason.
    #[arg(long, value_name = "FILE")]
    maintenance: Vec<PathBuf>,
}

/// All that is said of nodes, and what was done with it.
#[derive(Default)]
pub(super) struct SiteLabels {
    intervals: HashMap<String, Vec<LabelInterval>>,
    work: Vec<Maintenance>,
    seen: BTreeSet<String>,
    /// Windows by what decided them: maintenance, anomalous, healthy, unknown or nothing said.
    pub(super) windows: [usize; 4],
    /// Windows that each source decided.
    pub(super) sources: BTreeMap<String, usize>,
}

impl LabelFiles {
    pub(super) fn read(&self) -> Result<SiteLabels> {
        let mut labels = SiteLabels::default();
        for path in &self.nagios_status {
            labels.add(nagios_status(&read(path)?, path, Severity::default())?);
        }
        for path in &self.nagios_log {
            let found = nagios_log(&read(path)?, Severity::default());
            anyhow::ensure!(
                !found.is_empty(),
                "{}: it says nothing of any host; is it a log of Nagios?",
                path.display()
            );
            labels.add(found);
        }
        for path in &self.sinfo_json {
            let now = self.sinfo_time.map_or_else(|| changed(path), Ok)?;
            labels.add(sinfo_json(&read(path)?, path, now.div_euclid(1000))?);
        }
        for path in &self.maintenance {
            let text = String::from_utf8_lossy(&read(path)?).into_owned();
            labels.work.extend(parse_maintenance(&text, path)?);
        }
        Ok(labels)
    }
}

impl SiteLabels {
    fn add(&mut self, intervals: Vec<LabelInterval>) {
        for interval in intervals {
            let of = self.intervals.entry(interval.node.clone()).or_default();
            of.push(interval);
        }
    }

    /// Adds intervals that decide before others that say the same.
    pub(super) fn add_first(&mut self, intervals: Vec<LabelInterval>) {
        let others = std::mem::take(&mut self.intervals);
        self.add(intervals);
        others.into_values().for_each(|said| self.add(said));
    }

    /// The truth of a node's windows. What the frame itself says, from `column`, counts as said by one more source, first.
    pub(super) fn truth(&mut self, frame: &Frame, column: &str) -> Vec<Truth> {
        self.seen.insert(frame.node().to_owned());
        let mut intervals = self.intervals.get(frame.node()).cloned().unwrap_or_default();
        intervals.extend(maintenance(&self.work, &[frame.node()]));
        let merged = merge(frame, &intervals);
        let mut truth = Vec::with_capacity(frame.rows());
        for (own, decided) in frame.truth().iter().zip(&merged.decided_by) {
            let own = match own {
                Truth::Healthy => Some(State::Healthy),
                Truth::Anomalous => Some(State::Anomalous),
                Truth::Unknown => None,
            };
            let said = decided.and_then(|i| intervals.get(i));
            let state = own.max(said.map(|i| i.state));
            let source = match said.filter(|i| own < Some(i.state)) {
                Some(interval) => Some(interval.source.clone()),
                None => own.map(|_| format!("column {column}")),
            };
            self.windows[3 - state.unwrap_or(State::Unknown) as usize] += 1;
            if let Some(source) = source {
                *self.sources.entry(source).or_default() += 1;
            }
            truth.push(state.map_or(Truth::Unknown, State::truth));
        }
        truth
    }

    /// Nodes that something is said of and that had no telemetry.
    pub(super) fn strangers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.intervals.keys().map(String::as_str).collect();
        names.retain(|name| !self.seen.contains(*name));
        names.sort_by(|a, b| synod_telemetry::natural_order(a, b));
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(from: i64, to: i64, state: State) -> LabelInterval {
        LabelInterval {
            node: "n1".to_owned(),
            from,
            to,
            state,
            source: "somebody".to_owned(),
            reason: String::new(),
        }
    }

    #[test]
    fn a_files_own_labels_are_one_source_among_others() -> Result<()> {
        let truth = [
            Truth::Healthy,
            Truth::Anomalous,
            Truth::Unknown,
            Truth::Anomalous,
            Truth::Unknown,
        ];
        // Rows closer than the step must not take each other's labels.
        let times = vec![0, 50, 100, 200, 300];
        let frame = Frame::new("n1", 100, times, Vec::new(), Vec::new())?.with_truth(truth.to_vec())?;
        let mut labels = SiteLabels::default();
        assert_eq!(labels.truth(&frame, "state"), truth);
        labels.add(vec![
            said(0, 160, State::Healthy),
            said(200, 201, State::Maintenance),
        ]);
        let merged = labels.truth(&frame, "state");
        assert_eq!(
            merged,
            [
                Truth::Healthy,
                Truth::Anomalous,
                Truth::Healthy,
                Truth::Unknown,
                Truth::Unknown
            ]
        );
        assert_eq!(labels.sources["column state"], 3 + 2);
        assert_eq!(labels.sources["somebody"], 2);
        assert_eq!(labels.windows, [1, 3, 3, 3]);
        Ok(())
    }
}
