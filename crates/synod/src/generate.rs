//! `synod generate`: telemetry of a cluster that was never built.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use synod_core::parallel::try_in_order;
use synod_synthetic::{
    Cluster, ClusterOptions, FileFormat, ReportedMetrics, STEP, Statistics, Written, month_count,
    write_faults, write_node, write_raw,
};

use crate::train::Misuse;

/// Writes months of telemetry like Marconi100's, with faults whose truth is known, into a folder.
#[derive(Args)]
#[command(after_help = "Examples:
  synod generate cluster                                    70 nodes, 180 days, 460 columns each
  synod generate small --nodes 20 --days 60 --seed 7
  synod generate rare --anomalies 0.00035 --nodes 980       as rare as in RUAD's labels
  synod generate calm --drift 0 --heterogeneity 0           one room, one kind of node, no wandering
  synod generate lean --metrics ipmi --statistics avg       the board's sensors, means only
  synod generate raw --format raw --nodes 4 --days 7        every reading, in the raw M100 layout

The folder gets one file per node and faults.json, which says what was wrong with whom, when, and which metrics show it.
Labels in the files are those of operators: late, sometimes false, and unknown during maintenance. The same parameters
give the same bytes on every machine and with any number of threads.")]
pub(crate) struct Generate {
    /// The folder to write into; it must be empty or not exist.
    out: PathBuf,
    /// How many nodes, in racks of 20.
    #[arg(long, default_value_t = 70)]
    nodes: usize,
    /// How many days of 15-minute windows.
    #[arg(long, default_value_t = 180)]
    days: usize,
    /// The seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The share of windows inside a fault, 0 to 0.5.
    #[arg(long, default_value_t = 0.03)]
    anomalies: f64,
    /// How far room and workload wander over weeks: 0 not at all, 1 like the real ones.
    #[arg(long, default_value_t = 1.0)]
    drift: f64,
    /// How much nodes differ: 0 not at all, 1 like the real ones.
    #[arg(long, default_value_t = 1.0)]
    heterogeneity: f64,
    /// False labels per node and 30 days.
    #[arg(long, default_value_t = 0.5)]
    false_labels: f64,
    /// How it is written.
    #[arg(long, value_enum, default_value_t = Format::Parquet)]
    format: Format,
    /// Which metrics nodes report.
    #[arg(long, value_enum, default_value_t = Which::All)]
    metrics: Which,
    /// Which statistics of a window's readings are kept.
    #[arg(long, value_enum, default_value_t = Kept::All)]
    statistics: Kept,
    /// Threads; 0 for one per core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Write into a folder that is not empty; files of the same names are replaced.
    #[arg(long)]
    force: bool,
    /// One JSON document on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// M100 aggregated layout, a file per node.
    Parquet,
    /// Synod's record file, one per node.
    Record,
    /// M100 raw layout: every reading, a file per metric and month.
    Raw,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// 84 sensors of the board and 31 figures of the operating system.
    All,
    /// The board's sensors.
    Ipmi,
    /// Thirteen telling ones.
    Few,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum Kept {
    /// Mean, deviation, least and greatest.
    All,
    /// The mean.
    Avg,
}

impl Generate {
    pub(crate) fn run(&self) -> Result<()> {
        let cluster = Cluster::new(self.options()).map_err(|e| Misuse(e.to_string()))?;
        self.claim()?;
        let began = std::time::Instant::now();
        let written = match self.format {
            Format::Parquet => self.nodes(&cluster, FileFormat::Parquet)?,
            Format::Record => self.nodes(&cluster, FileFormat::Record)?,
            Format::Raw => self.raw(&cluster)?,
        };
        write_faults(&cluster, &self.out)?;
        self.show(&cluster, written, began.elapsed().as_secs_f64())
    }

    fn options(&self) -> ClusterOptions {
        ClusterOptions {
            nodes: self.nodes,
            days: self.days,
            seed: self.seed,
            anomalies: self.anomalies,
            drift: self.drift,
            heterogeneity: self.heterogeneity,
            false_labels: self.false_labels,
            metrics: match self.metrics {
                Which::All => ReportedMetrics::All,
                Which::Ipmi => ReportedMetrics::Ipmi,
                Which::Few => ReportedMetrics::Few,
            },
            statistics: match self.statistics {
                Kept::All => Statistics::All,
                Kept::Avg => Statistics::Average,
            },
            ..ClusterOptions::default()
        }
    }

    /// Makes the folder, and refuses one that holds something.
    fn claim(&self) -> Result<()> {
        let shown = self.out.display();
        std::fs::create_dir_all(&self.out).with_context(|| format!("{shown}: cannot create the folder"))?;
        let mut entries =
            std::fs::read_dir(&self.out).with_context(|| format!("{shown}: cannot read the folder"))?;
        match entries.next().is_some() && !self.force {
            true => Err(Misuse(format!(
                "{shown} is not empty; name another folder, or write over it with --force"
            ))
            .into()),
            false => Ok(()),
        }
    }

    /// A file per node, on threads that each take the next node.
    fn nodes(&self, cluster: &Cluster, layout: FileFormat) -> Result<Option<Written>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if self.threads == 0 { cores } else { self.threads };
        let bar = bar(self.nodes);
        let done = try_in_order(0..self.nodes, threads, |node| {
            let (_, written) = write_node(cluster, node, &self.out, layout)?;
            bar.inc(1);
            Ok::<Written, synod_telemetry::Error>(written)
        });
        bar.finish_and_clear();
        let mut total = Written::default();
        done?.iter().for_each(|written| add(&mut total, written));
        Ok(Some(total))
    }

    fn raw(&self, cluster: &Cluster) -> Result<Option<Written>> {
        let bar = bar(self.nodes * month_count(cluster));
        write_raw(cluster, &self.out, || bar.inc(1))?;
        bar.finish_and_clear();
        Ok(None)
    }

    fn show(&self, cluster: &Cluster, written: Option<Written>, seconds: f64) -> Result<()> {
        let mut faults = 0;
        for node in 0..self.nodes {
            faults += cluster.faults(node)?.len();
        }
        let bytes = size(&self.out)?;
        let mut out = std::io::stdout().lock();
        if self.json {
            return Ok(writeln!(
                out,
                "{}",
                self.summary(written, faults, bytes, seconds)
            )?);
        }
        let (megabytes, shown) = (bytes as f64 / 1e6, self.out.display());
        match written {
            Some(w) => writeln!(
                out,
                "{} nodes, {} windows of {} columns, {:.2} % labelled anomalous, {faults} faults.",
                self.nodes,
                w.windows,
                w.columns,
                100.0 * w.anomalous as f64 / w.windows.max(1) as f64
            )?,
            None => writeln!(
                out,
                "{} nodes, every reading of {} days, {faults} faults.",
                self.nodes, self.days
            )?,
        }
        Ok(writeln!(
            out,
            "{shown}: {megabytes:.0} MB in {seconds:.1} s; faults.json says what was wrong with whom."
        )?)
    }

    fn summary(&self, written: Option<Written>, faults: usize, bytes: u64, seconds: f64) -> Value {
        let w = written.unwrap_or_default();
        json!({
            "folder": self.out, "nodes": self.nodes, "days": self.days, "seed": self.seed, "faults": faults,
            "windows": written.map(|_| w.windows), "columns": written.map(|_| w.columns),
            "anomalous": written.map(|_| w.anomalous), "unknown": written.map(|_| w.unknown),
            "step": STEP, "bytes": bytes, "seconds": seconds,
        })
    }
}

fn add(total: &mut Written, node: &Written) {
    total.windows += node.windows;
    total.anomalous += node.anomalous;
    total.unknown += node.unknown;
    total.columns = total.columns.max(node.columns);
}

fn bar(length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:12} [{bar:32}] {pos}/{len} {elapsed}");
    let style = style
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    ProgressBar::new(length as u64)
        .with_style(style)
        .with_message("nodes")
}

/// Bytes of all files below a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        sum += if about.is_dir() {
            size(&entry.path())?
        } else {
            about.len()
        };
    }
    Ok(sum)
}
