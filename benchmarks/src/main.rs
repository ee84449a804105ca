//! Synod's side of the benchmarks: one workload per run, one JSON line out.
#![forbid(unsafe_code)]

mod parity;
mod parity_ops;
mod tensors;
mod workloads;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Runs one workload and prints what it took.
///
/// Example: synod-benchmarks autoencoder --threads 1 --reps 5 --json
#[derive(Parser)]
#[command(version, about, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// One epoch of the paper's autoencoder: 10,120 rows of 460, batch 10, RMSprop, f32.
    Autoencoder {
        #[command(flatten)]
        common: Common,
    },
    /// Inference with the paper's autoencoder.
    AutoencoderInference {
        /// Rows at once.
        #[arg(long, default_value_t = 1)]
        batch: usize,
        #[command(flatten)]
        common: Common,
    },
    /// A matrix product of M x K and K x N.
    Gemm {
        /// Rows of the result.
        m: usize,
        /// Columns of the result.
        n: usize,
        /// The summed extent.
        k: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Trains from given weights and data, so that any framework can be compared step for step.
    Parity(parity::Parity),
    /// Compares every op with another framework's results and gradients.
    ParityOps(parity_ops::ParityOps),
}

/// What every workload takes.
#[derive(clap::Args, Clone, Copy)]
struct Common {
    /// Threads; training runs that many independent clients at once.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Repetitions after the warm-up.
    #[arg(long, default_value_t = 5)]
    reps: usize,
    /// Print JSON (always the case; accepted for symmetry with `synod`).
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let started = std::time::Instant::now();
    match Cli::parse().workload {
        Workload::Autoencoder { common } => workloads::autoencoder(started, common),
        Workload::AutoencoderInference { batch, common } => workloads::inference(batch, common),
        Workload::Gemm { m, n, k, common } => workloads::gemm(m, n, k, common),
        Workload::Parity(parity) => parity.run(),
        Workload::ParityOps(parity) => parity.run(),
    }
}
