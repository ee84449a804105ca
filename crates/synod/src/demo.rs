//! `synod demo`: an autoencoder learns what healthy looks like and finds what is not, on generated telemetry.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;
use synod_engine::ops::{Distribution, key};
use synod_engine::random;
use synod_nn::{
    Callback, Checkpoint, Data, Fit, Flow, History, Loss, Model, Optimizer, Progress, Report, zoo,
};

/// Trains the paper's autoencoder on generated telemetry of one node, then looks for injected faults in unseen rows.
#[derive(Args)]
#[command(after_help = "Examples:
  synod demo                         the default size, a few seconds
  synod demo --epochs 20 --seed 7    longer, another node
  synod demo --out model.safetensors --json")]
pub(crate) struct Demo {
    /// Healthy rows to learn from.
    #[arg(long, default_value_t = 4000)]
    rows: usize,
    /// Passes over them.
    #[arg(long, default_value_t = 10)]
    epochs: usize,
    /// The seed of data, initial weights and order.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Store the trained model here, after every epoch.
    #[arg(long)]
    out: Option<PathBuf>,
    /// One JSON document instead of text.
    #[arg(long)]
    json: bool,
}

const METRICS: usize = 460;
const FACTORS: usize = 4;
/// Rows in which a fault lasts.
const FAULT: usize = 12;

/// A node whose metrics follow a few hidden factors: load, temperature of the room, and so on.
struct Node {
    seed: u64,
    mix: Vec<f32>,
}

impl Node {
    fn new(seed: u64) -> Node {
        let draw = |i: usize| random(Distribution::Normal, key(seed as u32, 1).map(|h| h as u32), 11, i);
        Node {
            seed,
            mix: (0..METRICS * FACTORS).map(draw).collect(),
        }
    }

    fn noise(&self, stream: u32, i: usize) -> f32 {
        random(
            Distribution::Normal,
            key(self.seed as u32, stream).map(|h| h as u32),
            12,
            i,
        )
    }

    /// The metrics at time `t`, scaled to about 0..1.
    fn row(&self, t: usize, out: &mut Vec<f32>) {
        let factor = |f: usize| {
            let period = 40.0 + 37.0 * f as f32;
            (t as f32 / period * std::f32::consts::TAU).sin() + 0.3 * self.noise(2 + f as u32, t / 8)
        };
        let factors: [f32; FACTORS] = std::array::from_fn(factor);
        for m in 0..METRICS {
            let mixed: f32 = self.mix[m * FACTORS..][..FACTORS]
                .iter()
                .zip(&factors)
                .map(|(a, b)| a * b)
                .sum();
            out.push(0.5 + 0.5 * (0.5 * mixed).tanh() + 0.02 * self.noise(100, t * METRICS + m));
        }
    }

    fn rows(&self, from: usize, count: usize) -> Vec<f32> {
        let mut out = Vec::with_capacity(count * METRICS);
        (from..from + count).for_each(|t| self.row(t, &mut out));
        out
    }
}

/// Test rows with faults: in each a few metrics leave their relation to the others.
fn inject(node: &Node, rows: &mut [f32], faults: usize) -> Vec<bool> {
    let count = rows.len() / METRICS;
    let mut faulty = vec![false; count];
    for f in 0..faults {
        let start = (f + 1) * count / (faults + 1);
        for t in start..(start + FAULT).min(count) {
            faulty[t] = true;
            for j in 0..30 {
                let metric = (f * 97 + j * 13) % METRICS;
                rows[t * METRICS + metric] += 0.4 * node.noise(200 + f as u32, j).signum();
            }
        }
    }
    faulty
}

/// The root mean square error of each row.
fn errors(rows: &[f32], outputs: &[f32]) -> Vec<f32> {
    let error = |(x, y): (&[f32], &[f32])| {
        (x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum::<f32>() / METRICS as f32).sqrt()
    };
    rows.chunks(METRICS)
        .zip(outputs.chunks(METRICS))
        .map(error)
        .collect()
}

impl Demo {
    pub(crate) fn run(&self) -> Result<()> {
        ensure!(self.rows >= 100, "--rows must be at least 100");
        ensure!(self.epochs >= 1, "--epochs must be at least 1");
        let node = Node::new(self.seed);
        // The last quarter of the healthy rows sets the threshold and is not trained on.
        let (train, held) = (node.rows(0, self.rows), node.rows(self.rows, self.rows / 4));
        let mut test = node.rows(self.rows + self.rows / 4, self.rows / 2);
        let faults = 8;
        let faulty = inject(&node, &mut test, faults);
        let mut model = zoo::autoencoder(&zoo::PAPER, self.seed)?;
        let history = self.fit(&mut model, &train, &held)?;
        let mut healthy = errors(&held, &model.predict(&held)?);
        healthy.sort_by(f32::total_cmp);
        let threshold = healthy[(healthy.len() - 1) * 995 / 1000];
        let scores = errors(&test, &model.predict(&test)?);
        let alarm: Vec<bool> = scores.iter().map(|s| *s > threshold).collect();
        let hit = alarm.iter().zip(&faulty).filter(|(a, f)| **a && **f).count();
        let false_alarms = alarm.iter().zip(&faulty).filter(|(a, f)| **a && !**f).count();
        let found = (0..faults)
            .map(|f| (f + 1) * faulty.len() / (faults + 1))
            .filter(|&start| alarm[start..(start + FAULT).min(alarm.len())].contains(&true))
            .count();
        let (rows, bad) = (faulty.len(), faulty.iter().filter(|f| **f).count());
        let losses: Vec<f32> = history.epochs.iter().map(|e| e.loss).collect();
        let mut out = std::io::stdout().lock();
        if self.json {
            let line = json!({
                "losses": losses, "threshold": threshold, "test_rows": rows, "faulty_rows": bad, "rows_found": hit,
                "false_alarms": false_alarms, "faults": faults, "faults_found": found,
            });
            return Ok(writeln!(out, "{line}")?);
        }
        let (healthy, shown) = (rows - bad, model.layout().len());
        writeln!(
            out,
            "Trained {shown} parameters on {} generated healthy rows of {METRICS} metrics.",
            self.rows
        )?;
        writeln!(
            out,
            "Threshold {threshold:.4}: the 99.5th percentile of {} unseen healthy rows.",
            self.rows / 4
        )?;
        writeln!(
            out,
            "Faults injected: {faults}   found: {found}   (rows {bad}, found {hit})"
        )?;
        writeln!(out, "Healthy rows: {healthy}   false alarms: {false_alarms}")?;
        if let Some(path) = &self.out {
            writeln!(
                out,
                "Model: {}   (synod graph {} shows it)",
                path.display(),
                path.display()
            )?;
        }
        Ok(())
    }

    fn fit(&self, model: &mut Model, train: &[f32], held: &[f32]) -> Result<History> {
        let validation = Some(Data::itself(held, METRICS));
        let fit = Fit {
            epochs: self.epochs,
            batch: 10,
            seed: self.seed,
            validation,
            ..Fit::new(Loss::Rmse, Optimizer::rmsprop(1e-3))
        };
        let (mut bar, mut lines) = (Progress::new(), Lines);
        let mut checkpoint = self.out.as_ref().map(Checkpoint::new);
        let mut callbacks: Vec<&mut dyn Callback> = vec![&mut bar, &mut lines];
        callbacks.extend(checkpoint.as_mut().map(|c| c as &mut dyn Callback));
        Ok(model.fit(&Data::itself(train, METRICS), &fit, &mut callbacks)?)
    }
}

/// One line per epoch on standard error.
struct Lines;

impl Callback for Lines {
    fn on_epoch(&mut self, report: &Report, _: &Model) -> synod_nn::Result<Flow> {
        let Report {
            epoch,
            epochs,
            loss,
            seconds,
            rows,
            ..
        } = report;
        let held = report
            .validation
            .map_or(String::new(), |v| format!("  held out {v:.5}"));
        eprintln!(
            "epoch {epoch:3}/{epochs}  loss {loss:.5}{held}  {:.0} rows/s",
            *rows as f64 / seconds
        );
        Ok(Flow::Continue)
    }
}
