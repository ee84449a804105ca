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
fn demo_finds_the_injected_faults_and_stores_a_model_that_graph_reads_in_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let demo = synod(
        folder.path(),
        &[
            "demo",
            "--rows",
            "2000",
            "--epochs",
            "8",
            "--out",
            "m.safetensors",
            "--json",
        ],
    );
    assert!(demo.status.success(), "{}", text(&demo.stderr));
    let found: serde_json::Value = serde_json::from_slice(&demo.stdout).expect("one JSON document");
    let losses: Vec<f64> = found["losses"]
        .as_array()
        .expect("losses")
        .iter()
        .filter_map(|l| l.as_f64())
        .collect();
    assert_eq!(losses.len(), 8);
    assert!(losses[7] < losses[0] / 2.0, "{losses:?}");
    assert!(found["faults_found"].as_u64() >= Some(6), "{found}");

    let graph = synod(
        folder.path(),
        &["graph", "m.safetensors", "--train", "--batch", "10"],
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
        (&["demo", "--rows", "3"], 1, "--rows must be at least 100"),
        (&["demo", "--rows", "many"], 2, "invalid value"),
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
    for command in ["demo", "graph"] {
        let out = synod(folder.path(), &[command, "--help"]);
        assert!(out.status.success());
        assert!(
            text(&out.stdout).contains(&format!("synod {command}")),
            "{}",
            text(&out.stdout)
        );
    }
}
