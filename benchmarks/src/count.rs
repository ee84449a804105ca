//! Work on one synthetic node whose instructions are counted, and what came of it.
//!
//! `valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*counted*'` counts what `counted` does and nothing else.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;
use synod_detect::{AlarmBudget, Alone, History, NodeModel, Recipe, Scorer};
use synod_evaluate::{Backtest, Split};
use synod_synthetic::{Cluster, ClusterOptions};
use synod_telemetry::Frame;

/// What is counted.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// The fit of the default detector to the first half of the windows.
    Fit,
    /// The scores of the second half, at once.
    Score,
    /// The same, window by window.
    Push,
    /// Fit, scores and alarms of two nodes of a quarter of the time.
    Backtest,
}

/// One node after the other, split in the middle.
struct Halves(Vec<Frame>);

impl History for Halves {
    fn nodes(&self) -> usize {
        self.0.len()
    }

    fn node(&self, index: usize) -> synod_detect::Result<(Frame, Frame, Vec<String>)> {
        let (train, test) = Split::default().apply(&self.0[index], 1)?;
        Ok((train, test, vec![]))
    }
}

#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

/// Does the work once and prints what it came to, to the bit.
pub(crate) fn count(work: Work, days: usize) -> Result<()> {
    let cluster = Cluster::new(ClusterOptions {
        nodes: 2,
        days,
        seed: 7,
        ..ClusterOptions::default()
    })?;
    let recipe = Recipe::standard(7);
    let (train, test) = Split::default().apply(&cluster.node(0)?, 1)?;
    let scores = match work {
        Work::Fit => counted(|| NodeModel::fit(&train, &recipe))?.reference().to_vec(),
        Work::Score => {
            let model = NodeModel::fit(&train, &recipe)?;
            counted(|| model.score(&test)).total
        }
        Work::Push => {
            let model = Arc::new(NodeModel::fit(&train, &recipe)?);
            let mut scorer = Scorer::new(model);
            scorer.reads(test.metrics());
            let mut scores = Vec::with_capacity(test.rows());
            counted(|| -> Result<()> {
                for (row, at) in test.times().iter().enumerate() {
                    scores.push(scorer.push(*at, test.row(row))?.score);
                }
                Ok(())
            })?;
            scores
        }
        Work::Backtest => {
            let parts = (0..2).map(|i| cluster.node(i).map(|frame| frame.slice(0..frame.rows() / 2)));
            let history = Halves(parts.collect::<Result<_, _>>()?);
            let backtest = Backtest {
                alarm: AlarmBudget::default(),
                threads: 1,
                evidence: false,
            };
            let learner = Alone(recipe);
            let outcomes = counted(|| backtest.run(&history, &learner, &|| {}))?;
            let nodes = outcomes.iter().flat_map(|outcome| &outcome.nodes);
            nodes.flat_map(|n| n.scores.clone()).collect()
        }
    };
    crate::watch::emit(&json!({
        "work": work.to_possible_value().map(|v| v.get_name().to_owned()),
        "windows": scores.len(),
        "metrics": test.width(),
        "bits": format!("{:016x}", bits(&scores)),
    }))
}

/// A digest of the bits of some numbers (FNV-1a).
fn bits(values: &[f32]) -> u64 {
    let bytes = values.iter().flat_map(|v| v.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
