//! The real binary, as a person runs it.

use std::path::Path;
use std::process::{Command, Output};

fn synod(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_synod"))
        .current_dir(folder)
        .args(args)
        .output()
        .expect("synod runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn demo_watches_a_cluster_and_leaves_a_report_and_detectors() {
    let folder = tempfile::tempdir().expect("a folder");
    let demo = synod(folder.path(), &["demo", "--nodes", "2", "--days", "16", "--json"]);
    assert!(demo.status.success(), "{}", text(&demo.stderr));
    let found: serde_json::Value = serde_json::from_slice(&demo.stdout).expect("one JSON document");
    let arms: Vec<&str> = found["arms"]
        .as_array()
        .expect("arms")
        .iter()
        .filter_map(|a| a["arm"].as_str())
        .collect();
    assert_eq!(arms, ["local", "federated", "pca", "paper"]);
    let run = folder.path().join("runs/demo");
    for file in [
        "report.html",
        "results.json",
        "alarms.jsonl",
        "config.toml",
        "models/0.safetensors",
    ] {
        assert!(run.join(file).is_file(), "no {file}");
    }
    // What the demo did can be done again by hand, to the same figures.
    let again = synod(folder.path(), &["backtest", "runs/demo.toml", "--json"]);
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).expect("one JSON document");
    assert_eq!(again["arms"][0]["mean"], found["arms"][0]["mean"]);
}

#[test]
fn graph_shows_every_pass_of_a_training_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = synod(
        folder.path(),
        &["graph", "autoencoder", "--train", "--batch", "10"],
    );
    assert!(graph.status.success(), "{}", text(&graph.stderr));
    let shown = text(&graph.stdout);
    for part in [
        "## traced",
        "## fuse updates",
        "densebackward",
        "## cost",
        "## memory",
        "arena",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    // In a training step nothing is copied: new weights take the place of the old.
    assert!(!shown.lines().any(|l| l.ends_with("copy")), "{shown}");
}

#[test]
fn graph_of_the_zoo_reports_cost_and_memory_as_json_and_draws_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = synod(
        folder.path(),
        &["graph", "autoencoder", "--batch", "10", "--json"],
    );
    let shown: serde_json::Value = serde_json::from_slice(&out.stdout).expect("one JSON document");
    assert_eq!(shown["parameters"], 107_740);
    // Two operations per weight and row, one per bias and row, one per activated output and row.
    let weights: u64 = 106_800;
    let outputs: u64 = 80 + 60 + 40 + 20 + 40 + 60 + 80 + 100 + 460;
    let activated = outputs - 460;
    assert_eq!(
        shown["flops"].as_u64(),
        Some(10 * (2 * weights + outputs + activated))
    );
    assert!(shown["arena_bytes"].as_u64() <= shown["max_live_bytes"].as_u64().map(|b| b + b / 10));
    let dot = synod(folder.path(), &["graph", "autoencoder", "--dot"]);
    assert!(text(&dot.stdout).starts_with("digraph"), "{}", text(&dot.stdout));
}

#[test]
fn mistakes_are_one_clear_line_and_an_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("bad"), b"not a model").expect("a file");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["graph", "nonsense"], 1, "neither a file nor a model of the zoo"),
        (&["graph", "bad"], 1, "not a safetensors file"),
        (
            &["graph", "autoencoder", "--batch", "0"],
            1,
            "--batch must be at least 1",
        ),
        (&["demo", "--days", "3"], 1, "--days must be at least 4"),
        (&["demo", "--days", "many"], 2, "invalid value"),
        (&["frobnicate"], 2, "unrecognized subcommand"),
    ];
    for (args, code, wanted) in cases {
        let out = synod(folder.path(), args);
        assert_eq!(out.status.code(), Some(code), "{args:?}: {}", text(&out.stderr));
        assert!(
            text(&out.stderr).contains(wanted),
            "{args:?}: {}",
            text(&out.stderr)
        );
        assert!(!text(&out.stderr).contains("panicked"), "{args:?}");
    }
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let folder = tempfile::tempdir().expect("a folder");
    for command in ["demo", "graph", "train", "backtest", "score", "generate"] {
        let out = synod(folder.path(), &[command, "--help"]);
        assert!(out.status.success());
        assert!(
            text(&out.stdout).contains(&format!("synod {command}")),
            "{}",
            text(&out.stdout)
        );
    }
}
