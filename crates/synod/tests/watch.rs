//! `synod backtest`, `synod train` and `synod score` on nodes that are made here, as an operator runs them.

mod site;

use std::fs;

use serde_json::Value;
use site::*;

#[test]
fn a_fan_that_stops_is_found_and_named_on_every_node() {
    let site = site(3);
    let result = json(&synod(site.path(), &["backtest", "site.toml", "--json"]));
    assert_eq!(result["name"], "site");
    assert_eq!(result["split"], "chronological, 60 % train");
    let arm = &result["arms"][0];
    assert_eq!(arm["arm"], "local");
    for name in [
        "auroc",
        "ap",
        "vus_pr",
        "best_f1",
        "f1",
        "precision",
        "recall",
        "fpr",
        "tnr",
    ] {
        assert!(arm["mean"][name].is_f64(), "{name}: {}", arm["mean"]);
        assert!(arm["nodes"]["n1"][name].is_f64(), "{name}");
    }
    assert!(arm["mean"]["auroc"].as_f64() > Some(0.95), "{}", arm["mean"]);
    assert!(
        arm["mean"]["event_recall"].as_f64() == Some(1.0),
        "{}",
        arm["mean"]
    );
    let alarms = fs::read_to_string(site.path().join("runs/site-backtest/alarms.jsonl")).expect("alarms");
    for node in ["n0", "n1", "n2"] {
        let mut alarms = alarms
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).expect("an alarm"));
        let found = alarms
            .find(|a| a["node"] == node && a["confirmed"] == true)
            .expect("the fault");
        let first = found["metrics"][0]["metric"].as_str().expect("a metric");
        assert!(["fan", "temperature"].contains(&first), "{found}");
    }
    let report = fs::read_to_string(site.path().join("runs/site-backtest/report.html")).expect("a report");
    assert!(
        report.contains("it is 7 in every training window"),
        "the constant metric is listed with its reason"
    );
}

#[test]
fn the_same_seed_gives_the_same_result_with_any_number_of_threads() {
    let site = site(4);
    let run = |threads: &str| {
        synod(
            site.path(),
            &["backtest", "site.toml", "--json", "--force", "--threads", threads],
        )
        .stdout
    };
    assert_eq!(run("1"), run("3"));
}

#[test]
fn trained_detectors_score_new_files_and_say_what_is_new_or_silent() {
    let site = site(2);
    assert!(synod(site.path(), &["train", "site.toml"]).status.success());
    // A new metric, and one that has vanished.
    node(&site.path().join("late.csv"), 12, |_, _| {});
    let text = fs::read_to_string(site.path().join("late.csv")).expect("the file");
    let lines = text.lines().enumerate().map(|(i, line)| {
        let mut fields: Vec<&str> = line.split(',').collect();
        fields[2] = if i == 0 { "voltage" } else { "230" };
        fields.join(",")
    });
    fs::write(site.path().join("late.csv"), lines.collect::<Vec<_>>().join("\n")).expect("written");
    let output = synod(site.path(), &["score", "runs/site", "late.csv", "--as", "n1"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("voltage"), "{}", said(&output));
    let own = json(&synod(site.path(), &["score", "runs/site", "n0.csv", "--json"]));
    assert_eq!(own["windows"], 1000);
    assert!(
        own["alarms"].as_array().is_some_and(|a| !a.is_empty()),
        "the fault is found again"
    );
    let unknown = synod(site.path(), &["score", "runs/site", "late.csv"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(said(&unknown).contains("--as"), "{}", said(&unknown));
    let out = synod(
        site.path(),
        &["score", "runs/site", "n0.csv", "--as", "../../etc/passwd"],
    );
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("is no node's name"), "{}", said(&out));
}

#[test]
fn a_damaged_detector_is_refused_with_advice() {
    let site = site(1);
    assert!(synod(site.path(), &["train", "site.toml"]).status.success());
    let path = site.path().join("runs/site/models/n0.safetensors");
    let whole = fs::read(&path).expect("the model");
    for cut in [0, 1, 8, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).expect("written");
        let output = synod(site.path(), &["score", "runs/site", "n0.csv"]);
        assert_eq!(output.status.code(), Some(1), "cut at {cut}: {}", said(&output));
        assert!(
            said(&output).contains("train it again"),
            "cut at {cut}: {}",
            said(&output)
        );
    }
}

#[test]
fn bad_input_is_an_error_that_says_what_to_do_or_a_stated_behaviour() {
    let site = site(1);
    let run = |args: &[&str]| synod(site.path(), args);
    let fails = |what: &str, code: i32| {
        let output = run(&["backtest", "site.toml"]);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(what), "{} lacks {what:?}", said(&output));
        assert!(!said(&output).contains("panicked"), "{}", said(&output));
    };
    // A label column that is not there.
    let text = fs::read_to_string(site.path().join("site.toml")).expect("the file");
    fs::write(
        site.path().join("site.toml"),
        text.replace("\"state\"", "\"stat\""),
    )
    .expect("written");
    fails("stat", 1);
    // An unknown key, shown with its line.
    fs::write(site.path().join("site.toml"), text.replace("budget", "budgets")).expect("written");
    fails("budgets", 2);
    fs::write(
        site.path().join("site.toml"),
        text.replace("2 per node-month", "two a month"),
    )
    .expect("written");
    fails("site.toml:15: ", 2);
    fs::write(
        site.path().join("site.toml"),
        text.replace("\"default\"", "\"oracle\""),
    )
    .expect("written");
    fails("there is no detector \"oracle\"", 2);
    let divided = text.replace("train = 0.6", "train = 1.5");
    fs::write(site.path().join("site.toml"), divided).expect("written");
    fails("a training share of 1.5", 2);
    fs::write(site.path().join("site.toml"), text.replace("n*.csv", "x*.csv")).expect("written");
    fails("x*.csv", 1);
    fs::write(site.path().join("site.toml"), &text).expect("written");
    // One row.
    node(&site.path().join("n0.csv"), 5, |t, fields| {
        if t > 0 {
            fields.clear()
        }
    });
    fails("too few to learn from", 1);
    // Nothing that varies.
    node(&site.path().join("n0.csv"), 5, |_, f| {
        (1..5).for_each(|i| f[i] = "1".to_owned())
    });
    fails("nothing to learn", 1);
    // A file that breaks off in the middle of a Parquet header.
    fs::write(site.path().join("n0.csv"), b"PAR1\x15\x04").expect("written");
    fails("n0.csv", 1);
}

#[test]
fn odd_but_usable_input_is_used_and_what_was_done_is_listed() {
    let site = site(2);
    // A metric that never has a value, rows in the wrong order, a row twice, and no anomaly at all.
    node(&site.path().join("n0.csv"), 11, |_, fields| {
        fields[2] = String::new();
        fields[6] = "0".to_owned();
    });
    let text = fs::read_to_string(site.path().join("n0.csv")).expect("the file");
    let (head, rows) = text.split_once('\n').expect("lines");
    let mut rows: Vec<&str> = rows.lines().collect();
    rows.swap(3, 900);
    rows.push(rows[10]);
    fs::write(
        site.path().join("n0.csv"),
        [&[head][..], &rows].concat().join("\n"),
    )
    .expect("written");
    let result = json(&synod(site.path(), &["backtest", "site.toml", "--json"]));
    let node = &result["arms"][0]["nodes"]["n0"];
    assert!(
        node["auroc"].is_null() && node["f1"].is_null(),
        "without anomalies there is nothing to find: {node}"
    );
    assert!(node["fpr"].is_f64(), "{node}");
    let report = fs::read_to_string(site.path().join("runs/site-backtest/report.html")).expect("a report");
    assert!(
        report.contains("it has no value in training"),
        "the empty metric is listed"
    );
    // A node that cannot be learnt does not stop the others.
    fs::write(site.path().join("n0.csv"), "timestamp,load,state\n1,2,0\n").expect("written");
    let output = synod(site.path(), &["backtest", "site.toml", "--json", "--force"]);
    assert!(said(&output).contains("left out"), "{}", said(&output));
    assert_eq!(
        json(&output)["arms"][0]["failed"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn every_alarm_has_a_p_value() {
    let site = site(1);
    for alarm in ["budget = \"4 per node-month\"", "percentile = 99"] {
        let text = fs::read_to_string(site.path().join("site.toml")).expect("the file");
        let text = text.replace("budget = \"2 per node-month\"", alarm);
        fs::write(site.path().join("other.toml"), text).expect("written");
        let result = json(&synod(
            site.path(),
            &["backtest", "other.toml", "--json", "--force"],
        ));
        let arm = &result["arms"][0];
        assert_eq!(arm["mean"]["event_recall"].as_f64(), Some(1.0), "{alarm}: {arm}");
        let alarms = fs::read_to_string(site.path().join("runs/site-backtest/alarms.jsonl")).expect("alarms");
        for alarm in alarms.lines() {
            let alarm: Value = serde_json::from_str(alarm).expect("an alarm");
            let p = alarm["p_value"].as_f64().expect("a p-value");
            // 600 windows teach: no p is below 1 in 601.
            assert!((1.0 / 601.0 - 1e-9..=1.0).contains(&p), "{alarm}");
        }
    }
    let report = fs::read_to_string(site.path().join("runs/site-backtest/report.html")).expect("a report");
    assert!(
        report.contains("healthy windows score"),
        "the p-value is told in words"
    );
}

#[test]
fn scoring_follows_the_threshold_and_the_features_of_training() {
    let site = site(1);
    let text = fs::read_to_string(site.path().join("site.toml")).expect("the file");
    let text = text
        .replace(
            "kind = \"default\"",
            "kind = \"default\"\ndetrend = \"1d\"\nscaling = \"robust\"",
        )
        .replace("budget = \"2 per node-month\"", "percentile = 98");
    fs::write(site.path().join("site.toml"), &text).expect("written");
    let trained = synod(site.path(), &["train", "site.toml"]);
    assert!(trained.status.success(), "{}", said(&trained));
    let output = synod(site.path(), &["score", "runs/site", "n0.csv"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains(", p 0.0"), "{}", said(&output));
    let windows = synod(
        site.path(),
        &["score", "runs/site", "n0.csv", "--windows", "--fresh"],
    );
    let windows = String::from_utf8_lossy(&windows.stdout).into_owned();
    let mut thresholds: Vec<&str> = windows
        .lines()
        .skip(1)
        .filter_map(|l| l.split(',').nth(3))
        .collect();
    thresholds.dedup();
    assert_eq!(
        thresholds.len(),
        1,
        "a percentile gives one threshold for all windows"
    );
    fs::write(site.path().join("site.toml"), text.replace("\"1d\"", "\"a day\"")).expect("written");
    let refused = synod(site.path(), &["train", "site.toml"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("a day"), "{}", said(&refused));
}

#[test]
fn nodes_above_the_budget_beyond_chance_are_named() {
    let site = site(2);
    let unlabelled = |t: usize| [640..650, 780..790, 880..890].iter().any(|r| r.contains(&t));
    node(&site.path().join("n1.csv"), 12, |t, fields| {
        if unlabelled(t) {
            fields[3] = "75".to_owned();
            fields[4] = "0".to_owned();
        }
    });
    let text = said(&synod(site.path(), &["backtest", "site.toml"]));
    let line = text
        .lines()
        .find(|l| l.starts_with("Above the budget beyond chance"));
    assert_eq!(
        line,
        Some("Above the budget beyond chance: n1 (3 where 0.2 are allowed)."),
        "{text}"
    );
    let page = fs::read_to_string(site.path().join("runs/site-backtest/report.html")).expect("a report");
    assert!(page.contains("n1 (3 where 0.2 are allowed)"));
}
