//! `synod backtest`, and `synod train` on a configuration of what to watch.

mod choice;
mod config;
mod events;
mod federation;
mod history;
mod kept;
mod page;
mod plan;
mod progress;
mod results;
mod run;
mod score;
mod table;
mod trials;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use synod_runs::{Document, StartMode};

pub(crate) use run::{Request, run};
pub(crate) use score::ScoreCommand;

/// Tests detectors against a site's own history: fits them per node, scores what came after, judges the alarms.
#[derive(Args)]
#[command(after_help = "Examples:
  synod backtest experiments/smd.toml
  synod backtest experiments/smd.toml --compare pca,paper     the same split, other detectors beside it
  synod backtest experiments/smd.toml --ablation              what each part of the detector is worth
  synod backtest experiments/paper.toml --both-splits         why papers look better than practice
  synod backtest experiments/federated-synthetic.toml         nodes that learn alone and together
  synod backtest experiments/m100.toml --nodes --json | jq '.arms[0].mean.f1'

The run directory, NAME-backtest (or -ablation, -splits) beside that of synod train, gets config.toml, results.json,
alarms.jsonl and report.html.
A [grid] in the file runs every combination of its lists, such as alarm.percentile = [95, 98, 99]; a second call
goes on where the first stopped. docs/watch.md lists all settings.
Exit codes: 0 success, 1 failure, 2 a mistake in the call or the file.")]
pub(crate) struct BacktestCommand {
    /// What to watch, as a TOML file.
    config: PathBuf,
    /// Further detectors on the same split, alarmed at the 98th percentile of their training scores.
    #[arg(long, value_delimiter = ',')]
    compare: Vec<String>,
    /// The detector with one of its parts taken away or changed at a time.
    #[arg(long, conflicts_with = "compare")]
    ablation: bool,
    /// The same with both splits, in time and at random, side by side.
    #[arg(long, conflicts_with_all = ["compare", "ablation"])]
    both_splits: bool,
    /// A line per node.
    #[arg(long)]
    nodes: bool,
    /// Where run directories go.
    #[arg(long, default_value = "runs")]
    runs: PathBuf,
    /// Start anew, over an earlier backtest of the same name.
    #[arg(long)]
    force: bool,
    /// Threads; nodes are shared among them.
    #[arg(long)]
    threads: Option<usize>,
    /// One JSON document on standard output.
    #[arg(long)]
    json: bool,
}

impl BacktestCommand {
    pub(crate) fn run(&self) -> Result<()> {
        run(&Request {
            document: &Document::read(&self.config)?,
            runs: &self.runs,
            start: StartMode::of(false, self.force),
            compare: &self.compare,
            ablation: self.ablation,
            both_splits: self.both_splits,
            threads: self.threads,
            nodes: self.nodes,
            json: self.json,
            keep_models: false,
        })
    }
}
