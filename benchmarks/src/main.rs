//! Synod's side of the benchmarks: one workload per run, one JSON line out.
#![forbid(unsafe_code)]

mod count;
mod federation;
mod int8;
mod parity;
mod parity_ops;
mod tensors;
mod watch;
mod workloads;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use workloads::{autoencoder, products, profile, records, resnet, tasks};

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
    /// One window of each of many nodes, scored by detectors of their own on one thread.
    WatchScore {
        /// How many nodes.
        #[arg(long, default_value_t = 980)]
        nodes: usize,
        /// How often; the fastest counts.
        #[arg(long, default_value_t = 30)]
        reps: usize,
    },
    /// Work on a synthetic node of which callgrind counts the instructions.
    WatchCount {
        /// What is counted.
        work: count::Work,
        /// Days of windows, a quarter of an hour each; the first half is learnt from.
        #[arg(long, default_value_t = 24)]
        days: usize,
    },
    /// Detectors of 460 metrics, trained on two threads.
    WatchTrain {
        /// How many nodes.
        #[arg(long, default_value_t = 70)]
        nodes: usize,
        /// Windows of each.
        #[arg(long, default_value_t = 12_650)]
        rows: usize,
    },
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
    /// One epoch of the 2NN: 10,000 images of 28 x 28, SGD.
    #[command(name = "mlp-2nn")]
    Mlp2nn(Batch10),
    /// One epoch of the CNN: 1,000 images of 28 x 28, SGD.
    CnnMnist(Batch10),
    /// One epoch of the character model: 100 sequences of 80, SGD.
    CharLstm(Batch10),
    /// One step of ResNet-50 on images of 224 x 224, SGD with momentum.
    Resnet50Train {
        /// Images per step.
        #[arg(long, default_value_t = 8)]
        batch: usize,
        #[command(flatten)]
        common: Common,
    },
    /// What each op of a training step takes.
    Profile {
        /// A model of the zoo, such as `resnet50` or `cnn-mnist`.
        model: String,
        /// Examples per step.
        #[arg(long, default_value_t = 8)]
        batch: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Inference with ResNet-50 on images of 224 x 224.
    Resnet50Inference {
        /// Images at once.
        #[arg(long, default_value_t = 1)]
        batch: usize,
        /// With weights and activations of bytes.
        #[arg(long)]
        int8: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Writes the rows that `record-scan`, `pipeline` and their rivals read.
    MakeRecords {
        /// Where they go.
        #[arg(long)]
        data: PathBuf,
    },
    /// A scan of a million rows of 40 for a time range and a label.
    RecordScan {
        /// Where `make-records` wrote them.
        #[arg(long)]
        data: PathBuf,
        #[command(flatten)]
        common: Common,
    },
    /// An epoch of shuffled batches of a million rows of 40.
    Pipeline {
        /// Where `make-records` wrote them.
        #[arg(long)]
        data: PathBuf,
        /// Rows per batch.
        #[arg(long, default_value_t = 128)]
        batch: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Rounds of federated averaging with the paper's autoencoder.
    Federation(federation::Federation),
    /// Reads federations as JSON and prints the weights they end with, for comparison with other implementations.
    FederateCheck,
    /// Accuracy and size of MNIST's CNN in f32, in bytes by calibration, and in bytes by training aware of them.
    Int8(int8::Int8),
    /// Trains from given weights and data, so that any framework can be compared step for step.
    Parity(parity::Parity),
    /// Compares every op with another framework's results and gradients.
    ParityOps(parity_ops::ParityOps),
}

/// What the training of a small model takes.
#[derive(clap::Args, Clone, Copy)]
struct Batch10 {
    /// Examples per step.
    #[arg(long, default_value_t = 10)]
    batch: usize,
    #[command(flatten)]
    common: Common,
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
        Workload::WatchScore { nodes, reps } => watch::score(nodes, reps),
        Workload::WatchCount { work, days } => count::count(work, days),
        Workload::WatchTrain { nodes, rows } => watch::train(nodes, rows),
        Workload::Autoencoder { common } => autoencoder::train(started, common),
        Workload::AutoencoderInference { batch, common } => autoencoder::inference(batch, common),
        Workload::Gemm { m, n, k, common } => products::gemm(m, n, k, common),
        Workload::Mlp2nn(task) => tasks::train("mlp-2nn", task.batch, task.common),
        Workload::CnnMnist(task) => tasks::train("cnn-mnist", task.batch, task.common),
        Workload::CharLstm(task) => tasks::train("char-lstm", task.batch, task.common),
        Workload::Profile { model, batch, common } => profile::profile(&model, batch, common),
        Workload::Resnet50Train { batch, common } => resnet::train(batch, common),
        Workload::Resnet50Inference {
            batch,
            int8: false,
            common,
        } => resnet::infer(batch, common),
        Workload::Resnet50Inference { batch, common, .. } => resnet::infer_bytes(batch, common),
        Workload::MakeRecords { data } => records::make(&data),
        Workload::RecordScan { data, common } => records::scan(&data, common),
        Workload::Pipeline { data, batch, common } => records::pipeline(&data, batch, common),
        Workload::Federation(federation) => federation.run(),
        Workload::FederateCheck => federation::check(),
        Workload::Int8(int8) => int8.run(),
        Workload::Parity(parity) => parity.run(),
        Workload::ParityOps(parity) => parity.run(),
    }
}
