//! What is said to whoever writes a configuration.

use serde::Deserialize;
use synod_core::config::{Mistake, Section};
use synod_core::time::Duration;
use synod_runs::{Document, Grid, RunKind};

#[derive(Debug, PartialEq)]
struct Round {
    report_timeout: Duration,
    goal: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRound {
    report_timeout: Duration,
    #[serde(default)]
    goal: usize,
    #[serde(default)]
    colour: Colour,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Colour {
    #[default]
    Crimson,
    Yellow,
}

impl Section for Round {
    const NAME: &'static str = "round";
    type Written = WrittenRound;

    fn check(written: WrittenRound) -> Result<Round, Mistake> {
        let WrittenRound {
            report_timeout,
            goal,
            colour,
        } = written;
        if matches!(colour, Colour::Yellow) {
            return Err(Mistake::at("colour", "yellow is out of stock"));
        }
        match goal {
            7 => Err(Mistake::at("goal", "7 is taken")),
            8 => Err(Mistake::here("8 is taken")),
            goal => Ok(Round { report_timeout, goal }),
        }
    }
}

fn read(text: &str) -> Result<Round, String> {
    Document::of(text, "site.toml")
        .and_then(|d| d.section())
        .map_err(|e| e.to_string())
}

#[test]
fn a_section_is_read_and_checked_by_whoever_owns_it() {
    let round = read("[round]\nreport_timeout = \"10m\"\ngoal = 3");
    let report_timeout = "10m".parse().expect("a duration");
    assert_eq!(
        round,
        Ok(Round {
            report_timeout,
            goal: 3
        })
    );
    let absent = read("kind = \"train\"").expect_err("absent");
    assert_eq!(absent, "site.toml: there is no section [round], which is needed");
}

#[test]
fn a_mistake_is_shown_with_its_line_and_the_nearest_word() {
    let good = "# A round.\n[round]\nreport_timeout = \"10m\"\n";
    for (line, said) in [
        (
            "gaol = 3",
            "site.toml:4: unknown key `gaol` in [round]; did you mean `goal`? (report_timeout, goal, colour)\n  4 | gaol = 3",
        ),
        (
            "colour = \"yelow\"",
            "site.toml:4: `yelow` is not known here; did you mean `yellow`? (crimson, yellow)\n  4 | colour = \"yelow\"",
        ),
        (
            "colour = \"yellow\"",
            "site.toml:4: yellow is out of stock\n  4 | colour = \"yellow\"",
        ),
        (
            "goal = 7 # so many",
            "site.toml:4: 7 is taken\n  4 | goal = 7 # so many",
        ),
        ("goal = 8", "site.toml:2: 8 is taken\n  2 | [round]"),
    ] {
        assert_eq!(read(&format!("{good}{line}\n")), Err(said.to_owned()));
    }
    for (written, said) in [
        ("600.0", "a duration with a unit, such as \"30s\""),
        ("\"600\"", "unit is missing"),
    ] {
        let refused = read(&format!("[round]\nreport_timeout = {written}")).expect_err(written);
        assert!(
            refused.starts_with("site.toml:2: ") && refused.contains(said),
            "{refused}"
        );
    }
    let torn = read("[round\nreport_timeout = 1").expect_err("no TOML");
    assert!(torn.starts_with("site.toml:1: "), "{torn}");
}

#[test]
fn every_file_says_its_kind() {
    let kind = |text: &str| {
        Document::of(text, "x.toml")
            .and_then(|d| d.kind())
            .map_err(|e| e.to_string())
    };
    assert_eq!(kind("kind = \"train\""), Ok(RunKind::Train));
    assert_eq!(kind("kind = \"watch\""), Ok(RunKind::Watch));
    let wrong = kind("seed = 1\nkind = \"wacth\"").expect_err("mistyped");
    assert!(
        wrong.starts_with("x.toml:2: ") && wrong.contains("did you mean `watch`?"),
        "{wrong}"
    );
    for (sections, seems) in [
        ("[data]\n[detector]", Some("watch")),
        ("[data]\n[split]", Some("watch")),
        ("[model]\n[data]\n[train]", Some("train")),
        ("[data]", None),
    ] {
        let said = kind(sections).expect_err(sections);
        assert!(
            said.contains("kind = \"train\"") && said.contains("kind = \"watch\""),
            "{said}"
        );
        assert_eq!(said.contains("seems to be"), seems.is_some(), "{said}");
        assert!(
            seems.is_none_or(|kind| said.ends_with(&format!("seems to be kind = \"{kind}\""))),
            "{said}"
        );
    }
    let train = Document::of("kind = \"train\"", "x.toml").expect("read");
    let said = train
        .expect(RunKind::Watch, "synod backtest")
        .expect_err("another")
        .to_string();
    assert!(
        said.starts_with("x.toml:1: synod backtest reads kind = \"watch\""),
        "{said}"
    );
}

#[test]
fn sections_and_keys_that_nobody_owns_are_refused() {
    let document = Document::of("sed = 1\n[detectr]\n", "x.toml").expect("read");
    let said = document
        .allow(&["detector", "data"])
        .expect_err("refused")
        .to_string();
    assert!(
        said.contains("unknown section [detectr]; did you mean [detector]?"),
        "{said}"
    );
    let document = Document::of("kind = \"watch\"\nsed = 1\n", "x.toml").expect("read");
    let said = document.allow(&["data"]).expect_err("refused").to_string();
    assert!(
        said.starts_with("x.toml:2: unknown key `sed`; did you mean `seed`?"),
        "{said}"
    );
}

#[test]
fn a_name_cannot_lead_out_of_the_runs() {
    let name = |name: &str| Document::of(format!("name = {name:?}"), "x.toml").and_then(|d| d.name());
    for bad in ["", "..", "a/b", ".hidden", "a\\b", "a b"] {
        let said = name(bad).expect_err(bad).to_string();
        assert!(
            said.starts_with("x.toml:1: ") && said.contains("cannot name a run"),
            "{said}"
        );
    }
    assert_eq!(name("mnist-cnn_2.1").ok().as_deref(), Some("mnist-cnn_2.1"));
    let own = Document::of("", "x/digits.toml").and_then(|d| d.name());
    assert_eq!(own.ok().as_deref(), Some("digits"));
}

#[test]
fn a_mistake_of_a_trial_is_shown_at_its_line_of_the_grid() {
    let text = "[round]\nreport_timeout = \"1m\"\n[grid]\n\"round.goal\" = [6, 7]\n";
    let document = Document::of(text, "x.toml").expect("read");
    let grid = Grid::of(&document).expect("read").expect("a grid");
    let trials = grid.all().expect("trials");
    let goal = |i: usize| {
        trials[i]
            .document
            .section::<Round>()
            .map(|r| r.goal)
            .map_err(|e| e.to_string())
    };
    assert_eq!(goal(0), Ok(6));
    let said = goal(1).expect_err("7 is taken");
    assert_eq!(said, "x.toml:4: 7 is taken\n  4 | \"round.goal\" = [6, 7]");
    assert!(!trials[0].document.has("grid") && document.has("grid"));
    // The folder of a trial keeps what gives the same again.
    let kept = Document::of(trials[0].document.text(), "config.toml").expect("read");
    assert_eq!(kept.section::<Round>().map(|r| r.goal).ok(), Some(6));
}

#[test]
fn what_is_too_large_or_absent_is_no_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.toml");
    let absent = Document::read(&path).expect_err("absent");
    assert!(
        !absent.is_misuse() && absent.to_string().contains("x.toml"),
        "{absent}"
    );
    std::fs::write(&path, " ".repeat((1 << 20) + 1)).expect("written");
    let large = Document::read(&path).expect_err("too large");
    assert!(
        large.is_misuse() && large.to_string().contains("1048577 bytes"),
        "{large}"
    );
}
