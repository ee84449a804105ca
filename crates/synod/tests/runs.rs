//! Folders of runs, as people and job scripts meet them: nothing is lost by accident, and what was cut short goes on.

mod site;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use site::*;
use synod_runs::{Folder, Models};

/// All files of a folder but those that are written anew by looking at them.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(contents(&path)),
            path => drop(found.insert(path.clone(), fs::read(&path).expect("a file"))),
        }
    }
    found
}

fn append(folder: &Path, more: &str) {
    let path = folder.join("site.toml");
    let text = fs::read_to_string(&path).expect("a configuration");
    fs::write(path, text + more).expect("written");
}

/// The nodes whose models were stored, in the order of the log.
fn learnt(run: &Path) -> Vec<String> {
    let log = fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
    let events = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let learnt = events.filter(|event| event["event"] == "learnt");
    learnt
        .map(|event| event["node"].as_str().expect("a node").to_owned())
        .collect()
}

/// A model file's header, whose entries come in any order, and its numbers.
fn parts(path: &Path) -> (Value, Vec<u8>) {
    let bytes = fs::read(path).expect("a model");
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
    let (header, numbers) = rest.split_at(length as usize);
    (
        serde_json::from_slice(header).expect("a header"),
        numbers.to_vec(),
    )
}

#[test]
fn no_finished_run_is_overwritten_unless_told() {
    let site = site(1);
    for command in ["train", "backtest"] {
        let run = |more: &[&str]| synod(site.path(), &[&[command, "site.toml", "--json"], more].concat());
        let first = json(&run(&[]));
        let before = contents(&site.path().join("runs"));
        let again = run(&[]);
        assert_eq!(again.status.code(), Some(2));
        assert!(said(&again).contains("finished run; --force"), "{}", said(&again));
        assert_eq!(contents(&site.path().join("runs")), before);
        assert_eq!(json(&run(&["--force"])), first);
    }
    let shown = synod(site.path(), &["train", "site.toml", "--resume"]);
    assert!(
        shown.status.success() && said(&shown).contains("site is finished"),
        "{}",
        said(&shown)
    );
}

#[test]
fn a_backtest_never_comes_near_detectors_in_use() {
    let site = site(1);
    json(&synod(site.path(), &["train", "site.toml", "--json"]));
    let run = site.path().join("runs/site");
    let before = contents(&run);
    for switch in ["--json", "--ablation", "--both-splits"] {
        let tried = synod(site.path(), &["backtest", "site.toml", "--force", switch]);
        assert!(tried.status.success(), "{}", said(&tried));
    }
    assert_eq!(contents(&run), before);
    for folder in ["site-backtest", "site-ablation", "site-splits"] {
        let folder = site.path().join("runs").join(folder);
        assert!(folder.join("results.json").exists() && !folder.join("models").exists());
    }
}

#[test]
fn whoever_comes_second_changes_nothing_whatever_he_asks_for() {
    let site = site(1);
    let run = site.path().join("runs/site");
    json(&synod(site.path(), &["train", "site.toml", "--json"]));
    fs::create_dir_all(run.join("clients")).expect("made");
    fs::write(run.join("clients/1"), "what a client remembers").expect("written");
    let held = Folder::hold(&run).expect("free");
    let before = contents(&run);
    for switch in ["--force", "--resume", "--json"] {
        let second = synod(site.path(), &["train", "site.toml", switch]);
        assert_eq!(second.status.code(), Some(2), "{}", said(&second));
        assert!(
            said(&second).contains("another process is at work"),
            "{}",
            said(&second)
        );
    }
    assert_eq!(contents(&run), before);
    drop(held);
    json(&synod(site.path(), &["train", "site.toml", "--force", "--json"]));
    assert!(!run.join("clients").exists(), "whoever holds it may begin anew");
}

#[test]
fn of_two_that_start_at_once_one_runs_and_both_end_well() {
    let site = site(2);
    let start = || {
        Command::new(env!("CARGO_BIN_EXE_synod"))
            .current_dir(site.path())
            .args(["train", "site.toml", "--resume", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started")
    };
    let both = [start(), start()].map(|child| child.wait_with_output().expect("ended"));
    let codes: Vec<Option<i32>> = both.iter().map(|output| output.status.code()).collect();
    assert!(
        codes.contains(&Some(0)) && codes.iter().all(|c| [Some(0), Some(2)].contains(c)),
        "{codes:?}"
    );
    let after = json(&synod(site.path(), &["train", "site.toml", "--resume", "--json"]));
    for output in both.iter().filter(|output| output.status.success()) {
        assert_eq!(json(output), after);
    }
    assert_eq!(learnt(&site.path().join("runs/site")).len(), 2);
}

#[test]
fn detectors_of_a_killed_run_are_kept_and_the_rest_come_out_the_same() {
    let site = site(16);
    let arguments = ["train", "site.toml", "--json"];
    let whole = json(&synod(
        site.path(),
        &[&arguments[..], &["--runs", "whole"]].concat(),
    ));
    let mut child = Command::new(env!("CARGO_BIN_EXE_synod"))
        .current_dir(site.path())
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let (run, begun) = (site.path().join("runs/site"), Instant::now());
    while learnt(&run).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(120), "nothing was learnt");
        assert!(
            child.try_wait().expect("asked").is_none(),
            "it ended before it could be killed"
        );
        std::thread::yield_now();
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(
        !run.join("results.json").exists(),
        "it was over before it could be killed"
    );
    let before = learnt(&run);
    let refused = synod(site.path(), &arguments);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("--resume goes on"), "{}", said(&refused));
    // One of those that are stored is spoilt: it is learnt again.
    fs::write(
        run.join("models").join(format!("{}.safetensors", before[0])),
        "torn",
    )
    .expect("written");
    let resumed = json(&synod(site.path(), &[&arguments[..], &["--resume"]].concat()));
    assert_eq!(resumed, whole);
    let again: Vec<String> = learnt(&run).split_off(before.len());
    assert_eq!(again.len(), 16 - before.len() + 1, "{before:?} {again:?}");
    assert!(again.contains(&before[0]) && before[1..].iter().all(|node| !again.contains(node)));
    let models = |run: &Path| {
        let index = Models::read(run).expect("an index");
        let model = |node: &String| parts(&index.file(run, node).expect("stored"));
        index
            .nodes
            .keys()
            .map(|node| (node.clone(), model(node)))
            .collect::<Vec<_>>()
    };
    let of_whole = site.path().join("whole/site");
    assert_eq!(models(&run).len(), 16);
    assert!(models(&run) == models(&of_whole), "the same bits");
    for file in ["results.json", "alarms.jsonl"] {
        assert_eq!(
            fs::read(run.join(file)).ok(),
            fs::read(of_whole.join(file)).ok(),
            "{file}"
        );
    }
}

#[test]
fn a_federation_keeps_the_detectors_of_its_first_arm() {
    let site = site(3);
    append(site.path(), "[federation]\narms = [\"federated\", \"local\"]\n");
    json(&synod(site.path(), &["train", "site.toml", "--json"]));
    let run = site.path().join("runs/site");
    let federated = Models::read(&run).expect("an index");
    assert_eq!(federated.nodes.len(), 3);
    let text = fs::read_to_string(site.path().join("site.toml")).expect("read");
    fs::write(
        site.path().join("site.toml"),
        text.replace("[\"federated\", \"local\"]", "[\"local\"]"),
    )
    .expect("written");
    json(&synod(site.path(), &["train", "site.toml", "--force", "--json"]));
    let alone = Models::read(&run).expect("an index");
    assert!(
        alone
            .nodes
            .iter()
            .all(|(node, entry)| entry.file != federated.nodes[node].file)
    );
    assert!(
        alone
            .nodes
            .iter()
            .all(|(node, entry)| entry.metrics == federated.nodes[node].metrics)
    );
}

#[test]
fn a_grid_of_detectors_is_every_combination_and_goes_on_where_it_stopped() {
    let site = site(2);
    append(
        site.path(),
        "[grid]\n\"detector.kind\" = [\"default\", \"pca\"]\n\"alarm.percentile\" = [95, 99]\n",
    );
    let both = synod(site.path(), &["backtest", "site.toml"]);
    assert_eq!(both.status.code(), Some(2));
    assert!(
        said(&both).contains("site.toml:18: ") && said(&both).contains("not both"),
        "{}",
        said(&both)
    );
    let text = fs::read_to_string(site.path().join("site.toml")).expect("read");
    fs::write(
        site.path().join("site.toml"),
        text.replace("budget = \"2 per node-month\"\n", ""),
    )
    .expect("written");
    let found = json(&synod(site.path(), &["backtest", "site.toml", "--json"]));
    let cells = found["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4);
    let fpr = |percentile: i64| {
        let cell = |c: &&Value| {
            c["settings"]["alarm.percentile"] == percentile && c["settings"]["detector.kind"] == "default"
        };
        cells.iter().find(cell).expect("a cell")["arms"][0]["mean"]["fpr"].as_f64()
    };
    assert!(fpr(95) > fpr(99), "{found}");
    let runs = site.path().join("runs/site-backtest");
    fs::remove_file(runs.join("percentile-99_kind-pca/results.json")).expect("removed");
    let before = fs::read(runs.join("percentile-95_kind-pca/events.jsonl")).expect("a log");
    assert_eq!(
        json(&synod(site.path(), &["backtest", "site.toml", "--json"])),
        found
    );
    assert_eq!(
        fs::read(runs.join("percentile-95_kind-pca/events.jsonl")).expect("a log"),
        before
    );
    let shown = said(&synod(site.path(), &["backtest", "site.toml"]));
    let lines = shown.lines().filter(|line| line.contains("local"));
    assert!(lines.count() == 4 && shown.contains("faults found"), "{shown}");
    let alone = synod(site.path(), &["backtest", "site.toml", "--ablation"]);
    assert!(alone.status.code() == Some(2) && said(&alone).contains("a [grid] is run as it stands"));
}

#[test]
fn a_file_says_its_kind_and_every_command_asks_for_it() {
    let site = site(1);
    let text = fs::read_to_string(site.path().join("site.toml")).expect("read");
    fs::write(
        site.path().join("site.toml"),
        text.replace("kind = \"watch\"\n", ""),
    )
    .expect("written");
    for command in ["train", "backtest"] {
        let untold = synod(site.path(), &[command, "site.toml"]);
        assert_eq!(untold.status.code(), Some(2));
        assert!(
            said(&untold).contains("it seems to be kind = \"watch\""),
            "{}",
            said(&untold)
        );
    }
    fs::write(
        site.path().join("site.toml"),
        text.replace("kind = \"watch\"", "kind = \"train\""),
    )
    .expect("written");
    let other = synod(site.path(), &["backtest", "site.toml"]);
    assert!(
        said(&other).contains("site.toml:1: watching reads kind = \"watch\""),
        "{}",
        said(&other)
    );
    assert!(!site.path().join("runs").exists());
}
