//! What `synod train` does to columns before a model sees them: scaling and principal components, with a federation or without.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const COLUMNS: usize = 6;
const FEDERATION: &str = "[federation]\nclients = 12\nrounds = 30\nfraction = 0.5\npartition = ";

/// Three clouds in a plane, seen through six columns of different sizes; a few training rows have a value that is far off.
fn rows(count: usize, salt: u64, wild: bool) -> Vec<([f32; COLUMNS], usize)> {
    let mut state = salt;
    let mut noise = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let centres = [(0.0, 0.0), (3.0, 0.0), (0.0, 3.0)];
    let mut row = |i: usize| {
        let (x, y) = (centres[i % 3].0 + noise(), centres[i % 3].1 + noise());
        let mut seen = [x, y, x + y, x - y, 2.0 * y - x, 0.0].map(|v| v + 0.1 * noise());
        seen[1] = 100.0 * seen[1] + 5000.0;
        seen[4] *= 1e-3;
        if wild && i % 97 == 5 {
            seen[3] = 60.0;
        }
        (seen, i % 3)
    };
    (0..count).map(&mut row).collect()
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, rows) in [("train", rows(600, 1, true)), ("test", rows(150, 2, false))] {
        let mut text = "a,b,c,d,e,f,class\n".to_owned();
        for (row, class) in rows {
            row.iter().for_each(|v| text += &format!("{v},"));
            text += &format!("{class}\n");
        }
        fs::write(folder.path().join(format!("{name}.csv")), text).expect("written");
    }
    folder
}

/// Runs an experiment with such keys in `[data]` and such tables after the others.
fn run(folder: &Path, name: &str, data: &str, tables: &str) -> Output {
    let text = format!(
        r#"kind = "train"
[data]
kind = "csv"
train = "train.csv"
test = "test.csv"
label = "class"
{data}
[model]
hidden = [8]
[train]
epochs = 4
batch = 10
rate = 0.01
{tables}
"#
    );
    let file = format!("{name}.toml");
    fs::write(folder.join(&file), text).expect("written");
    Command::new(env!("CARGO_BIN_EXE_synod"))
        .current_dir(folder)
        .args(["train", &file, "--json"])
        .output()
        .expect("synod runs")
}

fn summary(folder: &Path, name: &str, data: &str, tables: &str) -> Value {
    let output = run(folder, name, data, tables);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().expect("a list");
    list.iter().map(|v| v.as_f64().expect("a number")).collect()
}

#[test]
fn clients_that_share_sums_learn_from_the_same_components_however_rows_are_divided() {
    let folder = folder();
    let data = "standardise = \"robust\"\ncomponents = 3";
    let tables = [
        ("alone", String::new()),
        ("iid", format!("{FEDERATION}\"iid\"")),
        ("shards", format!("{FEDERATION}{{ shards = 2 }}")),
    ];
    let mut before: Option<(Value, Value, Vec<u8>)> = None;
    for (name, tables) in &tables {
        let mut said = summary(folder.path(), name, data, tables);
        assert!(said["accuracy"].as_f64() > Some(0.9), "{name}: {said}");
        let file = said["components"]["file"].take();
        let file = fs::read(folder.path().join(file.as_str().expect("a path"))).expect("components");
        let now = (said["scale"].take(), said["components"].take(), file);
        if let Some(before) = before.replace(now.clone()) {
            assert_eq!(before, now, "{name}");
        }
    }
}

#[test]
fn the_summary_tells_how_to_prepare_inputs_for_the_model() {
    let folder = folder();
    let said = summary(
        folder.path(),
        "own",
        "standardise = \"robust\"\ncomponents = 3",
        "",
    );
    assert_eq!(said["parameters"], 3 * 8 + 8 + 8 * 3 + 3, "three inputs");
    let (subtract, divide) = (
        numbers(&said["scale"]["subtract"]),
        numbers(&said["scale"]["divide_by"]),
    );
    let scaled: Vec<Vec<f64>> = rows(600, 1, true)
        .iter()
        .map(|(row, _)| {
            (0..COLUMNS)
                .map(|c| (f64::from(row[c]) - subtract[c]) / divide[c])
                .collect()
        })
        .collect();
    for c in 0..COLUMNS {
        let mut column: Vec<f64> = scaled.iter().map(|row| row[c]).collect();
        column.sort_by(f64::total_cmp);
        let middle = |at: usize| (column[at] + column[at + 1]) / 2.0;
        assert!(middle(299).abs() < 1e-2, "column {c}: {}", middle(299));
        assert!(
            (middle(449) - middle(149) - 1.0).abs() < 2e-2,
            "column {c} has its quartiles one apart"
        );
    }
    let file = folder.path().join("runs/own/components.json");
    let file: Value = serde_json::from_slice(&fs::read(file).expect("components")).expect("JSON");
    let mean = numbers(&file["mean"]);
    let variance = |along: &dyn Fn(&[f64]) -> f64| {
        let square = |row: &Vec<f64>| {
            let off: Vec<f64> = row.iter().zip(&mean).map(|(v, m)| v - m).collect();
            along(&off).powi(2)
        };
        scaled.iter().map(square).sum::<f64>()
    };
    let all: f64 = (0..COLUMNS).map(|c| variance(&|row| row[c])).sum();
    let shares = numbers(&said["components"]["shares"]);
    for (share, direction) in shares.iter().zip(file["directions"].as_array().expect("rows")) {
        let direction = numbers(direction);
        let along = |row: &[f64]| row.iter().zip(&direction).map(|(v, d)| v * d).sum();
        assert!((variance(&along) / all - share).abs() < 1e-6, "{share}");
    }
    let kept = said["components"]["variance_kept"].as_f64().expect("a share");
    assert!((kept - shares.iter().sum::<f64>()).abs() < 1e-12 && kept > 0.5 && kept <= 1.0);
}

#[test]
fn columns_are_learnt_from_in_any_scale_that_suits_them() {
    let folder = folder();
    for how in ["columns", "range", "robust"] {
        let data = format!("standardise = \"{how}\"");
        let said = summary(folder.path(), how, &data, "");
        assert!(said["accuracy"].as_f64() > Some(0.9), "{how}: {said}");
        assert_eq!(numbers(&said["scale"]["subtract"]).len(), COLUMNS);
        assert!(said["components"].is_null());
    }
    let said = summary(
        folder.path(),
        "all",
        "standardise = \"all\"\nvalidation = 0.2\ncomponents = 6",
        "",
    );
    assert_eq!(numbers(&said["scale"]["divide_by"]).len(), 1);
    let kept = said["components"]["variance_kept"].as_f64().expect("a share");
    assert!((kept - 1.0).abs() < 1e-9, "all components keep all: {kept}");
}

#[test]
fn components_that_cannot_be_are_refused_with_their_line() {
    let folder = folder();
    let refused = |data: &str, tables: &str| {
        let output = run(folder.path(), "bad", data, tables);
        assert_eq!(output.status.code(), Some(2), "{data}");
        assert!(!folder.path().join("runs").exists(), "nothing is left behind");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (data, tables, line, what) in [
        ("components = 0", "", "bad.toml:7: ", "nonzero"),
        (
            "standardise = \"columns\"\ncomponents = 7",
            "",
            "bad.toml:8: ",
            "`components` is 7, but rows have 6 columns",
        ),
        (
            "components = 3",
            "[augment]\nflip_vertical = 0.5",
            "bad.toml:7: ",
            "leave one of them out",
        ),
        ("standardise = \"middle\"", "", "bad.toml:7: ", "range, robust"),
    ] {
        let said = refused(data, tables);
        assert!(said.contains(line) && said.contains(what), "{said}");
    }
    let texts = "kind = \"train\"\n[data]\nkind = \"speakers\"\ntrain = \"plays.txt\"\ncomponents = 3\n[model]\nhidden = [8]\n\
        [train]\nepochs = 1\nbatch = 1\nrate = 0.1\n[federation]\nclients = 2\nrounds = 1\n";
    fs::write(folder.path().join("texts.toml"), texts).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_synod"))
        .current_dir(folder.path())
        .args(["train", "texts.toml"])
        .output()
        .expect("synod runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.contains("texts.toml:2: ") && said.contains("speakers"),
        "{said}"
    );
}
