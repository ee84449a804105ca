//! `synod train` with a `[federation]`, as a person runs it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Three clouds in the plane, 600 rows to learn from and 150 to judge by.
fn rows(folder: &Path) {
    let mut state = 7u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    for (name, count) in [("train", 600), ("test", 150)] {
        let mut text = "class,x,y\n".to_owned();
        for i in 0..count {
            let (x, y) = [(0.0, 0.0), (3.0, 0.0), (0.0, 3.0)][i % 3];
            text += &format!("{},{},{}\n", i % 3, x + 1.6 * noise(), y + 1.6 * noise());
        }
        fs::write(folder.join(format!("{name}.csv")), text).expect("written");
    }
}

fn config(folder: &Path, federation: &str) {
    let text = format!(
        r#"
kind = "train"
name = "clouds"
seed = 3
[data]
kind = "csv"
train = "train.csv"
test = "test.csv"
label = "class"
[model]
hidden = [8]
[train]
epochs = 1
batch = 10
optimizer = "sgd"
rate = 0.05
{federation}
"#
    );
    fs::write(folder.join("clouds.toml"), text).expect("written");
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_synod"));
    command
        .current_dir(folder)
        .args(["train", "clouds.toml"])
        .args(arguments);
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("started")
}

fn summary(folder: &Path, arguments: &[&str]) -> Value {
    let output = run(folder, &[arguments, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn folder(federation: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    rows(folder.path());
    config(folder.path(), federation);
    folder
}

#[test]
fn a_federation_learns_and_says_what_it_sent_and_whom_it_lost() {
    let federation = "[federation]\nclients = 20\nrounds = 40\nfraction = 0.3\npartition = { shards = 2 }\nholdout = 0.2\n\
        compression = \"8-bit\"\npersonal = { kind = \"fine-tune\", epochs = 2 }\nbehaviour = { crash = 0.2, straggle = 0.2 }";
    let folder = folder(federation);
    let said = summary(folder.path(), &[]);
    assert!(said["accuracy"].as_f64() > Some(0.8), "{said}");
    assert_eq!(said["rounds"], 40);
    assert!(said["tally"]["reported"].as_u64() >= Some(200) && said["tally"]["failed"].as_u64() > Some(0));
    let traffic = |key: &str| said["traffic"][key].as_f64().expect("counted");
    assert!(traffic("up") < 0.6 * traffic("up_in_full"));
    assert_eq!(said["per_client"]["clients"], 20);
    assert!(said["per_client"]["own"]["mean"].as_f64() >= said["per_client"]["shared"]["mean"].as_f64());
    let shown = run(folder.path(), &["--force"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("Accuracy") && shown.contains("straggled") && shown.contains("MB up"),
        "{shown}"
    );
}

#[test]
fn where_no_model_is_shared_whole_clients_judge_what_they_have() {
    let table = |personal: &str| {
        format!(
            "[federation]\nclients = 12\nrounds = 20\nfraction = 0.5\npartition = {{ shards = 2 }}\npersonal = {personal}"
        )
    };
    let fedper = table(r#"{ kind = "fedper", private = ["layer1.*"] }"#);
    let folder = folder(&fedper);
    let refused = run(folder.path(), &[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("holdout = 0.2"), "{said}");
    config(folder.path(), &(fedper + "\nholdout = 0.2\ntarget = 0.9"));
    let said = summary(folder.path(), &[]);
    assert_eq!(said["measured_on"], "clients' held-back");
    assert!(
        said["accuracy"].as_f64() > Some(0.85) && said["rounds_to_target"].is_number(),
        "{said}"
    );
    assert!(said["per_client"]["shared"].is_null() && said["per_client"]["own"]["mean"].is_number());
    let lines = |runs: &Path| fs::read_to_string(runs.join("clouds/clients.jsonl")).expect("written");
    let clients = lines(&folder.path().join("runs"));
    assert_eq!(clients.lines().count(), 12);
    let first: Value = serde_json::from_str(clients.lines().next().expect("a line")).expect("JSON");
    assert!(
        first["rows"] == 10 && first["shared"].is_null() && first["own"].is_number(),
        "{first}"
    );
    config(
        folder.path(),
        &(table(r#"{ kind = "ifca", clusters = 2 }"#) + "\nholdout = 0.2"),
    );
    let said = summary(folder.path(), &["--force"]);
    assert_eq!(said["models"], 2);
    let second = folder.path().join("runs/clouds/model-2.safetensors");
    assert!(second.exists());
    config(folder.path(), "[federation]\nclients = 12\nrounds = 2");
    summary(folder.path(), &["--force"]);
    assert!(
        !second.exists() && !folder.path().join("runs/clouds/clients.jsonl").exists(),
        "nothing is left of before"
    );
}

#[test]
fn a_federation_that_is_killed_goes_on_to_the_same_bits() {
    let federation = "[federation]\nclients = 20\nrounds = 60\nfraction = 0.5\nstrategy = \"scaffold\"\ncompression = \"1-bit\"\n\
        behaviour = { dropout = 0.1, speed_spread = 0.5 }";
    let folder = folder(federation);
    let whole = summary(folder.path(), &["--runs", "whole"]);
    let mut child = command(folder.path(), &["--runs", "cut"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let events = folder.path().join("cut/clouds/events.jsonl");
    let begun = Instant::now();
    while fs::read_to_string(&events).map_or(0, |t| t.lines().count()) < 20 {
        assert!(begun.elapsed() < Duration::from_secs(120), "no rounds were held");
        assert!(
            child.try_wait().expect("asked").is_none(),
            "it ended before it could be killed"
        );
        std::thread::yield_now();
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    let refused = run(folder.path(), &["--runs", "cut"]);
    assert_eq!(
        refused.status.code(),
        Some(2),
        "an unfinished run is not overwritten"
    );
    let resumed = summary(folder.path(), &["--runs", "cut", "--resume"]);
    for key in ["accuracy", "loss", "rounds", "traffic", "tally", "curve"] {
        assert_eq!(resumed[key], whole[key], "{key}");
    }
    let model =
        |runs: &str| fs::read(folder.path().join(runs).join("clouds/model.safetensors")).expect("a model");
    assert!(model("cut") == model("whole"), "the same bits");
}

#[test]
fn mistakes_in_the_table_are_named_with_their_line() {
    let cases = [
        ("[federation]\nclients = 20\nrounds = 3\nfracton = 0.3", "fracton"),
        (
            "[federation]\nclients = 20\nrounds = 3\nstrategy = \"fedbest\"",
            "fedbest",
        ),
        (
            "[federation]\nclients = 20\nrounds = 3\nstrategy = { kind = \"krum\", mu = 1.0 }",
            "malicious",
        ),
        (
            "[federation]\nclients = 2000\nrounds = 3\npartition = { shards = 2 }",
            "[federation]",
        ),
        (
            "[federation]\nclients = 20\nrounds = 3\nfraction = 1.5",
            "fraction",
        ),
        ("[federation]\nclients = 20\nrounds = 3\nbatch = \"some\"", "all"),
        (
            "[federation]\nclients = 20\nrounds = 3\nstrategy = \"fltrust\"",
            "trusted",
        ),
        (
            "[federation]\nclients = 20\nrounds = 3\npersonal = { kind = \"fedper\", private = [\"nobody\"] }",
            "nobody",
        ),
        (
            "early_stopping = 3\n[federation]\nclients = 20\nrounds = 3",
            "early_stopping",
        ),
    ];
    for (federation, named) in cases {
        let folder = folder(federation);
        let output = run(folder.path(), &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(named),
            "{federation}: {said}"
        );
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_grid_runs_every_cell_once_and_shows_the_best_rate() {
    let federation = "[federation]\nclients = 10\nrounds = 30\nfraction = 0.5\ntarget = 0.85\n\
        [grid]\n\"train.rate\" = [1e30, 0.001, 0.05]\n\"federation.partition\" = [\"iid\", { shards = 2 }]\n\
        [[published]]\n\"federation.partition\" = \"iid\"\nrounds = 12";
    let folder = folder(federation);
    let said = summary(folder.path(), &[]);
    let cells = said["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    assert_eq!(
        (&cells[0]["rate"], &cells[0]["published"]),
        (&Value::from(0.05), &Value::from(12.0))
    );
    let events = folder
        .path()
        .join("runs/clouds/partition-iid_rate-0.05/events.jsonl");
    let before = fs::read_to_string(&events).expect("a log");
    let again = run(folder.path(), &[]);
    let shown = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(shown.contains("published") && shown.contains("0.05"), "{shown}");
    assert_eq!(
        fs::read_to_string(&events).expect("a log"),
        before,
        "finished cells are not run again"
    );
}
