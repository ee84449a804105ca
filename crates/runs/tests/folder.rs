//! A run's folder is held by one process, is never lost by accident, and survives whatever kills the process.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use synod_core::{Digest, Event};
use synod_runs::{Document, Error, Folder, Models, NodeModels, RunStanding, StartMode, metrics_digest};
use tempfile::TempDir;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Step {
    step: usize,
}

impl Event for Step {
    const NAME: &'static str = "step";
}

fn document(text: &str) -> Document {
    Document::of(text, "site.toml").expect("a configuration")
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("runs/site");
    (folder, path)
}

/// All files with their contents.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(contents(&path)),
            path => found.push((path.clone(), fs::read(&path).expect("a file"))),
        }
    }
    found.sort();
    found
}

/// A run as a killed process leaves it: begun, with a checkpoint, memories of clients and an event, and nothing more.
fn half(path: &Path, text: &str) {
    let folder = Folder::hold(path).expect("held");
    let log = folder.begin(&document(text)).expect("begun");
    log.write(&Step { step: 1 }).expect("written");
    fs::create_dir(folder.memories()).expect("made");
    fs::write(folder.memories().join("1"), "memory").expect("written");
    fs::write(folder.checkpoint(), "half").expect("written");
}

#[test]
fn whoever_comes_second_gets_an_error_and_changes_nothing() {
    let (_keep, path) = place();
    half(&path, "seed = 1");
    let held = Folder::hold(&path).expect("held");
    let before = contents(&path);
    let said = Folder::hold(&path).expect_err("held by another");
    assert!(
        said.is_misuse() && said.to_string().contains("another process is at work"),
        "{said}"
    );
    assert_eq!(contents(&path), before);
    drop(held);
    assert!(Folder::hold(&path).is_ok(), "whoever ends gives it free");
}

#[test]
fn of_many_that_come_at_once_one_holds_the_folder() {
    let (_keep, path) = place();
    let barrier = std::sync::Barrier::new(8);
    let held: Vec<Result<Folder, Error>> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    Folder::hold(&path)
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().expect("no panic")).collect()
    });
    assert_eq!(held.iter().filter(|held| held.is_ok()).count(), 1);
    assert!(
        held.iter()
            .flat_map(|held| held.as_ref().err())
            .all(Error::is_misuse)
    );
}

#[test]
fn a_folder_whose_run_never_began_is_taken_away_again() {
    let (keep, path) = place();
    drop(Folder::hold(&path).expect("held"));
    assert!(!keep.path().join("runs").exists());
    fs::create_dir_all(&path).expect("made");
    drop(Folder::hold(&path).expect("held"));
    assert!(path.exists(), "what was there before stays");
    fs::remove_dir_all(&path).expect("removed");
    drop({
        let held = Folder::hold(&path).expect("held");
        fs::write(path.join("notes"), "mine").expect("written");
        held
    });
    assert!(path.join("notes").exists(), "what others put there stays");
}

#[test]
fn a_run_is_replaced_only_if_that_is_wanted() {
    let (_keep, path) = place();
    let (own, other) = (document("seed = 1"), document("seed = 2"));
    let folder = Folder::hold(&path).expect("held");
    for start in [StartMode::New, StartMode::Resume, StartMode::Force] {
        assert_eq!(
            folder.enter(start, &own).ok(),
            Some(RunStanding::Empty),
            "{start:?}"
        );
    }
    drop(folder);
    half(&path, "seed = 1");
    let folder = Folder::hold(&path).expect("held");
    let said = folder
        .enter(StartMode::New, &own)
        .expect_err("unfinished")
        .to_string();
    assert!(said.contains("--resume goes on"), "{said}");
    let said = folder
        .enter(StartMode::Resume, &other)
        .expect_err("another")
        .to_string();
    assert!(said.contains("differs from the configuration"), "{said}");
    let spaced = document("# The same.\nseed  =  1");
    assert_eq!(
        folder.enter(StartMode::Resume, &spaced).ok(),
        Some(RunStanding::Unfinished)
    );
    assert_eq!(
        folder.enter(StartMode::Force, &other).ok(),
        Some(RunStanding::Empty)
    );
    let result = json!({ "accuracy": 0.5 });
    folder.finish(&result).expect("written");
    let said = folder
        .enter(StartMode::New, &own)
        .expect_err("finished")
        .to_string();
    assert!(said.contains("finished run; --force replaces it"), "{said}");
    assert_eq!(
        folder.enter(StartMode::Resume, &own).ok(),
        Some(RunStanding::Finished(result))
    );
}

#[test]
fn a_new_run_keeps_nothing_of_the_old_but_what_is_not_ours() {
    let (_keep, path) = place();
    half(&path, "seed = 1");
    for name in [
        "summary.json",
        "results.json",
        "model.safetensors",
        "model-2.safetensors",
        "clients.jsonl",
        "report.html",
    ] {
        fs::write(path.join(name), "{}").expect("written");
    }
    fs::create_dir_all(path.join("models")).expect("made");
    fs::write(path.join("notes.txt"), "mine").expect("written");
    let folder = Folder::hold(&path).expect("held");
    let log = folder.begin(&document("seed = 2")).expect("begun");
    assert!(log.past::<Step>().expect("read").is_empty());
    let mut names: Vec<String> = fs::read_dir(&path)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, [".lock", "config.toml", "events.jsonl", "notes.txt"]);
}

#[test]
fn what_a_crash_tore_is_passed_over_and_swept() {
    let (_keep, path) = place();
    half(&path, "seed = 1");
    let log = path.join("events.jsonl");
    let torn = [&fs::read(&log).expect("a log")[..], b"{\"event\":\"st"].concat();
    fs::write(&log, torn).expect("written");
    fs::write(path.join(".config.toml.1.2.part"), "half").expect("written");
    let folder = Folder::hold(&path).expect("held");
    let log = folder.go_on().expect("goes on");
    log.write(&Step { step: 2 }).expect("written");
    assert_eq!(
        log.past::<Step>().expect("read"),
        [Step { step: 1 }, Step { step: 2 }]
    );
    assert!(!path.join(".config.toml.1.2.part").exists());
}

#[test]
fn models_are_tied_to_what_made_them_and_are_not_learnt_twice() {
    let (_keep, path) = place();
    let own = document("seed = 1");
    let (metrics, data) = (metrics_digest(["fan", "load"]), Digest::of(b"windows"));
    assert_eq!(metrics, metrics_digest(["load", "fan"]));
    assert_ne!(metrics_digest(["ab", "c"]), metrics_digest(["a", "bc"]));
    let save = |text: &'static str| move |path: &Path| fs::write(path, text).map_err(|_| panic!("written"));
    {
        let folder = Folder::hold(&path).expect("held");
        let log = folder.begin(&own).expect("begun");
        let models = NodeModels::new(&folder, &log, own.digest()).expect("models");
        for (node, text) in [("n0", "first"), ("n1", "second"), ("gone", "third")] {
            assert_eq!(models.stored(node, metrics, data), None);
            models
                .store::<Error>(node, metrics, data, save(text))
                .expect("stored");
        }
        assert!(
            models
                .store::<Error>("../n2", metrics, data, save("out"))
                .is_err()
        );
        // And here the process is killed.
    }
    fs::write(path.join("models/n1.safetensors"), "torn").expect("written");
    let folder = Folder::hold(&path).expect("held");
    assert_eq!(
        folder.enter(StartMode::Resume, &own).ok(),
        Some(RunStanding::Unfinished)
    );
    let log = folder.go_on().expect("goes on");
    let others = NodeModels::new(&folder, &log, Digest::of(b"another")).expect("models");
    assert_eq!(
        others.stored("n0", metrics, data),
        None,
        "made by another configuration"
    );
    let models = NodeModels::new(&folder, &log, own.digest()).expect("models");
    assert_eq!(
        models.stored("n0", metrics, Digest::of(b"others")),
        None,
        "of other windows"
    );
    assert_eq!(
        models.stored("n0", metrics_digest(["fan"]), data),
        None,
        "of other metrics"
    );
    assert_eq!(
        models.stored("n1", metrics, data),
        None,
        "no longer what was stored"
    );
    assert_eq!(
        models.stored("n0", metrics, data),
        Some(path.join("models/n0.safetensors"))
    );
    models
        .store::<Error>("n1", metrics, data, save("second"))
        .expect("stored");
    models.finish().expect("written");
    assert!(!path.join("models/gone.safetensors").exists());
    let index = Models::read(&path).expect("read");
    assert_eq!(index.nodes.keys().collect::<Vec<_>>(), ["n0", "n1"]);
    assert_eq!(index.nodes["n0"].config, own.digest());
    assert!(index.file(&path, "n0").is_ok());
    fs::write(path.join("models/n0.safetensors"), "f1rst").expect("written");
    let said = index.file(&path, "n0").expect_err("changed").to_string();
    assert!(said.contains("not the model that the run stored"), "{said}");
    assert!(index.file(&path, "n7").is_err() && index.file(&path, "../n0").is_err());
}
