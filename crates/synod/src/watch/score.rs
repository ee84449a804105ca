//! `synod score`: trained detectors on new windows.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use synod_detect::{Calibrator, Change, Episodes, NodeModel};
use synod_runs::Document;
use synod_telemetry::Frame;
use synod_telemetry::sources::Table;

use super::config::Config;

/// Scores new windows with detectors that `synod train` left in a run directory, and explains the alarms.
#[derive(Args)]
#[command(after_help = "Examples:
  synod score runs/m100 today/*.parquet                  alarms of every node, with the metrics behind them
  synod score runs/m100 node10.csv --windows > scores.csv
  synod score runs/m100 new-node.parquet --as node10     with another node's detector
  synod score runs/m100 today/*.parquet --json | jq -c 'select(.alarms != [])'

A file belongs to the node of its name. Metrics that a detector knows and a file lacks count as silent; new metrics
are left out, and said to be.")]
pub(crate) struct ScoreCommand {
    /// A run directory with models.
    run: PathBuf,
    /// Files of one node each.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Use the detector of this node for all files.
    #[arg(long = "as")]
    node: Option<String>,
    /// A line per window: node, time, score, threshold, alarm.
    #[arg(long, conflicts_with = "json")]
    windows: bool,
    /// A JSON document per file.
    #[arg(long)]
    json: bool,
}

/// Metrics shown with an alarm.
const SHOWN: usize = 5;

impl ScoreCommand {
    pub(crate) fn run(&self) -> Result<()> {
        let config = Config::of(&Document::read(self.run.join("config.toml"))?)?;
        let (budget, data) = (config.alarm, config.table());
        let table = Table {
            label: None,
            exclude: data.exclude.into_iter().chain(data.label).collect(),
            ..data
        };
        let mut out = std::io::stdout().lock();
        if self.windows {
            writeln!(out, "node,time,score,threshold,alarm")?;
        }
        for file in &self.files {
            let loaded = table.load(file)?;
            let model = self.model(loaded.frame.node())?;
            let frame = &loaded.frame;
            let policy = Calibrator::new(model.reference(), budget, model.step());
            let (mut episodes, mut found, mut lines) = (Episodes::new(frame.node(), policy), vec![], vec![]);
            model.watch(frame, &mut |scored| {
                if let Some(Change::Closed(alarm)) = episodes.push(scored) {
                    found.push(alarm);
                }
                if let Some(verdict) = episodes.verdict().filter(|_| self.windows) {
                    let (node, alarm) = (frame.node(), u8::from(verdict.alarm));
                    let (time, score, threshold) = (scored.at, scored.score, verdict.threshold);
                    lines.push(format!("{node},{time},{score:.4},{threshold:.4},{alarm}"));
                }
            });
            found.extend(episodes.open().cloned());
            if self.windows {
                lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
                continue;
            }
            let (unknown, notes) = (new_metrics(&model, frame), &loaded.notes);
            if self.json {
                let document = json!({
                    "node": frame.node(), "windows": frame.rows(), "alarms": found, "new_metrics": unknown, "notes": notes,
                });
                writeln!(out, "{document}")?;
                continue;
            }
            let count = found.len();
            writeln!(
                out,
                "{}: {} windows, {count} alarm{}",
                frame.node(),
                frame.rows(),
                if count == 1 { "" } else { "s" }
            )?;
            notes.iter().try_for_each(|n| writeln!(out, "  note: {n}"))?;
            if !unknown.is_empty() {
                let (first, more) = (&unknown[0], unknown.len() - 1);
                writeln!(
                    out,
                    "  note: {first} and {more} more metrics are new and were not in training; they are left out"
                )?;
            }
            for alarm in found {
                let (from, hours) = (alarm.from, (alarm.to - alarm.from) as f64 / 3600.0);
                let p = alarm
                    .p_value
                    .map_or(String::new(), |p| format!(", p {}", small(p)));
                writeln!(
                    out,
                    "  from {} for {hours:.1} h: score {:.2}, threshold {:.2}{p}",
                    time(from),
                    alarm.peak,
                    alarm.threshold
                )?;
                for m in alarm.metrics.iter().take(SHOWN) {
                    let observed = m.observed.map_or("silent".to_owned(), |v| format!("{v:.4}"));
                    writeln!(
                        out,
                        "    {:40} {observed:>12}  expected {:>12.4}  {:>3.0} %",
                        m.metric,
                        m.expected,
                        100.0 * m.share
                    )?;
                }
            }
        }
        Ok(())
    }

    fn model(&self, node: &str) -> Result<NodeModel> {
        let models = self.run.join("models");
        let name = self.node.as_deref().unwrap_or(node);
        // A name is a name, not a way out of the folder.
        if Path::new(name).components().count() != 1 || name.starts_with('.') {
            bail!("{name:?} is no node's name");
        }
        let path = models.join(format!("{name}.safetensors"));
        if !path.exists() {
            let missing = "there is no detector of this node; train one, or use another node's with --as";
            bail!("{}: {missing}", path.display());
        }
        NodeModel::load(&path).with_context(|| format!("cannot use the detector of {name}"))
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

/// Seconds since 1970 as a person writes them, in UTC.
fn time(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (hour, minute) = (rest / 3600, rest % 3600 / 60);
    // The civil calendar, counted from 1 March of the year 0 in eras of 400 years.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 {
        (month + 3, year)
    } else {
        (month - 9, year + 1)
    };
    format!(
        "{:04}-{month:02}-{of_month:02} {hour:02}:{minute:02}",
        year + era * 400
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn small_shares_keep_two_digits() {
        let text = [1.0, 0.5, 0.02, 0.00057, 0.0].map(super::small);
        assert_eq!(text, ["1.00", "0.50", "0.020", "0.00057", "0.000000000000"]);
    }

    #[test]
    fn times_read_like_a_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_782_400, "2000-02-29 00:00"),
            (1_662_000_300, "2022-09-01 02:45"),
            (-60, "1969-12-31 23:59"),
        ] {
            assert_eq!(super::time(seconds), text);
        }
    }
}
