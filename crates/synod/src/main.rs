//! Synod's command line: wiring and nothing else.
#![forbid(unsafe_code)]

mod demo;
mod export;
mod generate;
mod graph;
mod import;
mod import_model;
mod train;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Nodes that learn together: a deep-learning engine, federated learning and anomaly detection for HPC clusters.
#[derive(Parser)]
#[command(version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Generate(generate::Generate),
    Graph(graph::GraphCommand),
    Import(import::ImportTelemetry),
    Train(train::Train),
    Backtest(watch::BacktestCommand),
    Score(watch::ScoreCommand),
    Export(export::ExportCommand),
    ImportModel(import_model::ImportCommand),
}

fn main() -> ExitCode {
    let success = |()| ExitCode::SUCCESS;
    let done = match Cli::parse().command {
        Command::Demo(demo) => demo.run().map(success),
        Command::Generate(generate) => generate.run().map(success),
        Command::Graph(graph) => graph.run().map(success),
        Command::Import(import) => import.run().map(success),
        Command::Train(train) => train.run().map(success),
        Command::Backtest(backtest) => backtest.run().map(success),
        Command::Score(score) => score.run(),
        Command::Export(export) => export.run().map(success),
        Command::ImportModel(import) => import.run().map(success),
    };
    match done {
        Ok(code) => code,
        // A reader that closes the pipe early, such as `head`, is not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("synod: {error:#}");
            match is_misuse(&error) {
                true => ExitCode::from(2),
                false => ExitCode::FAILURE,
            }
        }
    }
}

fn is_misuse(error: &anyhow::Error) -> bool {
    let run: Option<&synod_runs::Error> = error.downcast_ref();
    error.is::<train::Misuse>() || run.is_some_and(synod_runs::Error::is_misuse)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}
