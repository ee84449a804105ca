//! `synod backtest` with a `[federation]`, as an operator runs it.

mod site;

use std::fs;

use serde_json::Value;
use site::*;

#[test]
fn nodes_that_learn_together_stand_beside_those_that_learn_alone() {
    let site = site(3);
    let config = fs::read_to_string(site.path().join("site.toml")).expect("read");
    let federation = "[federation]\nreduce = [1, 2]\ncold_start = \"1d\"\n";
    fs::write(site.path().join("site.toml"), config + federation).expect("written");
    let result = json(&synod(site.path(), &["backtest", "site.toml", "--json"]));
    let arms = result["arms"].as_array().expect("arms");
    let names: Vec<&str> = arms.iter().filter_map(|a| a["arm"].as_str()).collect();
    assert_eq!(
        names,
        [
            "local",
            "federated",
            "personalised",
            "local 1/2",
            "federated 1/2",
            "personalised 1/2",
            "local 1 d",
            "federated 1 d",
            "personalised 1 d"
        ]
    );
    for (arm, against) in [
        (1, "local"),
        (2, "local"),
        (4, "local 1/2"),
        (7, "local 1 d"),
        (8, "local 1 d"),
    ] {
        let difference = &arms[arm]["difference"];
        assert_eq!(difference["against"], against);
        let changes = difference["nodes"].as_object().expect("a change per node");
        for (node, change) in changes {
            let f1 = |arm: &Value| arm["nodes"][node]["f1"].as_f64().expect("an anomaly");
            let local = arms.iter().find(|a| a["arm"] == against).expect("the local arm");
            let fell = f1(&arms[arm]) - f1(local);
            assert!(
                (change["f1"].as_f64().expect("F1") - fell).abs() < 1e-12,
                "{node}: {change}"
            );
        }
        assert!(difference["mean"]["f1"].is_f64(), "{difference}");
        assert!(
            difference["mean"]["intervals"]["fpr"]["low"].is_f64(),
            "{difference}"
        );
    }
    assert!(arms[0].get("difference").is_none());
    assert_eq!(arms[2]["choices"].as_array().map(Vec::len), Some(3));
    let page = fs::read_to_string(site.path().join("runs/site-backtest/report.html")).expect("a report");
    for (title, figure) in [
        ("F1", "f1"),
        ("Precision", "precision"),
        ("Recall", "recall"),
        ("FPR", "fpr"),
    ] {
        let of = |arm: usize| (0..3).map(move |n| arms[arm]["nodes"][format!("n{n}")][figure].as_f64());
        let pairs: Vec<_> = of(3).zip(of(4)).filter_map(|(a, b)| Some((a?, b?))).collect();
        let (_, part) = page
            .split_once("<h3>federated 1/2 less local 1/2</h3>")
            .expect("a comparison");
        let (_, part) = part.split_once(&format!("<h4>{title} ")).expect("a histogram");
        let (words, _) = part.split_once("</p>").expect("words");
        for (word, count) in [
            ("rose", pairs.iter().filter(|(a, b)| b > a).count()),
            ("fell", pairs.iter().filter(|(a, b)| b < a).count()),
            ("same", pairs.iter().filter(|(a, b)| a == b).count()),
            ("undefined", 3 - pairs.len()),
        ] {
            let said = words.contains(&format!("{word} on {count}<"));
            assert!(said == (count > 0), "{title} {word} on {count}: {words}");
        }
    }
    assert!(page.contains("Learning together") && page.contains("federated 1/2 less local 1/2"));
    let text = said(&synod(site.path(), &["backtest", "site.toml", "--force"]));
    assert!(text.contains("federated 1 d less local 1 d"), "{text}");
    assert!(text.contains("federated 1/2: F1 rose on "), "{text}");
    assert!(text.contains("of 3 nodes chose to learn alone."), "{text}");
}

#[test]
fn planes_are_learnt_alone_and_together() {
    let site = site(3);
    let config = fs::read_to_string(site.path().join("site.toml")).expect("read");
    let config = config.replace("kind = \"default\"", "kind = \"pca\"")
        + "[federation]\narms = [\"local\", \"federated\"]\n";
    fs::write(site.path().join("site.toml"), config).expect("written");
    let output = synod(site.path(), &["backtest", "site.toml"]);
    assert!(output.status.success(), "{}", said(&output));
    let text = said(&output);
    for arm in ["local ", "federated "] {
        let line = text.lines().find(|line| line.starts_with(arm)).expect("an arm");
        let figures: Vec<f64> = line.split_whitespace().skip(1).flat_map(str::parse).collect();
        assert!(
            figures.len() == 11 && figures.iter().all(|f| f.is_finite()),
            "{text}"
        );
    }
    let result = json(&synod(
        site.path(),
        &["backtest", "site.toml", "--json", "--force"],
    ));
    let [local, federated] = [0, 1].map(|arm| &result["arms"][arm]["nodes"]);
    assert!(
        result["arms"][1]["difference"]["mean"]["fpr"].is_f64(),
        "{result}"
    );
    assert_ne!(local, federated, "the others make a difference");
    assert!(
        result["arms"][1]["mean"]["event_recall"].as_f64() == Some(1.0),
        "{result}"
    );
}

#[test]
fn a_detector_that_cannot_be_learnt_together_is_refused() {
    let site = site(2);
    let config = fs::read_to_string(site.path().join("site.toml")).expect("read");
    let config = config.replace("kind = \"default\"", "kind = \"lstm-autoencoder\"") + "[federation]\n";
    fs::write(site.path().join("site.toml"), config).expect("written");
    let output = synod(site.path(), &["backtest", "site.toml"]);
    assert!(
        !output.status.success() && said(&output).contains("fitted from sums"),
        "{}",
        said(&output)
    );
}

#[test]
fn networks_are_averaged() {
    let site = site(3);
    let config = fs::read_to_string(site.path().join("site.toml")).expect("read");
    let config =
        config.replace("kind = \"default\"", "kind = \"autoencoder\"") + "[federation]\nrounds = 2\n";
    fs::write(site.path().join("site.toml"), config).expect("written");
    let result = json(&synod(site.path(), &["backtest", "site.toml", "--json"]));
    let arms = result["arms"].as_array().expect("arms");
    let names: Vec<&Value> = arms.iter().map(|a| &a["arm"]).collect();
    assert_eq!(names, ["local", "federated"]);
    assert_ne!(arms[0]["nodes"], arms[1]["nodes"], "one network of all");
}
