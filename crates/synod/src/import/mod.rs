//! `synod import`: telemetry of a site as record files, one per node.

mod kinds;
mod labels;
mod sources;
mod summary;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use synod_core::time::Duration;
use synod_telemetry::sources::records;
use synod_telemetry::{Frame, matches};

use crate::train::Misuse;
use labels::{LabelFiles, SiteLabels};
use summary::Summary;

/// Makes record files, one per node, of whatever a site recorded.
#[derive(Args)]
#[command(after_help = "Examples:
  synod import m100-raw M100 --out nodes                       all months and metrics of the raw M100 layout
  synod import m100 '0/*.parquet' --out nodes                  its windows by node, label `value`
  synod import table '*.csv' --label state --out nodes         any Parquet or CSV file per node, rows are windows
  synod import ldms 'meminfo*' 'vmstat*' --out nodes --keep mean
  synod import exposition 'scrapes/*/*.prom' --node-from folder --out nodes
  synod import ipmitool 'sdr/*.txt' --out nodes --nagios-log nagios.log --maintenance work.txt
  synod import prometheus http://monitor:9090 --query '{job=\"node\"}' \\
      --from 2025-06-01 --to 2025-06-08 --step 30s --out nodes

Nothing but open windows, a bounded number of closed ones and one node is in memory. What was left out is listed.
docs/telemetry.md describes the sources and how labels are merged.
Exit codes: 0 success, 1 failure, 2 a mistake in the call.")]
pub(crate) struct ImportTelemetry {
    #[command(subcommand)]
    source: kinds::Source,
}

/// Where windows go, what is known of them, and which metrics are wanted.
#[derive(Args)]
struct Target {
    /// The folder that gets NODE.record files; it must be empty or not exist.
    #[arg(long)]
    out: PathBuf,
    /// Patterns with * of the metrics to take; all if not given.
    #[arg(long)]
    include: Vec<String>,
    /// Patterns with * of the metrics to leave out.
    #[arg(long)]
    exclude: Vec<String>,
    #[command(flatten)]
    labels: LabelFiles,
    /// Write into a folder that is not empty; files of the same names are replaced, others stay.
    #[arg(long)]
    force: bool,
    /// One JSON document on standard output.
    #[arg(long)]
    json: bool,
}

/// An import on its way.
struct Import<'a> {
    target: &'a Target,
    labels: SiteLabels,
    summary: Summary,
    bar: ProgressBar,
}

impl ImportTelemetry {
    pub(crate) fn run(&self) -> Result<()> {
        let target = self.source.target();
        let mut import = Import {
            target,
            labels: target.labels.read()?,
            summary: Summary::default(),
            bar: bar(),
        };
        let began = std::time::Instant::now();
        self.source.check()?;
        claim(&target.out, target.force)?;
        self.source.import(&mut import)?;
        import.bar.finish_and_clear();
        let Import {
            labels, mut summary, ..
        } = import;
        if summary.nodes == 0 {
            let why = summary.first_note().unwrap_or("the source holds no numbers");
            anyhow::bail!("there is nothing to import: {why}");
        }
        // The files are synced; this makes their names durable too.
        if let Ok(folder) = std::fs::File::open(&target.out) {
            let _ = folder.sync_all();
        }
        summary.labels(&labels);
        summary.show(&target.out, began.elapsed().as_secs_f64(), target.json)
    }
}

impl Import<'_> {
    /// Labels a node's windows and writes its file.
    fn write(&mut self, frame: Frame, column: &str) -> synod_telemetry::Result<()> {
        let path = records::file(&self.target.out, frame.node())?;
        let truth = self.labels.truth(&frame, column);
        let frame = frame.with_truth(truth)?;
        records::save(&frame, path)?;
        self.summary.count(frame.rows(), frame.width());
        self.summary.dropped(frame.dropped());
        Ok(())
    }

    /// Why a metric is not wanted, if it is not.
    fn unwanted(&self, metric: &str) -> Option<String> {
        let fits = |pattern: &&String| matches(pattern, metric);
        if let Some(pattern) = self.target.exclude.iter().find(fits) {
            return Some(format!("excluded by {pattern:?}"));
        }
        let include = &self.target.include;
        let wanted = include.is_empty() || include.iter().any(|pattern| matches(pattern, metric));
        (!wanted).then(|| "not among the included".to_owned())
    }

    /// Begins a stage of so many steps.
    fn stage(&self, what: &'static str, steps: usize) {
        self.bar.set_message(what);
        self.bar.set_length(steps as u64);
        self.bar.set_position(0);
    }
}

/// Makes the folder, and refuses one that holds something.
fn claim(folder: &Path, force: bool) -> Result<()> {
    let shown = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("{shown}: cannot create the folder"))?;
    let mut entries =
        std::fs::read_dir(folder).with_context(|| format!("{shown}: cannot read the folder"))?;
    match entries.next().is_some() && !force {
        true => Err(Misuse(format!(
            "{shown} is not empty; name another folder, or write over it with --force"
        ))
        .into()),
        false => Ok(()),
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:12} [{bar:32}] {pos}/{len} {elapsed}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style.progress_chars("=> "))
}

/// Reads a file that is held in memory whole, and refuses one that is too large for that.
fn read(path: &Path) -> Result<Vec<u8>> {
    const LARGEST: u64 = 2 << 30;
    let reading = || format!("cannot read {}", path.display());
    let length = std::fs::metadata(path).with_context(reading)?.len();
    anyhow::ensure!(
        length <= LARGEST,
        "{}: {length} bytes are too many to read at once; split the file",
        path.display()
    );
    std::fs::read(path).with_context(reading)
}

/// When a file was last changed, in milliseconds since 1970.
fn changed(path: &Path) -> Result<i64> {
    let about = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    let since = about.modified()?.duration_since(std::time::UNIX_EPOCH);
    Ok(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

/// A time as the command line takes it, in milliseconds.
fn time(text: &str) -> Result<i64, String> {
    let wrong = || "write it as 2025-06-03T08:00Z, or as seconds since 1970".to_owned();
    synod_telemetry::parse_time(text).ok_or_else(wrong)
}

/// A duration as the command line takes it, in seconds.
fn duration(text: &str) -> Result<i64, String> {
    let time: Duration = text.parse().map_err(|e: synod_core::Error| e.to_string())?;
    match time.milliseconds() % 1000 {
        0 => Ok(time.whole_seconds()),
        _ => Err("give whole seconds, such as 30s, 15m or 1h".to_owned()),
    }
}
