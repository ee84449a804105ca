//! `synod score`, day after day, as an operator's timer runs it.

mod site;

use std::fs;
use std::path::Path;

use serde_json::Value;
use site::*;
use tempfile::TempDir;

/// A trained site, and the node's file in pieces, each in a folder of its own.
fn days(cuts: &[usize]) -> (TempDir, Vec<String>) {
    let site = site(1);
    assert!(synod(site.path(), &["train", "site.toml"]).status.success());
    let text = fs::read_to_string(site.path().join("n0.csv")).expect("the file");
    let (head, rows) = text.split_once('\n').expect("a heading");
    let rows: Vec<&str> = rows.lines().collect();
    let edges = [&[0], cuts, &[rows.len()]].concat();
    let piece = |(i, edge): (usize, &[usize])| {
        let folder = site.path().join(format!("day{i}"));
        fs::create_dir(&folder).expect("a folder");
        let lines = [&[head], &rows[edge[0]..edge[1]]].concat();
        fs::write(folder.join("n0.csv"), lines.join("\n") + "\n").expect("written");
        format!("day{i}/n0.csv")
    };
    let pieces = edges.windows(2).enumerate().map(piece).collect();
    (site, pieces)
}

fn windows(site: &Path, args: &[&str]) -> Vec<String> {
    let args = [&["score", "runs/site", "--windows"], args].concat();
    let output = synod(site, &args);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn day_by_day_is_as_the_whole_file() {
    // An alarm stands at the second cut.
    let (site, pieces) = days(&[333, 715, 716]);
    let whole = windows(site.path(), &["n0.csv", "--fresh"]);
    assert_eq!(whole.len(), 1000);
    fs::remove_dir_all(site.path().join("runs/site/state")).expect("removed");
    let by_day: Vec<String> = pieces.iter().flat_map(|p| windows(site.path(), &[p])).collect();
    assert_eq!(by_day, whole);
    fs::remove_dir_all(site.path().join("runs/site/state")).expect("removed");
    let all: Vec<&str> = pieces.iter().map(String::as_str).collect();
    assert_eq!(windows(site.path(), &all), whole);
}

#[test]
fn an_alarm_at_midnight_is_one_alarm_with_one_name_and_a_standing_one_is_exit_code_3() {
    let (site, pieces) = days(&[715]);
    let scored = |piece: &str| -> (i32, Value) {
        let args = ["score", "runs/site", piece, "--json", "--fail-on-alarm"];
        let output = synod(site.path(), &args);
        let document = serde_json::from_slice(&output.stdout).expect("a document");
        (output.status.code().expect("a code"), document)
    };
    let (code, before) = scored(&pieces[0]);
    assert_eq!(code, 3, "{before}");
    let standing = before["alarms"]
        .as_array()
        .expect("alarms")
        .last()
        .expect("one")
        .clone();
    assert_eq!(standing["state"], "standing");
    let (code, after) = scored(&pieces[1]);
    assert_eq!(code, 0, "{after}");
    let ended = &after["alarms"][0];
    assert_eq!(
        (&ended["id"], &ended["from"]),
        (&standing["id"], &standing["from"])
    );
    assert_eq!(ended["state"], "ended");
    assert!(ended["to"].as_i64() > standing["to"].as_i64());
    let (_, again) = scored(&pieces[1]);
    assert_eq!(
        (&again["windows"], &again["scored_before"]),
        (&0.into(), &285.into())
    );
}

#[test]
fn files_that_cannot_be_scored_are_named_and_the_others_are_scored() {
    let (site, _) = days(&[]);
    fs::write(site.path().join("n7.csv"), "timestamp,load\n1,2\n").expect("written");
    let args = ["score", "runs/site", "n7.csv", "nowhere.csv", "n0.csv"];
    let output = synod(site.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(said.contains("n0: 1000 windows"), "{said}");
    for named in ["n7.csv", "nowhere.csv", "2 of 3 files could not be scored"] {
        assert!(said.contains(named), "{said}");
    }
}

#[test]
fn a_state_of_another_detector_or_a_damaged_one_is_refused_until_one_begins_anew() {
    let (site, pieces) = days(&[500]);
    let state = site.path().join("runs/site/state/n0.state");
    windows(site.path(), &[&pieces[0]]);
    let whole = fs::read(&state).expect("a state");
    for cut in [0, 20, whole.len() / 2] {
        fs::write(&state, &whole[..cut]).expect("written");
        let output = synod(site.path(), &["score", "runs/site", &pieces[1]]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("--fresh"), "{}", said(&output));
    }
    assert_eq!(windows(site.path(), &[&pieces[1], "--fresh"]).len(), 500);
}

#[test]
fn what_was_not_told_is_told_again() {
    let (site, pieces) = days(&[]);
    // Nobody reads what is said: the first call cannot tell, and so must not count.
    let closed = std::process::Command::new("sh")
        .current_dir(site.path())
        .args([
            "-c",
            &format!(
                "{} score runs/site {} > /dev/full",
                env!("CARGO_BIN_EXE_synod"),
                pieces[0]
            ),
        ])
        .status()
        .expect("runs");
    assert_eq!(closed.code(), Some(1));
    assert_eq!(windows(site.path(), &[&pieces[0]]).len(), 1000);
}
