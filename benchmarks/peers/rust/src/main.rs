//! The Rust rivals: burn and candle on the autoencoder, the `gemm` and `faer` crates on matrix products.
//!
//! `peer-rust WORKLOAD --mode M [--threads N] [--batch B] [--reps R] [M N K]` prints one JSON line.

mod burn_peer;
mod candle_peer;
mod products;
mod workload;

use workload::{Args, Work};

fn main() {
    let args = Args::parse();
    args.pin();
    let (peer, mode, work): (&str, &str, Work) = match (args.workload.as_str(), args.mode.as_str()) {
        ("autoencoder", "burn") => ("burn", "flex", burn_peer::train(&args)),
        ("autoencoder", "candle") => ("candle", "cpu", candle_peer::train(&args)),
        ("autoencoder-inference", "burn") => ("burn", "flex", burn_peer::infer(&args)),
        ("autoencoder-inference", "candle") => ("candle", "cpu", candle_peer::infer(&args)),
        ("gemm", "gemm") => ("gemm", "crate", products::gemm(&args)),
        ("gemm", "faer") => ("faer", "crate", products::faer(&args)),
        (workload, mode) => {
            eprintln!("no {workload} in mode {mode:?}");
            std::process::exit(1);
        }
    };
    println!("{}", work.measure(&args).json(&args, peer, mode));
}
