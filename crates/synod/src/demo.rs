//! `synod demo`: the main job in one command.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use synod_core::files;
use synod_runs::{Document, StartMode};

use crate::train::Misuse;
use crate::watch::{Request, run};

/// Generates a cluster with faults, learns each node's healthy behaviour, and shows the alarms and what they cost.
#[derive(Args)]
#[command(after_help = "Examples:
  synod demo                              20 nodes, 60 days: half to learn from, half to watch
  synod demo --nodes 70 --days 90
  synod demo --json | jq '.arms[] | {arm, f1: .mean.f1, false_alarms: .mean.false_alarms_per_node_month}'

Nodes learn alone and then together, exchanging sums only; docs/watch.md says how. The table also sets Synod's detector
beside two that are usual in papers: principal components, and the autoencoder of the Marconi100 paper, both alarmed at
the 98th percentile of their training errors. The report shows every alarm with the metrics behind it.")]
pub(crate) struct Demo {
    /// How many nodes.
    #[arg(long, default_value_t = 20)]
    nodes: usize,
    /// How many days of 15-minute windows; the first half is learnt from.
    #[arg(long, default_value_t = 60)]
    days: usize,
    /// The seed of everything random.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Where run directories go.
    #[arg(long, default_value = "runs")]
    runs: PathBuf,
    /// Go on after a crash, or show what a finished demo found.
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Start anew, over an earlier demo and its configuration.
    #[arg(long)]
    force: bool,
    /// One JSON document on standard output.
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub(crate) fn run(&self) -> Result<()> {
        ensure!(self.nodes >= 1, "--nodes must be at least 1");
        ensure!(
            self.days >= 4,
            "--days must be at least 4: half of them are learnt from"
        );
        let Demo {
            nodes, days, seed, ..
        } = self;
        let config = format!(
            "kind = \"watch\"\nname = \"demo\"\nseed = {seed}\n\n[data]\nkind = \"synthetic\"\nnodes = {nodes}\ndays = {days}\n\n\
             [split]\nkind = \"chronological\"\ntrain = 0.5\n\n[alarm]\nbudget = \"2 per node-month\"\n\n\
             [federation]\narms = [\"local\", \"federated\"]\n"
        );
        // The configuration of the demo is one that anyone could have written, and it stays to be changed.
        let path = self.runs.join("demo.toml");
        self.check(&path, &config)?;
        if !self.json {
            eprintln!(
                "A synthetic cluster of {nodes} nodes over {days} days, with faults whose truth is known."
            );
        }
        run(&Request {
            document: &Document::of(config.as_str(), &path)?,
            runs: &self.runs,
            start: StartMode::of(self.resume, self.force),
            compare: &["pca".to_owned(), "paper".to_owned()],
            ablation: false,
            both_splits: false,
            threads: None,
            nodes: false,
            json: self.json,
            keep_models: true,
        })?;
        files::write(&path, config.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        if !self.json {
            let mut out = std::io::stdout().lock();
            writeln!(out, "Change {} and run `synod backtest` on it.", path.display())?;
        }
        Ok(())
    }

    /// Refuses to replace a configuration that somebody has changed.
    fn check(&self, path: &Path, config: &str) -> Result<()> {
        let before = std::fs::read_to_string(path).ok();
        if !self.force && before.is_some_and(|before| before != config) {
            let problem = "is another configuration than this demo's; run synod backtest on it, or start anew with --force";
            return Err(Misuse(format!("{} {problem}", path.display())).into());
        }
        Ok(())
    }
}
